//! The blocking facade: open, read, write and close, for programs without a runtime.
//!
//! A [`Handle`] is a [`Read`] and a [`Write`]; reading gives 0 bytes at the end, [`Handle::close`]
//! ends in good order, and dropping is an abort, as everywhere. How long an operation may go
//! without progress is said in the stack string: `tcp,timeout:all=30`.
//!
//! # When not to use it
//!
//! For many connections at once: each call keeps its thread until it is done. Inside an
//! asynchronous runtime every call here is an error, since it would keep a thread of that. For
//! stacks that work between calls too, as `udt` does, in programs that think for seconds between two
//! calls: nothing moves then, and the peer of a `udt` gives up after some time without a word.
//!
//! # Example
//!
//! ```
//! use std::io::{Read, Write};
//! use xio::blocking;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut listener = blocking::listen("tcp", "127.0.0.1:0")?;
//! let place = listener.info().local.expect("a socket has an address");
//! let server = std::thread::spawn(move || -> std::io::Result<String> {
//!     let mut text = String::new();
//!     listener.accept()?.read_to_string(&mut text)?;
//!     Ok(text)
//! });
//!
//! let mut handle = blocking::open("tcp,timeout:all=30,count", &place.to_string())?;
//! handle.write_all(b"hello")?;
//! handle.close()?;
//! assert_eq!(server.join().expect("the server does not panic")?, "hello");
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use xio_core::{
    BoxListener, BoxStream, DynStack, Error, ErrorKind, Incoming, Info, Listener as _, Operation,
    Passive, Result, Stream, Target, Transport,
};

use crate::registry;

/// A runtime that works only while somebody waits for it, in the thread that waits.
struct Engine(Option<Runtime>);

impl Engine {
    fn new(op: Operation) -> Result<Arc<Self>> {
        refuse_inside(op)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::from_io(e, "xio", op))?;
        Ok(Arc::new(Self(Some(runtime))))
    }

    fn run<F: Future>(&self, op: Operation, work: F) -> Result<F::Output> {
        refuse_inside(op)?;
        let runtime = self.0.as_ref().expect("it is taken in drop only");
        Ok(runtime.block_on(work))
    }
}

/// Blocking inside a runtime would stop its other tasks, this call's own I/O perhaps among them.
fn refuse_inside(op: Operation) -> Result<()> {
    match tokio::runtime::Handle::try_current() {
        Err(_) => Ok(()),
        Ok(_) => Err(Error::new(
            ErrorKind::Unsupported,
            "xio",
            op,
            "a blocking call inside an asynchronous runtime; await the stack's own methods there",
        )),
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A plain drop would wait for a thread that reads a terminal, and panic inside a runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens `contact` through the stack that a string describes.
///
/// # Errors
/// Those of the string, of the contact string and of opening.
pub fn open(stack: &str, contact: &str) -> Result<Handle> {
    open_with(&registry().stack(stack)?, &contact.parse()?)
}

/// Opens `to` through a stack.
///
/// # Errors
/// Those of opening.
pub fn open_with(stack: &DynStack, to: &Target) -> Result<Handle> {
    let engine = Engine::new(Operation::Connect)?;
    let stream = engine.run(Operation::Connect, stack.connect(to))??;
    Ok(Handle { stream, engine })
}

/// Listens at `contact` through the stack that a string describes.
///
/// # Errors
/// Those of the string, of the contact string and of listening.
pub fn listen(stack: &str, contact: &str) -> Result<Listener> {
    listen_with(&registry().stack(stack)?, &contact.parse()?)
}

/// Listens at `at` through a stack.
///
/// # Errors
/// Those of listening.
pub fn listen_with(stack: &DynStack, at: &Target) -> Result<Listener> {
    let engine = Engine::new(Operation::Listen)?;
    let inner = engine.run(Operation::Listen, stack.listen(at))??;
    Ok(Listener { inner, engine })
}

/// Waits for peers, one at a time.
pub struct Listener {
    inner: BoxListener,
    engine: Arc<Engine>,
}

impl Listener {
    /// Waits for the next peer and opens it, handshakes included.
    ///
    /// # Errors
    /// Those of accepting and of opening; after one of opening the listener goes on.
    pub fn accept(&mut self) -> Result<Handle> {
        let inner = &mut self.inner;
        let opening = async { inner.accept().await?.open().await };
        let stream = self.engine.run(Operation::Accept, opening)??;
        Ok(Handle {
            stream,
            engine: Arc::clone(&self.engine),
        })
    }

    /// What the listener says about itself.
    #[must_use]
    pub fn info(&self) -> Info {
        self.inner.info()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// An open handle; dropping it is an abort, [`close`](Self::close) is the good end.
pub struct Handle {
    // Dropped before the engine that drives it.
    stream: BoxStream,
    engine: Arc<Engine>,
}

impl Handle {
    /// Ends in good order: what was written is handed over, and the peer sees a clean end.
    ///
    /// # Errors
    /// Those of handing over what was still held; the peer then sees an abort.
    pub fn close(mut self) -> Result<()> {
        self.shutdown()
            .map_err(|e| Error::from_io(e, "xio", Operation::Shutdown))
    }

    /// Ends this direction in good order; the other can still be read.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn shutdown(&mut self) -> io::Result<()> {
        let stream = &mut self.stream;
        let ending = poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx));
        self.engine.run(Operation::Shutdown, ending)?
    }

    /// What the handle says about itself.
    #[must_use]
    pub fn info(&self) -> Info {
        self.stream.info()
    }
}

impl Read for Handle {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let stream = &mut self.stream;
        let mut buf = ReadBuf::new(buf);
        let reading = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buf));
        self.engine.run(Operation::Read, reading)??;
        Ok(buf.filled().len())
    }
}

impl Write for Handle {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let stream = &mut self.stream;
        let writing = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, buf));
        self.engine.run(Operation::Write, writing)?
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let stream = &mut self.stream;
        let writing = poll_fn(|cx| Pin::new(&mut *stream).poll_write_vectored(cx, bufs));
        self.engine.run(Operation::Write, writing)?
    }

    fn flush(&mut self) -> io::Result<()> {
        let stream = &mut self.stream;
        let flushing = poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx));
        self.engine.run(Operation::Flush, flushing)?
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

#[cfg(test)]
mod tests;

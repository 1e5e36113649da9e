//! The blocking facade: open, read, write and close, for programs without a runtime.
//!
//! A [`Handle`] is a [`Read`] and a [`Write`], and a [`Seek`] where the stack has positions.
//! Reading gives 0 bytes at the end, [`Handle::close`] ends in good order, and dropping the last
//! clone is an abort, as everywhere. A time limit is an option of the stack: `tcp,timeout:all=30`.
//!
//! Handles and listeners can be cloned: one thread reads while another writes (on a file they take
//! turns), and a third one cancels both. One background thread serves the sockets of all of them.
//!
//! # When not to use it
//!
//! For many connections at once: each call keeps its thread until it is done. Inside an
//! asynchronous runtime every call here is an error, since it would keep a thread of that.
//!
//! # Example
//!
//! ```
//! use std::io::{Read, Write};
//! use xio::blocking;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = blocking::listen("tcp", "127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let server = std::thread::spawn(move || -> std::io::Result<String> {
//!     let mut text = String::new();
//!     listener.accept()?.open()?.read_to_string(&mut text)?;
//!     Ok(text)
//! });
//!
//! let mut handle = blocking::open("tcp,timeout:all=30,count", &address.to_string())?;
//! handle.set("tcp:nodelay=no")?;
//! handle.write_all(b"hello")?;
//! handle.close()?;
//! assert_eq!(server.join().expect("the server does not panic")?, "hello");
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use xio_core::{
    BoxIncoming, BoxListener, BoxStream, DynStack, Error, ErrorKind, Incoming as _, Info,
    Listener as _, Operation, Passive, Result, Stream, Target, Transport,
};

use crate::registry;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The runtime of every handle: its one thread serves sockets and timers, the calling threads poll.
fn runtime(op: Operation) -> Result<&'static Runtime> {
    // Blocking inside a runtime would stop its other tasks, this call's own I/O perhaps among them.
    if tokio::runtime::Handle::try_current().is_ok() {
        let fact = "a blocking call inside an asynchronous runtime; \
                    await the stack's own methods there";
        return Err(Error::new(ErrorKind::Unsupported, "xio", op, fact));
    }
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let built = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("xio")
        .enable_all()
        .build()
        .map_err(|e| Error::from_io(e, "xio", op))?;
    Ok(RUNTIME.get_or_init(|| built))
}

/// A value that is dropped in the context of the runtime, where it may start timers and tasks.
struct Entered<T>(Option<T>);

impl<T> Entered<T> {
    fn new(value: T) -> Self {
        Self(Some(value))
    }

    fn get(&self) -> &T {
        self.0.as_ref().expect(Self::PRESENT)
    }

    fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(Self::PRESENT)
    }

    fn into_inner(mut self) -> T {
        self.0.take().expect(Self::PRESENT)
    }

    const PRESENT: &'static str = "only its end takes it";
}

impl<T> Drop for Entered<T> {
    fn drop(&mut self) {
        let _context = RUNTIME.get().map(Runtime::enter);
        drop(self.0.take());
    }
}

/// Waits for `work` on this thread, or until it is cancelled.
fn wait<T, E: From<Error>>(
    op: Operation,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match runtime(op)?.block_on(cancel.run_until_cancelled(work)) {
        Some(done) => done,
        None => Err(Error::new(ErrorKind::Cancelled, "xio", op, "cancelled").into()),
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
    let cancel = CancellationToken::new();
    let stream = wait(Operation::Connect, &cancel, stack.connect(to))?;
    Ok(Handle::new(stream, cancel))
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
    let cancel = CancellationToken::new();
    let inner = wait(Operation::Listen, &cancel, stack.listen(at))?;
    Ok(Listener {
        info: inner.info(),
        inner: Arc::new(tokio::sync::Mutex::new(Entered::new(inner))),
        cancel,
    })
}

/// Waits for peers; clones share the queue.
#[derive(Clone)]
pub struct Listener {
    inner: Arc<tokio::sync::Mutex<Entered<BoxListener>>>,
    info: Info,
    cancel: CancellationToken,
}

impl Listener {
    /// Waits for the next peer. [`Incoming::open`] runs the handshakes, so a slow peer stops no
    /// other.
    ///
    /// # Errors
    /// Those of accepting.
    pub fn accept(&self) -> Result<Incoming> {
        let accepting = async { self.inner.lock().await.get_mut().accept().await };
        let incoming = wait(Operation::Accept, &self.cancel, accepting)?;
        Ok(Incoming(Entered::new(incoming)))
    }

    /// The address that it listens at, with the port that the system chose.
    ///
    /// # Errors
    /// A bottom without socket addresses, such as `unix`.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.info.local_addr()
    }

    /// The description of the listener.
    #[must_use]
    pub fn info(&self) -> Info {
        self.info.clone()
    }

    /// Ends pending calls of all clones with [`ErrorKind::Cancelled`], and refuses later ones.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(f)
    }
}

/// A peer that was accepted and not opened; dropping it turns the peer away.
pub struct Incoming(Entered<BoxIncoming>);

impl Incoming {
    /// Runs every layer's handshake.
    ///
    /// # Errors
    /// Those of the handshakes; the listener goes on.
    pub fn open(self) -> Result<Handle> {
        let cancel = CancellationToken::new();
        let stream = wait(Operation::Open, &cancel, self.0.into_inner().open())?;
        Ok(Handle::new(stream, cancel))
    }

    /// The description of the peer, known before any handshake.
    #[must_use]
    pub fn info(&self) -> Info {
        self.0.get().info()
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.get().fmt(f)
    }
}

/// An open handle: clones share it, dropping the last one is an abort.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    cancel: CancellationToken,
}

struct Shared {
    /// Locked for the time of one poll.
    stream: Mutex<Entered<BoxStream>>,
    /// Whether both directions share one position, and with it the one waker of a file.
    has_one_turn: bool,
    /// Held by the one call of each direction that the stream keeps a waker for.
    reading: tokio::sync::Mutex<()>,
    writing: tokio::sync::Mutex<()>,
}

impl Shared {
    fn stream(&self) -> MutexGuard<'_, Entered<BoxStream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    fn new(stream: BoxStream, cancel: CancellationToken) -> Self {
        let shared = Arc::new(Shared {
            has_one_turn: stream
                .info()
                .chain
                .first()
                .is_some_and(|name| name == "file"),
            stream: Mutex::new(Entered::new(stream)),
            reading: tokio::sync::Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        });
        Self { shared, cancel }
    }

    /// Runs one operation of the stream, in its turn among those of `direction`.
    fn run<T>(
        &self,
        op: Operation,
        mut poll: impl FnMut(Pin<&mut BoxStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        let direction = match op {
            Operation::Read if !self.shared.has_one_turn => &self.shared.reading,
            _ => &self.shared.writing,
        };
        wait(op, &self.cancel, async {
            let _turn = direction.lock().await;
            poll_fn(|cx| poll(Pin::new(self.shared.stream().get_mut()), cx)).await
        })
    }

    /// Ends in good order: hands over all written bytes, and the peer sees a clean end.
    ///
    /// # Errors
    /// Those of handing the bytes over; the peer then sees an abort.
    pub fn close(self) -> Result<()> {
        self.shutdown()
            .map_err(|e| Error::from_io(e, "xio", Operation::Shutdown))
    }

    /// Ends this direction in good order; the other can still be read.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn shutdown(&self) -> io::Result<()> {
        self.run(Operation::Shutdown, |stream, cx| stream.poll_shutdown(cx))
    }

    /// Ends pending calls of all clones with [`ErrorKind::Cancelled`], and refuses later ones.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Sets options of one driver of the open stack: `tcp:nodelay=no`.
    ///
    /// # Errors
    /// A driver that is not in the stack, or an option that is fixed once the handle is open.
    pub fn set(&self, setting: &str) -> Result<()> {
        self.shared.stream().get_mut().set(setting)
    }

    /// The value of an option of one driver: `tcp:nodelay`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn get(&self, question: &str) -> Result<String> {
        self.shared.stream().get_mut().get(question)
    }

    /// The description of the handle.
    #[must_use]
    pub fn info(&self) -> Info {
        self.shared.stream().get().info()
    }
}

impl Read for &Handle {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        self.run(Operation::Read, |stream, cx| stream.poll_read(cx, &mut buf))?;
        Ok(buf.filled().len())
    }
}

impl Read for Handle {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for &Handle {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.run(Operation::Write, |stream, cx| stream.poll_write(cx, buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.run(Operation::Write, |stream, cx| {
            stream.poll_write_vectored(cx, bufs)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.run(Operation::Flush, |stream, cx| stream.poll_flush(cx))
    }
}

impl Write for Handle {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

/// [`Unsupported`](io::ErrorKind::Unsupported) where the bytes of the stack have no positions.
impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut started = false;
        self.run(Operation::Control, |stream, cx| {
            let stream = stream.get_mut();
            let Some(seek) = stream.as_seek() else {
                let fact = format!("{} has no positions", stream.info().chain.join(","));
                let op = Operation::Control;
                let error = Error::new(ErrorKind::Unsupported, "xio", op, fact);
                return Poll::Ready(Err(error.into()));
            };
            if !started {
                ready!(Pin::new(&mut *seek).poll_complete(cx))?;
                Pin::new(&mut *seek).start_seek(to)?;
                started = true;
            }
            Pin::new(seek).poll_complete(cx)
        })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.stream().get().fmt(f)
    }
}

#[cfg(test)]
mod tests;

//! Local sockets, by path or abstract name.
//!
//! # What it does
//!
//! Opens stream sockets of this machine and listens at them. The contact is a path
//! (`/run/xio.sock`, or `unix:////run/xio.sock`), or an abstract name (`@xio`), which is in no file
//! system and ends with its listener. Listening at `unix://` takes a free name, which
//! [`Info::contact`](xio_core::Info::contact) returns.
//!
//! A listener replaces a socket without a listener, and nothing else: not a live socket, and not a
//! file of another kind. Dropping it removes its path.
//!
//! # When not to use it
//!
//! Bare, where a crash of the peer must not look like its end: these sockets have no reset, so a
//! dropped handle looks like one that was shut down. A layer with its own end mark, such as
//! `verify`, distinguishes the two.
//!
//! # String form
//!
//! `unix` or `unix:mode=0600`.
//!
//! The options are those of [`UnixOptions`].
//!
//! An abstract name has no permissions: every user of the machine can connect to it.
//!
//! # Cost
//!
//! One system call per read or write. Files are copied through the program.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_unix::Unix;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("xio.sock");
//! let at = xio_core::Target::file(path.to_str().expect("a plain name"));
//! let mut options = xio_unix::UnixOptions::default();
//! options.mode = Some(0o600);
//! let unix = Unix::new().with_options(options);
//! let mut listener = unix.listen(&at).await?;
//!
//! let mut near = unix.connect(&at).await?;
//! let mut far = listener.accept().await?.open().await?;
//! near.write_all(b"hello").await?;
//! near.shutdown().await?;
//! let mut text = String::new();
//! far.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod options;
mod socket;

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use xio_core::{
    Driver, DynStack, Error, Incoming, Info, Listener, Operation, Passive, Result, Stream, Target,
    Transport, at_layer,
};

pub use options::UnixOptions;
use socket::SocketName;

const LAYER: &str = "unix";

/// The transport.
#[derive(Clone, Copy, Default)]
pub struct Unix {
    options: UnixOptions,
}

impl Unix {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Unix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

/// Adds the name of the socket to an error.
fn blame(error: io::Error, op: Operation, place: &SocketName) -> Error {
    Error::from_io(error, LAYER, op).about(format!("`{}`", place.contact()))
}

impl Transport for Unix {
    type Handle = UnixHandle;

    async fn connect(&self, to: &Target) -> Result<UnixHandle> {
        let place = SocketName::of(to, Operation::Connect)?;
        match socket::connect(&place).await {
            Ok(socket) => Ok(UnixHandle {
                socket,
                shut: false,
            }),
            Err(error) => Err(blame(error, Operation::Connect, &place)),
        }
    }
}

impl Passive for Unix {
    type Listener = UnixPassive;

    async fn listen(&self, at: &Target) -> Result<UnixPassive> {
        let place = SocketName::of(at, Operation::Listen)?;
        match socket::listen(&place, self.options) {
            Ok((socket, held)) => Ok(UnixPassive { socket, held }),
            Err(error) => Err(blame(error, Operation::Listen, &place)),
        }
    }
}

/// A listening socket; dropping it removes its path.
pub struct UnixPassive {
    socket: UnixListener,
    held: socket::Held,
}

impl Listener for UnixPassive {
    type Handle = UnixHandle;
    type Incoming = UnixIncoming;

    async fn accept(&mut self) -> Result<UnixIncoming> {
        let accepted = self.socket.accept().await;
        let (socket, _) = accepted.map_err(|e| Error::from_io(e, LAYER, Operation::Accept))?;
        Ok(UnixIncoming(UnixHandle {
            socket,
            shut: false,
        }))
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
        info.insert(self.held.place().contact());
    }
}

impl fmt::Debug for UnixPassive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.info(), self.held.place().contact())
    }
}

/// An accepted peer.
#[derive(Debug)]
pub struct UnixIncoming(UnixHandle);

impl Incoming for UnixIncoming {
    type Handle = UnixHandle;

    fn describe(&self, info: &mut Info) {
        self.0.describe(info);
    }

    async fn open(self) -> Result<UnixHandle> {
        Ok(self.0)
    }
}

/// An open connection.
pub struct UnixHandle {
    socket: UnixStream,
    shut: bool,
}

impl UnixHandle {
    /// The socket, for operations beyond this interface, such as the peer's credentials.
    #[must_use]
    pub const fn socket(&self) -> &UnixStream {
        &self.socket
    }
}

fn named<T>(answer: Poll<io::Result<T>>, op: Operation) -> Poll<io::Result<T>> {
    answer.map_err(|error| at_layer(error, LAYER, op))
}

impl AsyncRead for UnixHandle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        named(
            Pin::new(&mut self.socket).poll_read(cx, buf),
            Operation::Read,
        )
    }
}

impl AsyncWrite for UnixHandle {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        named(
            Pin::new(&mut self.socket).poll_write(cx, buf),
            Operation::Write,
        )
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        named(answer, Operation::Write)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket has no buffer in this process.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.shut {
            return Poll::Ready(Ok(()));
        }
        self.shut = true;
        named(
            Pin::new(&mut self.socket).poll_shutdown(cx),
            Operation::Shutdown,
        )
    }
}

impl Stream for UnixHandle {
    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for UnixHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base(LAYER, "local sockets", |options: UnixOptions, entry| {
        let unix = Unix::new().with_options(options);
        Ok(DynStack::new(unix, &entry.to_string()))
    })
}

#[cfg(test)]
mod tests;

//! `Stream`: an open handle, tokio's two traits plus what a stack must also pass on.
//!
//! # Close, end of file, cancellation
//!
//! | Event | Meaning |
//! | --- | --- |
//! | `poll_read` gives 0 bytes | The peer ended *this layer* properly: its own end mark was seen, and the end below it where one follows ([`poll_end`](crate::poll_end)) |
//! | The layer below ended without this layer's mark | `UnexpectedEof`, naming the layer |
//! | `poll_shutdown` | Flushes, writes this layer's end mark, shuts down below; idempotent; reading may go on |
//! | Drop without shutdown | Abort: the peer sees truncation (a reset, where the bottom is bare TCP) |
//! | Dropping a pending read or write future | Nothing is lost: bytes are either in the handle or not taken |
//! | Dropping `accept` | Nothing is lost |
//! | Dropping `connect` or `open` | The connection is closed, never half-made |
//!
//! `xio_testkit::driver_suite` holds every driver to each row.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::info::Info;

/// An open handle: a stream of bytes in both directions.
///
/// A boxed stream is a stream, so typed stacks and stacks from strings share everything above.
/// A layer that leaves bytes as they are does not implement this trait itself: it is an
/// [`Observer`](crate::Observer) in a [`Tap`](crate::Tap), which forwards every method.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a byte stream",
    label = "the layer above needs a byte stream here",
    note = "a datagram socket carries streams only through a driver that makes one of it"
)]
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Says what this handle is, the lowest layer first.
    fn describe(&self, info: &mut Info);

    /// Whether [`poll_send_file`](Self::poll_send_file) may work on this stack.
    fn is_send_file(&self) -> bool {
        false
    }

    /// Sends at most `len` bytes of `file`, from the byte `offset`, without bringing them here.
    ///
    /// Gives how many were sent, which is 0 at the end of the file. One call moves a bounded
    /// amount, so that a file which is not in memory cannot hold up a thread of the runtime.
    /// Use [`copy_file`](crate::copy_file), which falls back where this does not work.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) where the stack or the file cannot do it.
    fn poll_send_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, file, offset, len);
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Whether [`poll_splice`](Self::poll_splice) may work on this stack.
    fn is_splice(&self) -> bool {
        false
    }

    /// Moves at most `len` bytes that came into the write end of an empty `pipe`, inside the kernel.
    ///
    /// Gives how many were moved, which is 0 at the end as with a read. From the pipe they go on to
    /// a file, so that bytes on their way from a socket to a file are copied once.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) where the stack cannot do it.
    fn poll_splice(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, pipe, len);
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Writes as [`poll_write`](AsyncWrite::poll_write) does, and says that more follows at once.
    ///
    /// The layer may hold the bytes back for a short time to send them together with what follows:
    /// a block header before its payload. A caller that has nothing to add must not use it.
    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write(cx, buf)
    }

    /// Whether bytes may come in another order than that of the stream, each with its place.
    fn is_unordered(&self) -> bool {
        false
    }

    /// Reads bytes as they come and says where in the stream they belong; none added is the end.
    ///
    /// With `wanted`, only bytes that belong there, so that others wait where they are.
    ///
    /// Only where [`is_unordered`](Self::is_unordered); a handle is read in this way or with
    /// `poll_read`, which keeps the order, and not in both.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) where the stack only knows bytes in order.
    fn poll_read_block(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        let _ = (cx, wanted, buf);
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// What this handle says about itself, collected.
    fn info(&self) -> Info {
        let mut info = Info::default();
        self.describe(&mut info);
        info
    }
}

/// A stream whose type was erased, as stacks from strings give it.
pub type BoxStream = Box<dyn Stream>;

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn describe(&self, info: &mut Info) {
        (**self).describe(info);
    }

    fn is_send_file(&self) -> bool {
        (**self).is_send_file()
    }

    fn poll_send_file(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self).poll_send_file(cx, file, offset, len)
    }

    fn is_splice(&self) -> bool {
        (**self).is_splice()
    }

    fn poll_splice(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self).poll_splice(cx, pipe, len)
    }

    fn poll_write_more(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self).poll_write_more(cx, buf)
    }

    fn is_unordered(&self) -> bool {
        (**self).is_unordered()
    }

    fn poll_read_block(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        Pin::new(&mut **self).poll_read_block(cx, wanted, buf)
    }
}

impl std::fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.info())
    }
}

//! `Stream`: an open handle, tokio's two traits plus those methods that a stack must also forward.
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
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use crate::control::Control;
use crate::error::Result;
use crate::info::Info;
use crate::kernel::{KernelTransfer, KernelTransfers};

/// An open handle: a stream of bytes in both directions.
///
/// A boxed stream is a stream, so typed stacks and stacks from strings share everything above.
/// A layer that leaves bytes as they are does not implement this trait itself: it is an
/// [`Observer`](crate::Observer) in a [`Tap`](crate::Tap), which forwards every method. A layer
/// that changes bytes forwards [`describe`](Self::describe) and [`control`](Self::control).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a byte stream",
    label = "the layer above needs a byte stream here",
    note = "a datagram socket carries streams only through a driver that makes one of it"
)]
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Adds this handle to `info`, the lowest layer first.
    fn describe(&self, info: &mut Info);

    /// Sets or reads options of one driver of the open handle.
    ///
    /// Returns the value asked for, empty after a setting, and `None` where no layer answers. A
    /// layer answers for its own name and passes everything else to the layer below.
    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        let _ = control;
        None
    }

    /// The transfers that [`poll_kernel`](Self::poll_kernel) may carry out on this stack.
    fn kernel_transfers(&self) -> KernelTransfers {
        KernelTransfers::NONE
    }

    /// Moves bytes between this stream and a descriptor inside the kernel.
    ///
    /// Returns the number of bytes moved; 0 is the end of the file or of the stream. One call moves
    /// a bounded amount, so that a file which is not in memory cannot hold up a thread of the
    /// runtime. [`copy_file`](crate::copy_file) falls back where this does not work.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) where the stack or the file cannot do it.
    fn poll_kernel(
        &mut self,
        cx: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, transfer);
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// The handle by which bytes are read in the order of their arrival, where the stream has one.
    fn blocks(&mut self) -> Option<&mut dyn BlockRead> {
        None
    }

    /// The handle by which the position of the next read and write is moved, where it has one.
    fn as_seek(&mut self) -> Option<&mut (dyn AsyncSeek + Unpin)> {
        None
    }

    /// The description of this handle.
    fn info(&self) -> Info {
        let mut info = Info::default();
        self.describe(&mut info);
        info
    }
}

/// Reads of a stream that receives its bytes in any order, each with its position.
///
/// A handle is read in this way or with `poll_read`, which keeps the order, and not in both.
pub trait BlockRead {
    /// Reads bytes as they arrive and returns their position in the stream; no byte is the end.
    ///
    /// With `wanted`, reads only the bytes at that position, so that others wait where they are.
    ///
    /// # Errors
    /// Those of [`poll_read`](AsyncRead::poll_read).
    fn poll_read_block(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>>;
}

/// A stream of an erased type, as stacks from strings return it.
pub type BoxStream = Box<dyn Stream>;

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn describe(&self, info: &mut Info) {
        (**self).describe(info);
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        (**self).control(control)
    }

    fn kernel_transfers(&self) -> KernelTransfers {
        (**self).kernel_transfers()
    }

    fn poll_kernel(
        &mut self,
        cx: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        (**self).poll_kernel(cx, transfer)
    }

    fn blocks(&mut self) -> Option<&mut dyn BlockRead> {
        (**self).blocks()
    }

    fn as_seek(&mut self) -> Option<&mut (dyn AsyncSeek + Unpin)> {
        (**self).as_seek()
    }
}

impl std::fmt::Debug for dyn Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.info())
    }
}

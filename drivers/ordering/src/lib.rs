//! Sorts blocks that arrive out of order into the order of the stream.
//!
//! # What it does
//!
//! Reads blocks from the layer below in any order, keeps those that are not next, and returns all
//! in order. Its memory is bounded: when it is full, it requests only the next block from the layer
//! below, so that the others stay there.
//!
//! It is for layers with block offsets ([`blocks`](xio_core::Stream::blocks)), as
//! `mode_e`: `tcp,mode_e:streams=4,ordering`. `mode_e` alone keeps the order too, by leaving
//! connections unread; this layer reads them all, which helps where an unread connection stalls its
//! sender. It is needed for senders with blocks out of order within a connection. On any other
//! layer it has no effect.
//!
//! # When not to use it
//!
//! Where blocks are written to a file by their offset: the order is not needed then.
//!
//! # String form
//!
//! `ordering` or `ordering:key=value;key=value`.
//!
//! The options are those of [`OrderingOptions`].
//!
//! # Cost
//!
//! One copy of a block that is not next, or that is read into a buffer shorter than `buf_size`;
//! memory of at most `max_buf_count` and one buffers of `buf_size`.
//!
//! # Example
//!
//! ```
//! use xio_core::Transport;
//! use xio_ordering::{Ordering, OrderingOptions};
//! use xio_testkit::Mem;
//!
//! let options: OrderingOptions = "buf_size=64K;max_buf_count=16".parse()?;
//! let stack = Mem::new().push(Ordering::new().with_options(options));
//! assert_eq!(format!("{stack:?}"), "mem, ordering:buf_size=64K;max_buf_count=16");
//! # Ok::<(), xio_core::Error>(())
//! ```

#![forbid(unsafe_code)]

mod options;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{
    Control, Driver, DynLayer, Error, ErrorKind, Info, KernelTransfer, KernelTransfers, Operation,
    Result, Stream, Transform,
};

pub use options::OrderingOptions;

const LAYER: &str = "ordering";

/// The layer.
#[derive(Clone, Copy, Default)]
pub struct Ordering {
    options: OrderingOptions,
}

impl Ordering {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Ordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl<S: Stream> Transform<S> for Ordering {
    type Handle = Ordered<S>;

    async fn respond(&self, mut inner: S) -> Result<Self::Handle> {
        Ok(Ordered {
            sorts: self.options.buffering && inner.blocks().is_some(),
            inner,
            options: self.options,
            next: 0,
            kept: BTreeMap::new(),
            taken: 0,
            spare: Vec::new(),
            ended: false,
        })
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

/// A stream in order.
pub struct Ordered<S> {
    inner: S,
    options: OrderingOptions,
    sorts: bool,
    /// Offset of the next byte to return.
    next: u64,
    /// Later blocks, by their offset.
    kept: BTreeMap<u64, Vec<u8>>,
    /// Number of bytes returned of the first of them.
    taken: usize,
    /// Buffer for blocks, used if the caller's may be too short.
    spare: Vec<u8>,
    ended: bool,
}

fn broken(kind: ErrorKind, fact: String) -> io::Error {
    Error::new(kind, LAYER, Operation::Read, fact).into()
}

impl<S: Stream> Ordered<S> {
    /// Returns bytes of the kept blocks, if they are next.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<bool> {
        let Some(first) = self.kept.first_entry() else {
            return Ok(false);
        };
        let place = *first.key() + self.taken as u64;
        if place > self.next {
            return Ok(false);
        }
        if place < self.next {
            let fact = format!("the bytes at {place} arrived twice");
            return Err(broken(ErrorKind::Protocol, fact));
        }
        let rest = first.get().get(self.taken..).unwrap_or_default();
        let n = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..n).unwrap_or_default());
        self.taken += n;
        self.next += n as u64;
        if n == rest.len() {
            first.remove();
            self.taken = 0;
        }
        Ok(true)
    }

    /// Reads one block from below, into `buf` if it is next, else into memory; `false` at the end.
    fn poll_take(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<bool>> {
        let full = self.kept.len() >= self.options.max_buf_count as usize;
        let wanted = full.then_some(self.next);
        let before = buf.filled().len();
        let size = self.options.buf_size.in_memory();
        // A short buffer of the caller would split a block that may have to be kept.
        let direct = full || buf.remaining() >= size;
        let Some(blocks) = self.inner.blocks() else {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        };
        let (place, came) = if direct {
            let place = ready!(blocks.poll_read_block(cx, wanted, buf))?;
            (place, buf.filled().get(before..).unwrap_or_default())
        } else {
            self.spare.resize(size, 0);
            let mut window = ReadBuf::new(&mut self.spare);
            let place = ready!(blocks.poll_read_block(cx, wanted, &mut window))?;
            let n = window.filled().len();
            (place, self.spare.get(..n).unwrap_or_default())
        };
        if came.is_empty() {
            self.ended = true;
            return Poll::Ready(Ok(false));
        }
        if place < self.next || self.kept.contains_key(&place) {
            let fact = format!("the bytes at {place} arrived twice");
            return Poll::Ready(Err(broken(ErrorKind::Protocol, fact)));
        }
        if direct && place == self.next {
            self.next += came.len() as u64;
            return Poll::Ready(Ok(true));
        }
        self.kept.insert(place, came.to_vec());
        if direct {
            buf.set_filled(before);
        }
        Poll::Ready(Ok(true))
    }
}

impl<S: Stream> AsyncRead for Ordered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.sorts {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        for _ in 0..this.options.max_read_count {
            if buf.remaining() == 0 || this.give(buf)? || buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
            if this.ended {
                return Poll::Ready(match this.kept.first_key_value() {
                    None => Ok(()),
                    Some((place, _)) => Err(broken(
                        ErrorKind::UnexpectedEof,
                        format!("the bytes from {} to {place} are missing", this.next),
                    )),
                });
            }
            ready!(this.poll_take(cx, buf))?;
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        // Many blocks arrived, but not the next one: let other tasks run.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: Stream> AsyncWrite for Ordered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for Ordered<S> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        info.layer(LAYER);
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.inner.control(control)
    }

    fn kernel_transfers(&self) -> KernelTransfers {
        let mut transfers = self.inner.kernel_transfers();
        transfers.splice &= !self.sorts;
        transfers
    }

    fn poll_kernel(
        &mut self,
        cx: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.sorts && matches!(transfer, KernelTransfer::Splice { .. }) {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        self.inner.poll_kernel(cx, transfer)
    }
}

impl<S: Stream> fmt::Debug for Ordered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        LAYER,
        "blocks into the order of the stream",
        |options: OrderingOptions, _| Ok(DynLayer::new(Ordering::new().with_options(options))),
    )
}

#[cfg(test)]
mod tests;

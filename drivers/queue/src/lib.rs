//! Accepts writes while earlier ones are still in progress.
//!
//! # What it does
//!
//! One write at a time goes to the layer below; bytes written meanwhile wait in a queue of bounded
//! size and go down together. So a writer need not wait for each small write, and many of them
//! become few. While the layer below keeps up, nothing is queued and nothing copied.
//!
//! The queue moves when the stream is written to, flushed or shut down, not by itself: **flush
//! before waiting for an answer**, as with any buffer. An error of the layer below may be returned
//! by a later call than the write that failed. Dropping the handle drops the queued bytes.
//!
//! # When not to use it
//!
//! Below layers that make blocks, such as `compress`, which have a buffer of their own; or for
//! large writes: one that fills the queue waits as it would without.
//!
//! # String form
//!
//! `queue` or `queue:size=256K`.
//!
//! The options are those of [`QueueOptions`].
//!
//! # Cost
//!
//! One copy of queued bytes, and the memory for them.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_queue::{Queue, QueueOptions};
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The network takes ten bytes; the queue takes the rest, so the writer is not held up.
//! let stack = Mem::new().capacity(10).push(Queue::new());
//! let at = "somewhere:1".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let mut near = stack.connect(&at).await?;
//! for _ in 0..100 {
//!     near.write_all(b"0123456789").await?;
//! }
//! let mut far = listener.accept().await?.open().await?;
//! let mut arrived = [0; 1000];
//! let (sent, read) = tokio::join!(near.flush(), far.read_exact(&mut arrived));
//! sent?;
//! read?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{
    BlockRead, ByteSize, Control, Driver, DynLayer, Info, KernelTransfer, KernelTransfers, Outbox,
    Result, Setting, Stream, Transform,
};

const MAX_SIZE: u64 = 64 << 20;

xio_core::options! {
    /// Size of the queue.
    #[derive(Copy)]
    pub struct QueueOptions for "queue" [impl Queue] {
        /// Most queued bytes.
        size: ByteSize = ByteSize::new(64 << 10), "size",
            Setting::new()
                .takes("bytes, 1 to 64M", &["1", "64M"])
                .only(|size| size.bytes() <= MAX_SIZE);
    }
}

/// The layer.
#[derive(Clone, Copy, Default)]
pub struct Queue {
    options: QueueOptions,
}

impl Queue {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, "queue", &self.options)
    }
}

impl<S: Stream> Transform<S> for Queue {
    type Handle = Queued<S>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(Queued {
            inner,
            waiting: Outbox::new(),
            size: self.options.size.in_memory(),
        })
    }

    fn describe(&self, info: &mut Info) {
        info.layer("queue");
    }
}

/// A stream with a queue for its writes.
pub struct Queued<S> {
    inner: S,
    waiting: Outbox,
    size: usize,
}

impl<S: Stream> Queued<S> {
    /// Writes by `write` where the queue is empty and the layer below is ready, else into the
    /// queue.
    fn poll_queueing(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.waiting.poll_drain(cx, &mut self.inner)?.is_ready()
            && let Poll::Ready(done) = write(Pin::new(&mut self.inner), cx)
        {
            return Poll::Ready(done);
        }
        let mut room = self.size.saturating_sub(self.waiting.len());
        let mut taken = 0;
        for buf in bufs {
            let part = buf.get(..room).unwrap_or(buf);
            self.waiting.tail().extend_from_slice(part);
            room -= part.len();
            taken += part.len();
        }
        if taken == 0 && bufs.iter().any(|buf| !buf.is_empty()) {
            // The layer below wakes this task.
            return Poll::Pending;
        }
        Poll::Ready(Ok(taken))
    }
}

impl<S: Stream> AsyncRead for Queued<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: Stream> AsyncWrite for Queued<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_queueing(cx, &[IoSlice::new(buf)], |inner, cx| {
            inner.poll_write(cx, buf)
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_queueing(cx, bufs, |inner, cx| inner.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.waiting.poll_drain(cx, &mut this.inner))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.waiting.poll_drain(cx, &mut this.inner))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for Queued<S> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        info.layer("queue");
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.inner.control(control)
    }

    fn kernel_transfers(&self) -> KernelTransfers {
        self.inner.kernel_transfers()
    }

    fn poll_kernel(
        &mut self,
        cx: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        // A file does not overtake queued bytes.
        if !matches!(transfer, KernelTransfer::Splice { .. }) {
            ready!(self.waiting.poll_drain(cx, &mut self.inner))?;
        }
        self.inner.poll_kernel(cx, transfer)
    }

    fn blocks(&mut self) -> Option<&mut dyn BlockRead> {
        self.inner.blocks()
    }
}

impl<S: Stream> fmt::Debug for Queued<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        "queue",
        "takes writes while others are under way",
        |options: QueueOptions, _| Ok(DynLayer::new(Queue::new().with_options(options))),
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use xio_testkit::Mem;

    use super::*;

    #[tokio::test]
    async fn queued_bytes_are_bounded_and_go_down_together() {
        let (near, mut far) = Mem::new().capacity(100).pair();
        let queue = Queue::new().with_options("size=1000".parse().unwrap());
        let mut near = queue.respond(near).await.unwrap();
        let mut taken = 0;
        loop {
            let writing = tokio::time::timeout(std::time::Duration::ZERO, near.write(&[7; 30]));
            match writing.await {
                Ok(n) => taken += n.unwrap(),
                Err(_) => break,
            }
        }
        // The capacity of the network and of the queue.
        assert_eq!(taken, 1100);
        let mut first = [0; 100];
        far.read_exact(&mut first).await.unwrap();
        assert_eq!(near.write(&[8; 500]).await.unwrap(), 100);
        let mut rest = vec![0; 1100];
        let (flushed, read) = tokio::join!(near.flush(), far.read_exact(&mut rest));
        flushed.unwrap();
        read.unwrap();
        assert!(rest.ends_with(&[8; 100]) && !rest.contains(&0));
    }

    #[test]
    fn options_round_trip_and_are_bounded() {
        for good in ["", "size=1M", "size=1"] {
            assert_eq!(good.parse::<QueueOptions>().unwrap().to_string(), good);
        }
        for bad in ["size=0", "size=65M", "size=x", "depth=1"] {
            assert!(bad.parse::<QueueOptions>().is_err(), "{bad}");
        }
    }
}

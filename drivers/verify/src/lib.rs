//! Checks that the received bytes are the written ones.
//!
//! # What it does
//!
//! Splits the stream into blocks, each with its length, its number and a CRC-32C, and ends it with
//! a SHA-256 digest of everything. A block is returned only after its checksum agrees, and the end
//! only after the digest agrees. A flipped bit, a lost, repeated or exchanged block is an error
//! that names the block; an end without the digest is truncation. Each direction is checked by
//! itself.
//!
//! ```text
//!  0         4         8         12
//!  +---------+---------+---------+----------------
//!  | length  | number  | CRC-32C | length bytes          length 0: the end, and 32 bytes of digest
//!  +---------+---------+---------+----------------        numbers wrap; all fields big-endian
//! ```
//!
//! The CRC covers the eight bytes before it and the bytes of the block.
//!
//! # When not to use it
//!
//! Against deliberate changes: they need a key, so use `tls`. On top of `tls` it is redundant. Both
//! ends need it.
//!
//! # String form
//!
//! `verify` or `verify:block=256K`.
//!
//! The options are those of [`VerifyOptions`].
//!
//! # Cost
//!
//! Twelve bytes for each block and 44 at the end; one copy each way, one CRC and one SHA-256 of
//! everything, which limits it to the digest speed of one core. Each write becomes a block, so
//! small writes become small blocks.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_testkit::Mem;
//! use xio_verify::Verify;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = Mem::new().push(Verify::default());
//! let at = "somewhere:1".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let mut near = stack.connect(&at).await?;
//! let mut far = listener.accept().await?.open().await?;
//! near.write_all(b"hello").await?;
//! near.shutdown().await?;
//!
//! let mut text = String::new();
//! far.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod block;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{
    ByteSize, Control, Driver, DynLayer, Error, ErrorKind, Info, Operation, Outbox, Result,
    Setting, Stream, Transform, poll_end, shut_down,
};

pub use block::{BadBlock, Opener, Sealer};

const LAYER: &str = "verify";

xio_core::options! {
    /// Size of the blocks.
    #[derive(Copy)]
    pub struct VerifyOptions for "verify" [impl Verify] {
        /// Most bytes of a block.
        block: ByteSize = ByteSize::new(64 << 10), "block",
            Setting::new()
                .takes("bytes, 1K to 1M", &["1K", "1M"])
                .only(|size| (1 << 10..=block::MAX_BLOCK as u64).contains(&size.bytes()));
    }
}

/// The layer.
#[derive(Clone, Copy, Default)]
pub struct Verify {
    options: VerifyOptions,
}

impl Verify {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl<S: Stream> Transform<S> for Verify {
    type Handle = Verified<S>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(Verified {
            inner,
            block: self.options.block.in_memory(),
            opener: Opener::new(),
            sealer: Sealer::new(),
            waiting: Outbox::new(),
            shut: false,
        })
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

/// A stream in checked blocks.
pub struct Verified<S> {
    inner: S,
    block: usize,
    opener: Opener,
    sealer: Sealer,
    waiting: Outbox,
    shut: bool,
}

impl<S: Stream> AsyncRead for Verified<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let blame = |bad: BadBlock| {
            let kind = match bad {
                BadBlock::Cut { .. } => ErrorKind::UnexpectedEof,
                _ => ErrorKind::Protocol,
            };
            io::Error::from(Error::new(kind, LAYER, Operation::Read, bad.to_string()))
        };
        while buf.remaining() > 0 {
            let good = this.opener.good();
            if !good.is_empty() {
                let n = good.len().min(buf.remaining());
                buf.put_slice(good.get(..n).unwrap_or_default());
                this.opener.taken(n);
                return Poll::Ready(Ok(()));
            }
            if this.opener.is_marked() {
                let ended = ready!(poll_end(cx, &mut this.inner))?;
                this.opener.came(usize::from(!ended)).map_err(blame)?;
            }
            // The missing part may be long, so memory grows only with the received bytes.
            let Some(room) = this.opener.room().map_err(blame)? else {
                return Poll::Ready(Ok(()));
            };
            let mut fresh = ReadBuf::new(room);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut fresh))?;
            let n = fresh.filled().len();
            this.opener.came(n).map_err(blame)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Verified<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.shut {
            return Poll::Ready(Err(shut_down(LAYER, Operation::Write)));
        }
        ready!(this.waiting.poll_drain(cx, &mut this.inner))?;
        let part = buf.get(..this.block).unwrap_or(buf);
        if !part.is_empty() {
            this.sealer.block(part, this.waiting.tail());
            // The bytes are accepted; the next call writes the rest.
            let _ = this.waiting.poll_drain(cx, &mut this.inner)?;
        }
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.waiting.poll_drain(cx, &mut this.inner))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.shut {
            this.shut = true;
            this.sealer.end(this.waiting.tail());
        }
        ready!(this.waiting.poll_drain(cx, &mut this.inner))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for Verified<S> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        info.layer(LAYER);
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.inner.control(control)
    }
}

impl<S: Stream> fmt::Debug for Verified<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        LAYER,
        "checksums and a digest of what passes",
        |options: VerifyOptions, _| Ok(DynLayer::new(Verify::new().with_options(options))),
    )
}

#[cfg(test)]
mod tests;

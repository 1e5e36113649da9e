//! One stream over several connections, in the blocks of GridFTP's MODE E (GFD.20 §4).
//!
//! # What it does
//!
//! Opens several connections in the stack below and writes each block, with its offset, to one that
//! is ready. The other end restores the order and needs no memory for that: it does not read a
//! connection whose block is not next, so the block waits in the network's buffers and holds up its
//! sender.
//!
//! The listening end takes as many connections as the sender announces. The wire does not say which
//! stream a connection belongs to, so **a listener serves one stream at a time**: the next is
//! accepted when the last has arrived whole, or its handle is dropped. With `streams=1` each
//! connection is a stream, and this does not apply.
//!
//! The accepting end writes to its first connection, in the same form. A GridFTP or Globus XIO peer
//! sends one way only, from the end that connects.
//!
//! A connection that breaks before its end mark is truncation of the whole. One that closes without
//! a byte is ignored. Once all others have ended, a missing one is waited for a minute.
//!
//! # When not to use it
//!
//! Where one connection fills the path. From senders that put blocks of one connection in another
//! order than the stream's, unless `ordering` is on top with enough memory.
//!
//! # String form
//!
//! `mode_e` or `mode_e:streams=4;block=256K`, over any stack: `tcp,tls,mode_e:streams=4`.
//!
//! The options are those of [`ModeEOptions`].
//!
//! # Cost
//!
//! 17 bytes and one copy for each block written, and memory for one block a connection. Reading
//! adds one small read for each block.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_mode_e::ModeE;
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = ModeE::over(Mem::new()).streams(4);
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

mod handle;
mod lane;
mod options;
mod passive;

use std::fmt;

use xio_core::{Driver, Result, Stream, Target, Transport};

pub use handle::ModeEHandle;
pub use options::ModeEOptions;
pub use passive::{ModeEIncoming, ModeEPassive};

const LAYER: &str = "mode_e";

/// A transport of streams over several connections of the one below.
#[derive(Clone)]
pub struct ModeE<T> {
    below: T,
    options: ModeEOptions,
}

impl<T> ModeE<T> {
    /// Puts streams over connections of `below`.
    #[must_use]
    pub fn over(below: T) -> Self {
        let options = ModeEOptions::default();
        Self { below, options }
    }
}

impl<T: fmt::Debug> fmt::Debug for ModeE<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, ", self.below)?;
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl<T: Transport<Handle: Stream>> Transport for ModeE<T> {
    type Handle = ModeEHandle<T::Handle>;

    async fn connect(&self, to: &Target) -> Result<Self::Handle> {
        // One after the other, so that the first to arrive is the first of the handle.
        let mut lanes = Vec::new();
        for _ in 0..self
            .options
            .streams
            .unwrap_or(1)
            .clamp(1, options::MAX_STREAMS)
        {
            lanes.push(self.below.connect(to).await?);
        }
        Ok(ModeEHandle::opened(lanes, self.options))
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::over(
        LAYER,
        "one stream over several connections",
        |options: ModeEOptions, entry, below| {
            let stack = ModeE::over(below.clone()).with_options(options);
            Ok(below.under(stack, entry))
        },
    )
}

#[cfg(test)]
mod tests;

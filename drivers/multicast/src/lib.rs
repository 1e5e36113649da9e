//! Sends every write to several receivers, in a tree.
//!
//! # What it does
//!
//! The end that connects writes once. The bytes go to at most `p` receivers, and each of these
//! forwards them to its share of the others, so that no link carries the whole load. The first
//! receiver is the contact, the others are `urls`; all are reached through the stack below.
//!
//! The receivers listen with this driver as well, and read the bytes like any stream's. One with
//! `forward=yes` also forwards them while it reads; its own `shutdown` then reports that it, and
//! all receivers behind it, are complete. **To know that all receivers have everything, shut down
//! and read to the end**: the end is clean if every receiver has shut down cleanly, and otherwise
//! an error that names the failed ones. Only the first receiver can answer; its bytes are read as
//! usual.
//!
//! # When not to use it
//!
//! Where receivers do not trust the sender: one that forwards connects to any contact that the
//! sender names. With reports over a transport without half-close, as `udt`: reports have no way
//! back there, so reading to the end fails, and so does a receiver's `shutdown`. The sender's
//! `shutdown` then means only that the receivers it serves itself have everything in memory. In a
//! slow and a fast group: the slowest receiver, at most 1 MiB behind, sets the pace.
//!
//! # String form
//!
//! `multicast:key=value;key=value` over any stack, as `tcp,multicast:urls=#b:5000#c:5000;p=2`.
//!
//! The options are those of [`MulticastOptions`].
//!
//! Globus' `gridftp_multicast` has options of its GridFTP connections as well (`tcpbs`, `subject`,
//! parallel streams): here they are options of the drivers below, `tcp:sndbuf`, `tls:name` and
//! `mode_e:streams`. Its `local_write` is not needed: a receiver that forwards reads the bytes too.
//!
//! # Cost
//!
//! One copy of each write, in a window of 1 MiB, and a write for each receiver served by this end.
//! Forwarding adds one copy to reading.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_multicast::{Multicast, MulticastOptions};
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let net = Mem::new();
//! let receiver = Multicast::over(net.clone());
//! let mut first = receiver.listen(&"first:1".parse()?).await?;
//! let mut second = receiver.listen(&"second:2".parse()?).await?;
//!
//! let sender = Multicast::over(net).with_options("urls=#second:2".parse()?);
//! let mut near = sender.connect(&"first:1".parse()?).await?;
//! near.write_all(b"to all").await?;
//! near.shutdown().await?;
//!
//! for listener in [&mut first, &mut second] {
//!     let mut far = listener.accept().await?.open().await?;
//!     let mut text = String::new();
//!     far.read_to_string(&mut text).await?;
//!     assert_eq!(text, "to all");
//!     far.shutdown().await?;
//! }
//! // Both receivers have everything.
//! assert_eq!(near.read_to_end(&mut Vec::new()).await?, 0);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod fan;
mod handle;
mod intro;
mod options;
mod passive;

use std::fmt;
use std::sync::Arc;

use xio_core::{Driver, Result, Stream, Target, Transport};

use fan::Fan;
pub use handle::MulticastHandle;
pub use options::MulticastOptions;
pub use passive::{MulticastIncoming, MulticastPassive};

const LAYER: &str = "multicast";

/// A transport that sends every write to several receivers.
#[derive(Clone)]
pub struct Multicast<T> {
    below: Arc<T>,
    options: MulticastOptions,
}

impl<T> Multicast<T> {
    /// Reaches receivers through `below`.
    #[must_use]
    pub fn over(below: T) -> Self {
        Self {
            below: Arc::new(below),
            options: MulticastOptions::default(),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Multicast<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, ", self.below)?;
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl<T: Transport<Handle: Stream>> Transport for Multicast<T> {
    type Handle = MulticastHandle<T::Handle>;

    async fn connect(&self, to: &Target) -> Result<Self::Handle> {
        let mut receivers = vec![to.clone()];
        for url in &self.options.urls {
            receivers.push(url.parse()?);
        }
        let fan = Fan::open(&*self.below, &receivers, self.options.p, true).await;
        let handle = MulticastHandle::root(fan, self.options.ignore_errors);
        handle.judge(xio_core::Operation::Connect)?;
        Ok(handle)
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::over(
        LAYER,
        "what is written goes to several receivers",
        |options: MulticastOptions, entry, below| {
            let stack = Multicast::over(below.clone()).with_options(options);
            Ok(below.under(stack, entry))
        },
    )
}

#[cfg(test)]
mod tests;

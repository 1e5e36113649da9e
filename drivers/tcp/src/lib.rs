//! TCP: the bottom of most stacks.
//!
//! # What it does
//!
//! Opens connections and waits for them, over IPv4 and IPv6, with the socket set as asked. It
//! sends files without copying them through the program, sends header and payload in one segment
//! ([`KernelTransfer::Head`](xio_core::KernelTransfer::Head)), ends in good order on `shutdown` and
//! resets when dropped without. Its description carries the kernel's statistics of the path, as
//! [`PathStats`](xio_core::PathStats): round-trip time, size of packets, segments sent, sent again and
//! received out of order, and whether the path is lossy where `lossy` was refused.
//!
//! # When not to use it
//!
//! Over lossy paths of long delay where the kernel has no better congestion control (`cc`, `lossy`);
//! and bare, where bytes need protection: put a layer on top.
//!
//! # String form
//!
//! `tcp` or `tcp:key=value;key=value`. Sizes are bytes (`4M`) or bits (`8Kbit` is 1024 bytes).
//!
//! The options are those of [`TcpOptions`].
//!
//! A caller may ask for some of these per open with [`SocketHints`].
//!
//! # Cost
//!
//! That of tokio's `TcpStream`: each method is one call of it, and with `lossy` one of `getsockopt`
//! in a second or ten round trips of sending. Sending a file is one `sendfile` for at most 512 KiB,
//! so that a file that is not in memory cannot hold up a thread of the runtime for longer than the
//! disk takes for that. Splicing from a fast sender is woken for 256 KiB or after 20 ms, not for
//! each segment (`SO_RCVLOWAT`), which needs the runtime's timers.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Target, Transport};
//! use xio_tcp::Tcp;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tcp = Tcp::default();
//! let mut listener = tcp.listen(&"127.0.0.1:0".parse()?).await?;
//! let place = listener.info().local.expect("a socket has an address");
//!
//! let to = Target::from(place);
//! let (near, far) = tokio::join!(tcp.connect(&to), listener.accept());
//! let (mut near, mut far) = (near?, far?.open().await?);
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

mod control;
mod listener;
mod loss;
mod low_water;
mod options;
mod path;
mod ports;
mod socket;
mod stream;

use std::fmt;
use std::sync::Arc;

use xio_core::{Driver, DynStack, Passive, Result, SocketHints, Target, Transport};

use loss::LossyPeers;

pub use listener::{TcpIncoming, TcpPassive};
pub use loss::may_change_to;
pub use options::TcpOptions;
pub use stream::TcpHandle;

/// The transport: makes connections and listeners with its options.
#[derive(Clone, Default)]
pub struct Tcp {
    options: TcpOptions,
    lossy: Arc<LossyPeers>,
}

impl Tcp {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Transport for Tcp {
    type Handle = TcpHandle;

    async fn connect(&self, to: &Target) -> Result<TcpHandle> {
        let options = self.options.hinted(to.hint::<SocketHints>());
        let handle = TcpHandle::from(socket::connect(to, &options).await?);
        Ok(handle.with_lossy(&options, &self.lossy))
    }
}

impl Passive for Tcp {
    type Listener = TcpPassive;

    async fn listen(&self, at: &Target) -> Result<TcpPassive> {
        let options = self.options.hinted(at.hint::<SocketHints>());
        Ok(TcpPassive {
            socket: socket::listen(at, &options).await?,
            options,
            lossy: Arc::clone(&self.lossy),
        })
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, "tcp", &self.options)
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base("tcp", "TCP connections", |options: TcpOptions, entry| {
        let tcp = Tcp::new().with_options(options);
        Ok(DynStack::new(tcp, &entry.to_string()))
    })
}

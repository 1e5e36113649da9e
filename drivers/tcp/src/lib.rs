//! TCP: the bottom of most stacks.
//!
//! # What it does
//!
//! Opens connections and waits for them, over IPv4 and IPv6, with the socket set as asked. It
//! sends files without copying them through the program, sends header and payload in one segment
//! ([`poll_write_more`](xio_core::Stream::poll_write_more)), ends in good order on `shutdown` and
//! resets when dropped without. Its description carries what the kernel knows of the path, as
//! [`PathStats`](xio_core::PathStats): round-trip time, segments sent and sent again.
//!
//! # When not to use it
//!
//! Over lossy paths of long delay, where the congestion control of the kernel gives up too early;
//! and bare, where bytes need protection: put a layer on top.
//!
//! # String form
//!
//! `tcp` or `tcp:key=value;key=value`. Sizes are bytes (`4M`) or bits (`8k` is 1024 bytes).
//!
//! | Option | Value | Default |
//! | --- | --- | --- |
//! | `backlog` | how many peers may wait to be accepted | 1024 |
//! | `cc` | congestion control by its kernel name, as `bbr` | the system's |
//! | `connect_range` | local ports to connect from, `50000-51000` | any |
//! | `connect_timeout` | seconds that connecting may take | 60 |
//! | `iface` | local IP address to listen at and connect from | any |
//! | `keepalive` | whether an idle peer is probed | no |
//! | `keepidle` | seconds of silence before it is; given up after three times that | the system's |
//! | `listen_range` | ports to listen at when none is named | the kernel's `ip_local_port_range` |
//! | `nodelay` | whether small writes are sent at once | yes |
//! | `noipv6` | whether IPv6 addresses are left out | no |
//! | `pacing` | fastest rate to send at, bytes (or bits) a second | none |
//! | `port` | port for targets that name none | any, to listen |
//! | `rcvbuf` | receive buffer; the kernel caps it | automatic |
//! | `reuse` | whether to listen although ended connections hold the port | yes |
//! | `sndbuf` | send buffer; the kernel caps it | automatic |
//!
//! A caller may ask for some of these per open with [`SocketHints`](xio_core::SocketHints).
//!
//! # Cost
//!
//! That of tokio's `TcpStream`: each method is one call of it. Sending a file is one `sendfile` for
//! at most 512 KiB, so that a file that is not in memory cannot hold up a thread of the runtime for
//! longer than the disk takes for that.
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

mod listener;
mod options;
mod path;
mod ports;
mod socket;
mod stream;

use std::fmt;

use xio_core::{Driver, DynStack, Passive, Result, Target, Transport};

pub use listener::{TcpIncoming, TcpPassive};
pub use options::TcpOptions;
pub use stream::TcpHandle;

/// The transport: makes connections and listeners with its options.
#[derive(Clone, Default)]
pub struct Tcp {
    options: TcpOptions,
}

impl Tcp {
    /// A transport with these options.
    #[must_use]
    pub const fn new(options: TcpOptions) -> Self {
        Self { options }
    }

    /// The options.
    #[must_use]
    pub const fn options(&self) -> &TcpOptions {
        &self.options
    }
}

impl Transport for Tcp {
    type Handle = TcpHandle;

    async fn connect(&self, to: &Target) -> Result<TcpHandle> {
        Ok(socket::connect(to, &self.options).await?.into())
    }
}

impl Passive for Tcp {
    type Listener = TcpPassive;

    async fn listen(&self, at: &Target) -> Result<TcpPassive> {
        Ok(TcpPassive {
            socket: socket::listen(at, &self.options).await?,
            options: self.options.clone(),
        })
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.options.to_string().as_str() {
            "" => f.write_str("tcp"),
            options => write!(f, "tcp:{options}"),
        }
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base("tcp", "TCP connections", options::OPTIONS, |entry| {
        let tcp = Tcp::new(TcpOptions::from_entry(entry)?);
        Ok(DynStack::new(tcp, &entry.to_string()))
    })
}

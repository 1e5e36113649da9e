//! UDP sockets: the bottom of stacks that bring their own reliability.
//!
//! # Purpose
//!
//! Opens datagram sockets over IPv4 and IPv6, for one peer ([`Transport`]) or for any ([`Bind`]).
//! A batch of messages of one size is sent in one call and segmented by the kernel (GSO); messages
//! that arrive in a row from one peer are received in one buffer (GRO). Where the kernel or the
//! device refuses GSO, this batch and all later ones are sent message by message. Every received
//! message has its source and local address, so that the answer can leave from there.
//!
//! # When not to use it
//!
//! Alone, for bytes that must arrive: messages are lost, duplicated and reordered, and there is no
//! congestion control. `udt` carries byte streams over it.
//!
//! # String form
//!
//! `udp` or `udp:key=value;key=value`, below a driver that needs a datagram socket, as in
//! `udp,udt`. Sizes are bytes (`4M`) or bits (`8Kbit` is 1024 bytes).
//!
//! The options are those of [`UdpOptions`].
//!
//! A caller can set some of these per open by [`SocketHints`], and name the peer there when it
//! binds: the socket is then connected to the peer, and hears of closed ports.
//!
//! # Cost
//!
//! One system call per batch of at most 64 messages and 64 KiB to send, and one for up to
//! [`RECEIVE_BATCH`] buffers, each with up to 64 messages, to receive. Nothing is copied or
//! allocated here.
//!
//! # Example
//!
//! ```
//! use std::future::poll_fn;
//! use std::io::IoSliceMut;
//! use xio_core::{Bind, Datagram, Target, Transmit, Transport};
//! use xio_udp::Udp;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let udp = Udp::default();
//! let anyone = udp.bind(&"127.0.0.1:0".parse()?).await?;
//! let place = anyone.info().local.expect("a socket has an address");
//! let one = udp.connect(&Target::from(place)).await?;
//!
//! // Three messages of four bytes in one call.
//! let batch = Transmit::new(b"one two six ").segmented(4);
//! poll_fn(|cx| one.poll_send(cx, &batch)).await?;
//!
//! let mut arrived = Vec::new();
//! while arrived.len() < 3 {
//!     let (mut room, mut met) = ([0; 64], [None]);
//!     let mut bufs = [IoSliceMut::new(&mut room)];
//!     poll_fn(|cx| anyone.poll_recv(cx, &mut bufs, &mut met)).await?;
//!     let met = met[0].expect("one buffer was filled");
//!     assert_eq!(Some(met.from), one.info().local);
//!     arrived.extend(room[..met.len].chunks(met.segment).map(<[u8]>::to_vec));
//! }
//! assert_eq!(arrived, [b"one ", b"two ", b"six "]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod handle;
mod options;
mod senders;
mod socket;

use std::fmt;

use tokio::net::UdpSocket;
use xio_core::{Bind, Driver, DynBind, Operation, Result, SocketHints, Target, Transport};

pub use handle::{RECEIVE_BATCH, UdpHandle};
pub use options::UdpOptions;

/// The transport: opens sockets with its options.
#[derive(Clone, Default)]
pub struct Udp {
    options: UdpOptions,
}

impl Udp {
    /// Creates the driver with default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Opens a socket for one peer.
impl Transport for Udp {
    type Handle = UdpHandle;

    async fn connect(&self, to: &Target) -> Result<UdpHandle> {
        let hints = to.hint::<SocketHints>();
        let options = self.options.hinted(hints);
        let peers = socket::addresses(to, to.port, &options, Operation::Connect).await?;
        let mut last = None;
        for peer in peers {
            match socket::open_for(peer, &options) {
                Ok(handle) => return Ok(handle),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("resolving gives at least one address"))
    }
}

/// Opens a socket at a local address, for any peer or for the one that the hints name.
impl Bind for Udp {
    type Socket = UdpHandle;

    async fn bind(&self, at: &Target) -> Result<UdpHandle> {
        let hints = at.hint::<SocketHints>();
        let options = self.options.hinted(hints);
        match hints.and_then(|hints| hints.peer) {
            Some(peer) if at.host.is_none() => {
                let port = at.port.or(options.port);
                socket::open_for(peer, &UdpOptions { port, ..options })
            }
            peer => {
                let handle = socket::open(at, &options).await?;
                match peer {
                    Some(peer) => handle.connected(peer, Operation::Listen),
                    None => Ok(handle),
                }
            }
        }
    }
}

/// Access to the socket itself.
impl AsRef<UdpSocket> for UdpHandle {
    fn as_ref(&self) -> &UdpSocket {
        self.socket()
    }
}

impl fmt::Debug for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, "udp", &self.options)
    }
}

/// Returns the driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::socket("udp", "UDP sockets", |options: UdpOptions, entry| {
        let udp = Udp::new().with_options(options);
        Ok(DynBind::new(udp, &entry.to_string()))
    })
}

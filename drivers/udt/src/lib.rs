//! UDT: byte streams and messages over datagrams, for fast lossy links.
//!
//! # Purpose
//!
//! Speaks UDT 4 as libudt 4.11 does, as client, listener and rendezvous, over any datagram socket.
//! The protocol is the pure machine of `udt-proto`; this crate moves its datagrams: a task per
//! socket owns the clock and serves the connections, and each handle shares a short lock with it.
//! All connections of a listener share its socket. Connections opened from here have one each, so
//! that the network can report a closed port, unless `reuseaddr` is set.
//!
//! # When not to use it
//!
//! On short links or links without loss: TCP costs less CPU. It protects no data: put `tls` or
//! `gsi` on top.
//!
//! # String form
//!
//! `udt` or `udt:key=value;key=value`, at the bottom of a stack or on a driver that yields datagram
//! sockets: `udt,compress:codec=zlib` and `udp:listen_range=50000-51000,udt:mss=9000`. Sizes are
//! bytes (`4M`) or bits (`8Kbit` is 1024 bytes).
//!
//! The options are those of [`UdtOptions`].
//!
//! Globus' driver gives `sndbuf` and `rcvbuf` to the UDP socket and leaves UDT's own buffers at
//! their defaults, which bounds a connection to 12 MB in flight; here the names mean the same as in
//! libudt, and the socket has options of its own. Globus' `linger` and `reuseaddr` have no effect.
//! `sndsyn`, `rcvsyn`, `sndtimeo` and `rcvtimeo` are for blocking calls, which do not exist here;
//! deadlines are set by the `timeout` layer.
//!
//! # Congestion control
//!
//! `cc=bbr`, the default, models the path, so that random loss does not slow it down; where a queue
//! overflows it takes no more than a CUBIC flow would. `cc=cubic` is CUBIC (RFC 9438), for links
//! shared with TCP: it slows down for every loss, as TCP does. `cc=udt` is the control of libudt.
//!
//! # The end of a connection
//!
//! UDT has no half-close, and one shutdown packet, which libudt sends once and unacknowledged. This
//! driver sends it after everything was acknowledged, and repeats it until the peer reacts. A peer
//! that ends with packets missing, or that aborts as handles here do when they or their runtime are
//! dropped, leaves a truncated stream, and reading it fails. One case cannot be detected: a libudt
//! peer that ended before it had sent all its data, if none of the rest had been sent.
//!
//! libudt answers nothing after its shutdown. If that packet is lost, a reader here has all data
//! and cannot know it, so reading fails and never ends as if the stream were whole. The time until
//! then depends on the network's answers:
//!
//! - two to five seconds if the peer's port is closed, and the connection was opened from here with
//!   a socket of its own;
//! - eight seconds if the peer's listener answers inquiries, and the connection does not;
//! - else 46 seconds, as with any peer out of reach, which may return until then. A listener always
//!   waits for so long: the shared socket of its connections does not hear of closed ports, and its
//!   peers have no port that answers inquiries.
//!
//! # Cost
//!
//! A byte is copied once from the writer into its packet, once by the kernel, and twice at the
//! receiver. Memory is allocated as packets need it and freed afterwards; an idle connection holds
//! about two kilobytes, and its most frequent timer has a period of 300 ms.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Target, Transport};
//! # use xio_core::{Bind, Datagram, Received, Transmit, Info};
//! # use std::{io::{self, IoSliceMut}, task::{Context, Poll}};
//! # struct Socket(tokio::net::UdpSocket);
//! # impl Datagram for Socket {
//! #     fn describe(&self, info: &mut Info) { info.layer("plain"); info.local = self.0.local_addr().ok(); }
//! #     fn poll_send(&self, cx: &mut Context<'_>, m: &Transmit<'_>) -> Poll<io::Result<()>> {
//! #         self.0.poll_send_to(cx, m.payload, m.to.expect("a peer")).map_ok(|_| ())
//! #     }
//! #     fn poll_recv(&self, cx: &mut Context<'_>, bufs: &mut [IoSliceMut<'_>], met: &mut [Option<Received>]) -> Poll<io::Result<usize>> {
//! #         let mut buf = tokio::io::ReadBuf::new(&mut bufs[0]);
//! #         let from = std::task::ready!(self.0.poll_recv_from(cx, &mut buf))?;
//! #         met[0] = Some(Received::new(from, buf.filled().len()));
//! #         Poll::Ready(Ok(1))
//! #     }
//! # }
//! # struct Plain;
//! # impl Bind for Plain {
//! #     type Socket = Socket;
//! #     async fn bind(&self, _: &Target) -> xio_core::Result<Socket> {
//! #         Ok(Socket(tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket")))
//! #     }
//! # }
//! use xio_udt::Udt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let sockets = Plain;
//! // `sockets` is anything that binds datagram sockets, such as `xio::udp::Udp`.
//! let udt = Udt::over(sockets);
//! let mut listener = udt.listen(&"127.0.0.1:0".parse()?).await?;
//! let to = Target::from(listener.info().local.expect("a socket has an address"));
//! let (near, far) = tokio::join!(udt.connect(&to), async { listener.accept().await?.open().await });
//! let (mut near, mut far) = (near?, far?);
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

mod connection;
mod error;
mod handle;
mod listener;
mod messages;
mod options;
mod queue;
mod task;
#[cfg(test)]
mod tests;

/// The locks of the queue, which a test replaces by those of loom.
mod sync {
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use tokio::net::lookup_host;
use tokio::sync::{Mutex, mpsc, oneshot};
use udt_proto::Service;
pub use udt_proto::{Congestion, MessageOptions, Stats};
use xio_core::{
    Bind, Datagram, Driver, DynStack, Error, ErrorKind, Operation, Passive, Result, SocketHints,
    Target, Transport, resolve,
};

use connection::{Order, TaskQueue};
pub use handle::UdtHandle;
pub use listener::{Carrier, Held, UdtIncoming, UdtListener};
pub use messages::UdtMessages;
pub use options::UdtOptions;
use task::{Listening, Task};

impl Carrier for UdtHandle {
    const SERVICE: Service = Service::Stream;

    fn carry(held: Held) -> Self {
        Self { connection: held.0 }
    }
}

impl Carrier for UdtMessages {
    const SERVICE: Service = Service::Message;

    fn carry(held: Held) -> Self {
        Self { connection: held.0 }
    }
}

/// The transport: opens connections and listeners over the sockets of `B`.
///
/// Its handles are byte streams ([`UdtHandle`]); those of [`messages`](Self::messages) carry
/// messages ([`UdtMessages`]). Both ends of a connection must be of one kind.
pub struct Udt<B, H = UdtHandle> {
    below: B,
    options: UdtOptions,
    /// The task of the socket that connections share.
    shared: Mutex<Weak<TaskQueue>>,
    first_sequence: Option<u32>,
    kind: PhantomData<fn() -> H>,
}

impl<B: Bind> Udt<B> {
    /// Creates a transport with default options.
    pub fn over(below: B) -> Self {
        Self {
            below,
            options: UdtOptions::default(),
            shared: Mutex::default(),
            first_sequence: None,
            kind: PhantomData,
        }
    }

    /// The same for messages.
    pub fn messages(self) -> Udt<B, UdtMessages> {
        Udt {
            below: self.below,
            options: self.options,
            shared: self.shared,
            first_sequence: self.first_sequence,
            kind: PhantomData,
        }
    }
}

impl<B: Bind, H: Carrier> Udt<B, H> {
    /// Sets the number of the first packet, for tests of the wrap-around.
    #[doc(hidden)]
    #[must_use]
    pub const fn first_sequence(mut self, number: Option<u32>) -> Self {
        self.first_sequence = number;
        self
    }

    fn machine(&self, hints: Option<&SocketHints>) -> udt_proto::Options {
        let mut options = self.options.machine(H::SERVICE, hints);
        options.initial_sequence = self.first_sequence;
        options
    }

    /// Opens a socket and spawns its task, with an order for the first connection.
    async fn open(
        &self,
        peer: Option<SocketAddr>,
        hints: Option<&SocketHints>,
        order: Order,
    ) -> Result<Arc<TaskQueue>> {
        let mut wishes = self.options.socket(hints);
        wishes.peer = peer;
        let mut at = Target::default().with(wishes);
        at.port = self.options.port;
        let socket = self.below.bind(&at).await?;
        let below = Arc::new(socket.info());
        let to_task = Task::spawn(socket, below, None)?;
        // The queue is open until its first order was carried out.
        let _ = to_task.order(order);
        Ok(to_task)
    }

    async fn connect_to(&self, peer: SocketAddr, hints: Option<&SocketHints>) -> Result<H> {
        let rendezvous = self.options.rendezvous;
        let (reply, connection) = oneshot::channel();
        let order = Order::Connect {
            peer,
            options: Box::new(self.machine(hints)),
            rendezvous,
            reply,
        };
        if self.options.reuse && !rendezvous {
            let mut shared = self.shared.lock().await;
            let refused = match shared.upgrade() {
                Some(to_task) => to_task.order(order).err(),
                None => Some(order),
            };
            if let Some(order) = refused {
                *shared = Arc::downgrade(&self.open(None, hints, order).await?);
            }
        } else {
            self.open(Some(peer), hints, order).await?;
        }
        let ended = || {
            let fact = "the socket's task has ended";
            Error::new(ErrorKind::Io, "udt", Operation::Connect, fact)
        };
        let connection = connection.await.map_err(|_| ended())?;
        poll_fn(|cx| connection.0.poll_connected(cx, Operation::Connect)).await?;
        Ok(H::carry(Held(connection)))
    }
}

impl<B: Bind, H: Carrier> Transport for Udt<B, H> {
    type Handle = H;

    async fn connect(&self, to: &Target) -> Result<H> {
        let hints = to.hint::<SocketHints>();
        let lookup = |host, port| async move { lookup_host((host as String, port)).await };
        let at = ("udt", Operation::Connect);
        let mut last = None;
        for peer in resolve(to, to.port.or(self.options.port), false, at, lookup).await? {
            // Datagrams from a mapped address are routed by the IPv4 address in it.
            let peer = match peer.ip().to_canonical() {
                ip @ IpAddr::V4(_) => (ip, peer.port()).into(),
                IpAddr::V6(_) => peer,
            };
            match self.connect_to(peer, hints).await {
                Ok(handle) => return Ok(handle),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("resolving gives at least one address"))
    }
}

impl<B: Bind, H: Carrier> Passive for Udt<B, H> {
    type Listener = UdtListener<H>;

    async fn listen(&self, at: &Target) -> Result<UdtListener<H>> {
        let hints = at.hint::<SocketHints>();
        let mut at = at.clone().with(self.options.socket(hints));
        at.port = at.port.or(self.options.port);
        let socket = self.below.bind(&at).await?;
        let below = Arc::new(socket.info());
        let backlog = hints
            .and_then(|hints| hints.backlog)
            .unwrap_or(self.options.backlog);
        let (queue, taken) = mpsc::unbounded_channel();
        let listening = Listening {
            options: self.machine(hints),
            backlog: usize::try_from(backlog).unwrap_or(usize::MAX),
            queue,
        };
        Ok(UdtListener {
            to_task: Task::spawn(socket, Arc::clone(&below), Some(listening))?,
            queue: taken,
            below,
            kind: PhantomData,
        })
    }
}

impl<B: fmt::Debug, H> fmt::Debug for Udt<B, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, ", self.below)?;
        xio_core::write_driver(f, "udt", &self.options)
    }
}

/// Returns the driver for a registry; a stack can begin with it if it [brings](Driver::brings) a
/// socket.
#[must_use]
pub fn driver() -> Driver {
    let about = "UDT: byte streams over datagrams";
    Driver::over_socket("udt", about, |options: UdtOptions, entry, below| {
        let text = below.under(entry);
        Ok(DynStack::new(Udt::over(below).with_options(options), &text))
    })
}

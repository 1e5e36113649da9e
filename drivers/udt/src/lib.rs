//! UDT: byte streams and messages over datagrams, for fast links that lose.
//!
//! # What it does
//!
//! Speaks UDT 4 as libudt 4.11 does, both ends and rendezvous, over any datagram socket. The
//! protocol itself is the pure machine of `udt-proto`; here is what moves its datagrams: a task per
//! socket, which owns the clock and every connection's turn, and handles that share one short lock
//! each with it. All connections of a listener share its socket. Connections that are opened from
//! here have one each, so that the network can say that nobody is there, unless `reuseaddr` is set.
//!
//! # When not to use it
//!
//! On links that do not lose or are short: TCP costs less CPU. Where bytes need protection it is
//! only the bottom: put `tls` or `gsi` on top.
//!
//! # String form
//!
//! `udt` or `udt:key=value;key=value`, at the bottom of a stack or on a driver that yields datagram
//! sockets: `udt,compress:codec=zlib` and `udp:listen_range=50000-51000,udt:mss=9000`. Sizes are
//! bytes (`4M`) or bits (`8Kbit` is 1024 bytes).
//!
//! The options are those of [`UdtOptions`].
//!
//! Globus' driver gives `sndbuf` and `rcvbuf` to the UDP socket and leaves UDT's own buffers as
//! they are, which keeps a connection at 12 MB on the way whatever is asked; here the names mean
//! what they mean in libudt, and the socket has names of its own. Globus' `linger` and `reuseaddr`
//! have no effect there. `sndsyn`, `rcvsyn`, `sndtimeo` and `rcvtimeo` are for calls that block:
//! nothing blocks here, and deadlines are what the `timeout` layer is for.
//!
//! # The end of a connection
//!
//! UDT has no half-close and one mark for the end, which goes out once and unacknowledged; here it
//! goes out after everything was acknowledged, and again until the peer shows that it knows. A peer
//! that ends with packets missing, or that says that it gave up as handles here do when they are
//! dropped or their runtime ends, leaves a truncated stream, and reading it fails. What cannot be
//! told is a libudt peer that ended before it had sent all it was given, when none of the rest had
//! left yet.
//!
//! libudt says the end once, and answers nothing afterwards. Where that one packet is lost, a
//! reader here has everything and cannot know it: the rest may as well be missing. So reading
//! fails, and never ends as if all had come. How soon depends on what the network tells of the
//! silence:
//!
//! - after two to five seconds where nobody has the peer's port any more, if the connection was
//!   opened from here and has a socket of its own;
//! - after eight where the peer's listener answers as before, but no longer for this connection, as
//!   it is asked to when it is silent;
//! - else after 46, as with any peer out of reach, which may come back until then. A listener has
//!   to wait for so long: the socket that its connections share does not hear who is refused, and a
//!   peer that connected has no port that answers others.
//!
//! # Cost
//!
//! A byte is copied once from the writer into the packet it leaves in, by the kernel, and twice at
//! the receiver. Memory is taken as packets need it and given back; a connection that waits holds
//! about two kilobytes, and no timer runs more often than every 300 ms then.
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
mod task;
#[cfg(test)]
mod tests;

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

/// The transport: makes connections and listeners over the sockets of `B`.
///
/// Its handles are byte streams ([`UdtHandle`]); [`messages`](Self::messages) makes one whose
/// handles carry messages ([`UdtMessages`]). Both ends of a connection must be of one kind.
pub struct Udt<B, H = UdtHandle> {
    below: B,
    options: UdtOptions,
    /// The task of the socket that connections share.
    shared: Mutex<Weak<TaskQueue>>,
    first_sequence: Option<u32>,
    kind: PhantomData<fn() -> H>,
}

impl<B: Bind> Udt<B> {
    /// A transport with options as they are by default.
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
    /// Numbers the first packet, for tests of the wrap-around.
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

    /// Opens a socket to connect from and takes it into service, with a first connection to begin.
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
        // The task has not been asked to do anything yet, so it takes this.
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
            // What comes from a mapped address is known by the address that it stands for.
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

/// The driver for a registry; a stack may begin with it where it [brings](Driver::brings) a socket.
#[must_use]
pub fn driver() -> Driver {
    let about = "UDT: byte streams over datagrams";
    Driver::over_socket("udt", about, |options: UdtOptions, entry, below| {
        let text = below.under(entry);
        Ok(DynStack::new(Udt::over(below).with_options(options), &text))
    })
}

//! `Datagram` and `Bind`: sockets that keep message boundaries.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use crate::error::Result;
use crate::info::Info;
use crate::target::Target;

/// One message, or several of one size to the same peer, to be sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Transmit<'a> {
    /// Address of the peer; `None` on a connected socket.
    pub to: Option<SocketAddr>,
    /// The payload.
    pub payload: &'a [u8],
    /// Size in bytes of each message when `payload` holds several; the last may be shorter.
    pub segment: Option<usize>,
    /// Local address to send from, on a socket that has several; the system's choice by default.
    pub from: Option<IpAddr>,
}

impl<'a> Transmit<'a> {
    /// One message to the peer of a connected socket.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            to: None,
            payload,
            segment: None,
            from: None,
        }
    }

    /// Names the peer.
    #[must_use]
    pub fn to(mut self, peer: SocketAddr) -> Self {
        self.to = Some(peer);
        self
    }

    /// Sets the local address, so that a reply leaves from the address of its request.
    #[must_use]
    pub fn from(mut self, local: IpAddr) -> Self {
        self.from = Some(local);
        self
    }

    /// Marks the payload as several messages of `size` bytes.
    #[must_use]
    pub fn segmented(mut self, size: usize) -> Self {
        self.segment = Some(size);
        self
    }
}

/// The message, or the messages of one size, received in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Number of filled bytes.
    pub len: usize,
    /// Size in bytes of each message when the buffer holds several; equals `len` for one.
    ///
    /// The last of several may be shorter.
    pub segment: usize,
    /// Local address that it was sent to, where the socket knows.
    pub to: Option<IpAddr>,
    /// Whether the buffer is full to its last byte, so that more may have been cut off.
    pub cut: bool,
}

impl Received {
    /// One message of `len` bytes.
    #[must_use]
    pub fn new(from: SocketAddr, len: usize) -> Self {
        Self {
            from,
            len,
            segment: len,
            to: None,
            cut: false,
        }
    }

    /// Sets the local address that it was sent to.
    #[must_use]
    pub fn to(mut self, local: IpAddr) -> Self {
        self.to = Some(local);
        self
    }

    /// Marks it as possibly cut off.
    #[must_use]
    pub fn cut(mut self, cut: bool) -> Self {
        self.cut = cut;
        self
    }

    /// Marks the buffer as several messages of `size` bytes.
    #[must_use]
    pub fn segmented(mut self, size: usize) -> Self {
        self.segment = size;
        self
    }
}

/// Most bytes of a batch, all its messages together: the payload of one UDP datagram over IPv6.
pub const BATCH_BYTES: usize = 65_487;

/// A socket that keeps message boundaries, shared by several senders and one receiver.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a datagram socket",
    label = "the layer above needs a datagram socket here"
)]
pub trait Datagram: Send + Sync + Unpin + 'static {
    /// Adds this socket to `info`.
    fn describe(&self, info: &mut Info);

    /// Sends one message, or one batch of one size, whole.
    ///
    /// A batch holds at most [`max_batch`](Self::max_batch) messages and [`BATCH_BYTES`] bytes.
    /// Several tasks may send; each is woken when it waited.
    ///
    /// # Errors
    /// Those of the socket; a message is never sent in part. An error may be the late answer of
    /// the network to an earlier message, such as an unreachable port.
    fn poll_send(&self, cx: &mut Context<'_>, message: &Transmit<'_>) -> Poll<io::Result<()>>;

    /// Receives into as many of `bufs` as are ready and gives their number, at least one.
    ///
    /// `received` has the length of `bufs`. A message longer than its buffer is cut off, and
    /// [`Received::cut`] says so; a socket that joins messages of one size into one buffer needs
    /// [`max_joined`](Self::max_joined) times the longest, up to 64 KiB, to cut none. Only one task
    /// may receive.
    ///
    /// # Errors
    /// Those of the socket.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut [Option<Received>],
    ) -> Poll<io::Result<usize>>;

    /// Number of messages that [`poll_send`](Self::poll_send) takes in one batch; this may fall with
    /// time.
    fn max_batch(&self) -> usize {
        1
    }

    /// Number of messages that [`poll_recv`](Self::poll_recv) may join in one buffer.
    fn max_joined(&self) -> usize {
        1
    }

    /// The description of this socket.
    fn info(&self) -> Info {
        let mut info = Info::default();
        self.describe(&mut info);
        info
    }
}

/// A datagram socket of an erased type.
pub type BoxDatagram = Box<dyn Datagram>;

impl<D: Datagram + ?Sized> Datagram for Box<D> {
    fn describe(&self, info: &mut Info) {
        (**self).describe(info);
    }

    fn poll_send(&self, cx: &mut Context<'_>, message: &Transmit<'_>) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, message)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut [Option<Received>],
    ) -> Poll<io::Result<usize>> {
        (**self).poll_recv(cx, bufs, received)
    }

    fn max_batch(&self) -> usize {
        (**self).max_batch()
    }

    fn max_joined(&self) -> usize {
        (**self).max_joined()
    }
}

impl fmt::Debug for dyn Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// Opens local datagram sockets; each message names its peer.
pub trait Bind: Send + Sync + 'static {
    /// The socket type.
    type Socket: Datagram;

    /// Opens a socket at the local address `at`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing bound.
    fn bind(&self, at: &Target) -> impl Future<Output = Result<Self::Socket>> + Send;
}

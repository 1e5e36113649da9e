//! `Datagram` and `Bind`: sockets that keep message boundaries.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::error::Result;
use crate::info::Info;
use crate::target::Target;

/// One message, or several of one size to the same peer, to be sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Transmit<'a> {
    /// Where to; `None` on a connected socket.
    pub to: Option<SocketAddr>,
    /// The payload.
    pub payload: &'a [u8],
    /// Size in bytes of each message when `payload` holds several; the last may be shorter.
    pub segment: Option<usize>,
}

impl<'a> Transmit<'a> {
    /// One message to the peer of a connected socket.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            to: None,
            payload,
            segment: None,
        }
    }

    /// Names the peer.
    #[must_use]
    pub fn to(mut self, peer: SocketAddr) -> Self {
        self.to = Some(peer);
        self
    }

    /// Says that the payload holds several messages of `size` bytes.
    #[must_use]
    pub fn segmented(mut self, size: usize) -> Self {
        self.segment = Some(size);
        self
    }
}

/// What arrived in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Who sent it.
    pub from: SocketAddr,
    /// How many bytes of the buffer are filled.
    pub len: usize,
    /// Size in bytes of each message when the buffer holds several; equals `len` for one.
    pub segment: usize,
}

impl Received {
    /// One message of `len` bytes.
    #[must_use]
    pub fn new(from: SocketAddr, len: usize) -> Self {
        Self {
            from,
            len,
            segment: len,
        }
    }

    /// Says that the buffer holds several messages of `size` bytes.
    #[must_use]
    pub fn segmented(mut self, size: usize) -> Self {
        self.segment = size;
        self
    }
}

/// A socket that keeps message boundaries, shared by those who send and the one who receives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a datagram socket",
    label = "the layer above needs a datagram socket here"
)]
pub trait Datagram: Send + Sync + Unpin + 'static {
    /// Says what this socket is.
    fn describe(&self, info: &mut Info);

    /// Sends one message, or one batch of one size, whole.
    ///
    /// # Errors
    /// Those of the socket; a message is never sent in part.
    fn poll_send(&self, cx: &mut Context<'_>, message: &Transmit<'_>) -> Poll<io::Result<()>>;

    /// Receives into as many of `bufs` as are ready and gives their number, at least one.
    ///
    /// `received` has the length of `bufs`; a message longer than its buffer is cut off.
    ///
    /// # Errors
    /// Those of the socket.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut [Option<Received>],
    ) -> Poll<io::Result<usize>>;

    /// How many messages [`poll_send`](Self::poll_send) takes in one batch.
    fn max_batch(&self) -> usize {
        1
    }

    /// What this socket says about itself, collected.
    fn info(&self) -> Info {
        let mut info = Info::default();
        self.describe(&mut info);
        info
    }
}

/// A datagram socket whose type was erased.
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
}

impl fmt::Debug for dyn Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// Opens local datagram sockets whose peers are named per message.
pub trait Bind: Send + Sync + 'static {
    /// What it opens.
    type Socket: Datagram;

    /// Opens a socket at the local address `at`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing bound.
    fn bind(&self, at: &Target) -> impl Future<Output = Result<Self::Socket>> + Send;
}

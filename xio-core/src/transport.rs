//! `Transport`, `Passive`, `Listener`, `Incoming`: opening actively and passively.

use std::future::Future;
use std::net::SocketAddr;

use crate::error::Result;
use crate::info::Info;
use crate::stack::Stack;
use crate::target::Target;

/// Opens handles to a target.
pub trait Transport: Send + Sync + 'static {
    /// The handle type.
    type Handle: Send + 'static;

    /// Opens a handle to `to`, every layer's handshake included.
    ///
    /// # Cancel safety
    /// Dropping the future closes the layers opened so far; a connection is never half-made.
    fn connect(&self, to: &Target) -> impl Future<Output = Result<Self::Handle>> + Send;

    /// Puts a layer on top: `Tcp::default().push(Count)`.
    fn push<U>(self, upper: U) -> Stack<Self, U>
    where
        Self: Sized,
    {
        Stack::new(self, upper)
    }
}

/// A transport that can also wait for peers.
pub trait Passive: Transport {
    /// The listener type.
    type Listener: Listener<Handle = Self::Handle>;

    /// Starts to listen at `at`; port 0 takes a free one, of the range where there is one.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing listening.
    fn listen(&self, at: &Target) -> impl Future<Output = Result<Self::Listener>> + Send;
}

/// Takes peers off a queue.
pub trait Listener: Send + 'static {
    /// The handle of an opened peer.
    type Handle: Send + 'static;
    /// A peer that was taken off the queue.
    type Incoming: Incoming<Handle = Self::Handle>;

    /// Waits for the next peer; no handshake happens here, so one slow peer holds up no other.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the peer stays in the queue.
    fn accept(&mut self) -> impl Future<Output = Result<Self::Incoming>> + Send;

    /// Adds the local address and the layers to `info`.
    fn describe(&self, info: &mut Info);

    /// The address that it listens at, with the port that the system chose.
    ///
    /// # Errors
    /// A bottom without socket addresses, such as `unix`.
    fn local_addr(&self) -> Result<SocketAddr> {
        self.info().local_addr()
    }

    /// The description of the listener; [`Info::local`] is the address to tell peers.
    fn info(&self) -> Info {
        let mut info = Info::default();
        self.describe(&mut info);
        info
    }
}

/// A peer that was accepted and not yet opened.
///
/// Dropping it turns the peer away.
pub trait Incoming: Send + 'static {
    /// The handle of the opened peer.
    type Handle: Send + 'static;

    /// Adds the peer to `info`: [`Info::peer`] is known before any handshake.
    fn describe(&self, info: &mut Info);

    /// The description of the peer.
    fn info(&self) -> Info {
        let mut info = Info::default();
        self.describe(&mut info);
        info
    }

    /// Runs every layer's handshake, the lowest first.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    fn open(self) -> impl Future<Output = Result<Self::Handle>> + Send;
}

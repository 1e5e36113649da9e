//! `Transport`, `Passive`, `Listener`, `Incoming`: opening actively and passively.

use std::future::Future;

use crate::error::Result;
use crate::info::Info;
use crate::stack::Stack;
use crate::target::Target;

/// Something that opens handles to a target.
pub trait Transport: Send + Sync + 'static {
    /// What it opens.
    type Handle: Send + 'static;

    /// Opens a handle to `to`, every layer's handshake included.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened so far; a connection is never half-made.
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
    /// What waits.
    type Listener: Listener<Handle = Self::Handle>;

    /// Starts to listen at `at`; port 0 takes a free one, of the range where there is one.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing listening.
    fn listen(&self, at: &Target) -> impl Future<Output = Result<Self::Listener>> + Send;
}

/// Takes peers off a queue.
pub trait Listener: Send + 'static {
    /// What the peers become.
    type Handle: Send + 'static;
    /// A peer that was taken off the queue.
    type Incoming: Incoming<Handle = Self::Handle>;

    /// Waits for the next peer; no handshake happens here, so one slow peer stops nobody.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the peer stays in the queue.
    fn accept(&mut self) -> impl Future<Output = Result<Self::Incoming>> + Send;

    /// Says where it listens, and through which layers.
    fn describe(&self, info: &mut Info);

    /// What it says about itself, collected; [`Info::local`] is the address to tell peers.
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
    /// What it becomes.
    type Handle: Send + 'static;

    /// Says who it is: [`Info::peer`] is known before any handshake.
    fn describe(&self, info: &mut Info);

    /// What it says about itself, collected.
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

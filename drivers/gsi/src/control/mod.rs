//! Control channels under GSSAPI: the exchange over `ADAT` lines, then wrapped lines.

mod accept;
mod error;
mod initiate;
mod lines;
mod stream;
#[cfg(test)]
mod tests;

pub use accept::GssapiAcceptor;
pub use error::{AdatError, Refused};
pub use initiate::GssapiInitiator;
pub(crate) use initiate::unnamed;
pub use stream::GssapiStream;

use std::fmt;

use gsi::credential::Credential;
use gsi::exchange::Session;
use gsi::verify::Peer;
use xio_core::Stream;

use crate::control::lines::LineBuffer;
use crate::control::stream::Role;

/// A protected control channel.
#[non_exhaustive]
pub struct Established<S> {
    /// The channel, over which plain lines are read and written.
    pub stream: GssapiStream<S>,
    /// The verified peer.
    pub peer: Peer,
    /// The credential that the peer delegated.
    pub delegated: Option<Credential>,
    /// The own credential of this end, which a client may choose by the name that it asks for.
    pub own: Credential,
}

impl<S: Stream> Established<S> {
    fn new(
        stream: S,
        mut session: Box<Session>,
        peer: Peer,
        role: Role,
        own: Credential,
        lines: LineBuffer,
    ) -> Self {
        let delegated = session.take_delegated();
        Self {
            stream: GssapiStream::new(stream, session, &peer, role, lines),
            peer,
            delegated,
            own,
        }
    }
}

impl<S> fmt::Debug for Established<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established")
            .field("peer", &self.peer.identity)
            .field("delegated", &self.delegated)
            .finish_non_exhaustive()
    }
}

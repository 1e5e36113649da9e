//! `Session`: the secure channel that an exchange ends in.

use rustls::{CipherSuite, ProtocolVersion};

use super::ExchangeError;
use super::engine::Engine;
use crate::credential::Credential;
use crate::verify::Peer;

/// A secure channel, and the facts that the exchange told about the peer.
///
/// Commands and replies of GridFTP are wrapped line by line. Both ends must send tokens in the
/// order in which they wrapped them: a lost, repeated or swapped token ends the session.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    peer: Option<Peer>,
    delegated: Option<Credential>,
}

impl Session {
    pub(super) fn new(engine: Engine, peer: Option<Peer>, delegated: Option<Credential>) -> Self {
        Self {
            engine,
            peer,
            delegated,
        }
    }

    /// Returns the peer; `None` if it is anonymous.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// Returns the credential that the peer delegated.
    pub fn delegated(&self) -> Option<&Credential> {
        self.delegated.as_ref()
    }

    /// Takes the credential that the peer delegated.
    pub fn take_delegated(&mut self) -> Option<Credential> {
        self.delegated.take()
    }

    /// Returns the version of TLS.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.engine.connection().protocol_version()
    }

    /// Returns the cipher suite.
    pub fn cipher_suite(&self) -> Option<CipherSuite> {
        self.engine
            .connection()
            .negotiated_cipher_suite()
            .map(|suite| suite.suite())
    }

    /// Encrypts data into a token.
    ///
    /// # Errors
    ///
    /// The keys are used up. The session is of no further use.
    pub fn wrap(&mut self, data: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        self.engine.wrap(data)
    }

    /// Decrypts a token; its data may be secret, and is the caller's to overwrite. After an error
    /// the session is of no further use.
    ///
    /// # Errors
    ///
    /// The token is damaged, incomplete, too long, repeated, or of another session.
    pub fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        self.engine.feed(token)
    }
}

//! The ways in which an exchange fails, with the party at fault and the alert for the peer.

use std::fmt;

use crate::credential::CredentialError;
use crate::exchange::{BadTail, MAX_TOKEN};
use crate::key::KeyError;
use crate::proxy::ProxyError;
use crate::request::BadRequest;
use crate::tls;
use crate::verify::Refusal;

/// A failed exchange. Its text fits a reply: fact, and remedy where there is one.
#[derive(Debug)]
pub struct ExchangeError {
    fault: Fault,
    alert: Vec<u8>,
}

/// The party at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Party {
    /// The other end.
    Peer,
    /// This end: its credential, its settings, or the program.
    Local,
}

/// The reason of a failed exchange.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The certificate chain of the peer was refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The peer is none that the caller expects.
    #[error("{0}")]
    Unexpected(Box<dyn std::error::Error + Send + Sync>),
    /// TLS failed.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// A token is too long.
    #[error("the token has {0} bytes, and at most {MAX_TOKEN} are read")]
    TooLong(usize),
    /// A token is empty.
    #[error("the token is empty")]
    Empty,
    /// A token ends within a record.
    #[error("the token ends within a record of TLS: send each flight whole")]
    Truncated,
    /// A token is no sequence of records.
    #[error("the token is no TLS: the first byte of a record is {0:#04x}")]
    NotTls(u8),
    /// A token holds a part of the peer's flight.
    #[error("the token holds only a part of the handshake's flight: send each flight whole")]
    Incomplete,
    /// The peer closed the channel.
    #[error("the peer closed the secure channel")]
    Closed,
    /// The records after the handshake of a data channel break the protocol.
    #[error("data channel: {0}")]
    Tail(BadTail),
    /// Data came along with the handshake.
    #[error("data in the token of the handshake")]
    EarlyData,
    /// The flag of delegation is none.
    #[error("the delegation flag must be `D` or `0`, in one byte")]
    Flag,
    /// A peer without a certificate delegates.
    #[error("a client without a certificate has nothing to delegate")]
    AnonymousDelegation,
    /// The request for a proxy is of no use.
    #[error("delegation: {0}")]
    Request(BadRequest),
    /// No proxy could be made for the peer.
    #[error("delegation: {0}")]
    Proxy(ProxyError),
    /// Delegation without a credential.
    #[error("delegation needs a credential: make one with `gridftp-cp proxy init`")]
    NothingToDelegate,
    /// The delegated certificate is not for the key that was asked for, or not of the peer.
    #[error("delegation: the certificate is {0}")]
    Delegated(&'static str),
    /// The delegated certificate was refused.
    #[error("delegation: {0}")]
    DelegatedRefused(Refusal),
    /// The delegated certificate cannot be used with the key.
    #[error("delegation: {0}")]
    Credential(CredentialError),
    /// The fresh key does not sign.
    #[error("delegation: {0}")]
    Key(KeyError),
    /// The exchange has failed or is complete, or a key was supplied without need.
    #[error("the exchange expects no such step")]
    Misuse,
}

impl ExchangeError {
    pub(crate) fn new(fault: Fault, alert: Vec<u8>) -> Self {
        Self { fault, alert }
    }

    /// Takes an error of rustls apart.
    pub(crate) fn tls(error: rustls::Error, alert: Vec<u8>) -> Self {
        let fault = match tls::refusal(&error) {
            Some(refusal) => Fault::Refused(refusal.clone()),
            None => Fault::Tls(error),
        };
        Self { fault, alert }
    }

    /// Returns the reason.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the alert that TLS has for the peer, or nothing. GCT keeps it to itself, and puts
    /// the text into its reply.
    pub fn alert(&self) -> &[u8] {
        &self.alert
    }

    /// Returns the party at fault.
    pub fn party(&self) -> Party {
        match &self.fault {
            Fault::Refused(refusal) | Fault::DelegatedRefused(refusal) if refusal.is_local() => {
                Party::Local
            }
            Fault::Proxy(_)
            | Fault::NothingToDelegate
            | Fault::Key(_)
            | Fault::Misuse
            | Fault::Tail(BadTail::Misuse) => Party::Local,
            Fault::Tls(
                rustls::Error::General(_)
                | rustls::Error::EncryptError
                | rustls::Error::FailedToGetCurrentTime
                | rustls::Error::FailedToGetRandomBytes,
            ) => Party::Local,
            _ => Party::Peer,
        }
    }
}

impl From<Fault> for ExchangeError {
    fn from(fault: Fault) -> Self {
        Self::new(fault, Vec::new())
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for ExchangeError {}

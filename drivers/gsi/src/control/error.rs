//! `AdatError`: the reason why no protected control channel came about.

use std::fmt;
use std::io;

use gsi::exchange::ExchangeError;
use gsi::gridmap::Unmapped;
use gsi::key::KeyError;

use crate::control::lines::MAX_LINE;

/// The reason why no protected control channel came about. The text fits a reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdatError {
    /// The connection broke.
    #[error("gsi: connection: {0}")]
    Io(#[from] io::Error),
    /// The peer ended the connection.
    #[error("gsi: the peer ended the connection during authentication")]
    Ended,
    /// A line is too long.
    #[error("gsi: a line is longer than {MAX_LINE} bytes")]
    TooLong,
    /// The exchange took too long.
    #[error("gsi: the authentication was not done in time")]
    TimedOut,
    /// The client gave up by `QUIT`.
    #[error("gsi: the client quit during authentication")]
    Quit,
    /// The client sent too many commands out of turn.
    #[error("gsi: the client sent {0} commands that are no ADAT")]
    Strays(usize),
    /// The client has no certificate.
    #[error("gsi: the client has no certificate: make a proxy with `gridftp-cp proxy init`")]
    Anonymous,
    /// The exchange failed.
    #[error("gsi: {0}")]
    Exchange(#[from] ExchangeError),
    /// The grid-mapfile has no line for the client.
    #[error("gsi: {0}{remedy}", remedy = .0.remedy())]
    Unmapped(#[from] Unmapped),
    /// The configuration is of no use.
    #[error("gsi: {0}")]
    Config(#[from] rustls::Error),
    /// No key for delegation could be had.
    #[error("gsi: {0}")]
    Key(#[from] KeyError),
    /// The server refused.
    #[error("gsi: the server refused the authentication: {0}")]
    Reply(String),
    /// The server's reply breaks the protocol.
    #[error("gsi: {0}")]
    BadReply(&'static str),
}

/// A failed exchange, with the connection, so that it can be closed in good order.
#[non_exhaustive]
pub struct Refused<S> {
    /// The connection. A server has sent the reason on it where one was due.
    pub stream: S,
    /// The reason.
    pub error: AdatError,
}

impl<S> fmt::Debug for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Display for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> std::error::Error for Refused<S> {}

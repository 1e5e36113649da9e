//! `Error`: who ended a transfer (the peer, the local storage, a deadline, a limit) and whether trying again helps.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use mode_e::{BadBlock, BadBlockKind, GatherError};

/// What the mover of data returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who or what ended a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No listener and no address is set up: `PASV` or `PORT` has to come first.
    NoChannel,
    /// A data connection could not be made, or no port to listen on was free.
    Open,
    /// All data channels together hold as many descriptors as they may.
    Full,
    /// The peer broke the rules of MODE E.
    Protocol,
    /// The peer closed or reset a connection before the end of the data.
    Closed,
    /// Nothing happened until the deadline.
    Timeout(Wait),
    /// The peer asked for more than a limit of ours allows.
    Limit,
    /// The local storage failed; the cause is a [`gridftp_dsi::Error`].
    Storage,
}

/// What was waited for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The peer taking our connection.
    Connect,
    /// The peer connecting to our port.
    Accept,
    /// The peer sending more bytes.
    Receive,
    /// The peer taking more bytes.
    Send,
    /// The local storage.
    Storage,
}

/// Why a transfer failed. `Display` prints this level only.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    op: &'static str,
    fact: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        op: &'static str,
        fact: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind,
            op,
            fact: fact.into(),
            source: None,
        }
    }

    pub(crate) fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// The local storage failed.
    pub(crate) fn storage(op: &'static str, cause: gridftp_dsi::Error) -> Self {
        Self::new(ErrorKind::Storage, op, "the local storage failed").because(cause)
    }

    /// Nothing happened for `after`.
    pub(crate) fn timeout(wait: Wait, after: Duration) -> Self {
        let (op, what) = match wait {
            Wait::Connect => ("connect", "the peer did not take the connection"),
            Wait::Accept => ("accept", "the peer did not connect to the data port"),
            Wait::Receive => ("receive", "the peer sent nothing"),
            Wait::Send => ("send", "the peer took nothing"),
            Wait::Storage => ("wait", "the local storage did not answer"),
        };
        Self::new(
            ErrorKind::Timeout(wait),
            op,
            format!("{what} within {} s", after.as_secs_f64()),
        )
    }

    /// A read or write on an open data connection failed.
    pub(crate) fn broken(op: &'static str, cause: io::Error) -> Self {
        let fact = match cause.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => "the peer reset the data connection",
            io::ErrorKind::UnexpectedEof => {
                "the peer closed the data connection before the end of the data"
            }
            _ => "the data connection failed",
        };
        Self::new(ErrorKind::Closed, op, fact).because(cause)
    }

    /// A connection could not be made.
    pub(crate) fn open(op: &'static str, fact: &'static str, cause: xio_core::Error) -> Self {
        Self::new(ErrorKind::Open, op, fact).because(cause)
    }

    /// Who or what ended the transfer.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Which operation: `"connect"`, `"receive"`.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The storage's own error, when the storage failed.
    pub fn storage_error(&self) -> Option<&gridftp_dsi::Error> {
        self.source.as_deref()?.downcast_ref()
    }

    /// Whether the same transfer may succeed when tried again.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::Open | ErrorKind::Full | ErrorKind::Closed | ErrorKind::Timeout(_) => true,
            ErrorKind::Storage => self
                .storage_error()
                .is_some_and(gridftp_dsi::Error::is_transient),
            ErrorKind::NoChannel | ErrorKind::Protocol | ErrorKind::Limit => false,
        }
    }
}

impl From<BadBlock> for Error {
    fn from(bad: BadBlock) -> Self {
        let (kind, fact) = match bad.kind {
            BadBlockKind::CutInHeader
            | BadBlockKind::CutInPayload { .. }
            | BadBlockKind::CutBeforeEod => (
                ErrorKind::Closed,
                "the peer closed a data connection before the end of the data",
            ),
            BadBlockKind::TooLong { .. }
            | BadBlockKind::BeyondEnd { .. }
            | BadBlockKind::TooManyEmpty { .. } => (
                ErrorKind::Limit,
                "the peer sent a block beyond what is allowed",
            ),
            BadBlockKind::OtherTag { .. } | BadBlockKind::Untagged { .. } => (
                ErrorKind::Closed,
                "the data is that of another transfer, as after a connection that broke",
            ),
            _ => (
                ErrorKind::Protocol,
                "the peer sent a block that breaks the rules of mode e",
            ),
        };
        Self::new(kind, "receive", fact).because(bad)
    }
}

impl From<GatherError> for Error {
    fn from(error: GatherError) -> Self {
        let (kind, fact) = match error {
            GatherError::Short { .. } => (
                ErrorKind::Closed,
                "the peer closed its data connections before the end of the data",
            ),
            GatherError::TooManyConnections { .. } => {
                (ErrorKind::Limit, "too many data connections")
            }
            GatherError::TooManyRanges { .. } => (ErrorKind::Limit, "the data is too scattered"),
            _ => (
                ErrorKind::Protocol,
                "the peer's end-of-data marks do not add up",
            ),
        };
        Self::new(kind, "receive", fact).because(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data: {}: {}", self.op, self.fact)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_deref()?)
    }
}

//! `Error`: the party at fault for a failed transfer, and whether trying again helps.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use digest_tree::Hash;
use mode_e::{BadBlock, BadBlockKind, GatherError};

/// The result of an operation of the data channel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of a failed transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No listener and no address is set up: `PASV` or `PORT` must come first.
    NoChannel,
    /// A data connection could not be opened, or no port to listen on was free.
    Open,
    /// The data channels of the session or of the process are at their limit of descriptors.
    Full,
    /// The peer broke the rules of MODE E.
    Protocol,
    /// The bytes that arrived are not those that the peer read.
    Corrupt,
    /// The peer closed or reset a connection before the end of the data.
    Closed,
    /// Nothing happened until the deadline.
    Timeout(Wait),
    /// The peer exceeded a limit.
    Limit,
    /// The local storage failed; the cause is a [`gridftp_dsi::Error`].
    Storage,
}

/// The event that did not happen within the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The peer accepts our connection.
    Connect,
    /// The peer connects to our port.
    Accept,
    /// The peer sends more bytes.
    Receive,
    /// The peer reads more bytes.
    Send,
    /// The local storage completes an operation.
    Storage,
    /// The peer sends the rest of a part, while no memory is left for other parts.
    Part,
}

/// The error of a failed transfer. `Display` prints this level only.
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
            Wait::Connect => ("connect", "the peer did not accept the connection"),
            Wait::Accept => ("accept", "the peer did not connect to the data port"),
            Wait::Receive => ("receive", "the peer sent nothing"),
            Wait::Send => ("send", "the peer read nothing"),
            Wait::Storage => ("wait", "the local storage did not answer"),
            Wait::Part => (
                "receive",
                "the memory for parts is full and the peer sent no missing byte of them",
            ),
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

    /// The data has another digest than its sender computed.
    pub(crate) fn corrupt(sent: [u8; 32], here: [u8; 32]) -> Self {
        let [sent, here] = [sent, here].map(Hash::from_bytes);
        let fact = format!(
            "the data was changed on its way: BLAKE3 is {sent} at the sender and {here} here"
        );
        Self::new(ErrorKind::Corrupt, "receive", fact)
    }

    /// A connection could not be opened.
    pub(crate) fn open(op: &'static str, fact: &'static str, cause: xio_core::Error) -> Self {
        Self::new(ErrorKind::Open, op, fact).because(cause)
    }

    /// The cause.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation: `"connect"`, `"receive"`.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The error of the storage, if the storage failed.
    pub fn storage_error(&self) -> Option<&gridftp_dsi::Error> {
        self.source.as_deref()?.downcast_ref()
    }

    /// Whether the same transfer may succeed when repeated.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::Open
            | ErrorKind::Full
            | ErrorKind::Corrupt
            | ErrorKind::Closed
            | ErrorKind::Timeout(_) => true,
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
            | BadBlockKind::TooManyEmpty { .. } => {
                (ErrorKind::Limit, "the peer sent a block beyond the limits")
            }
            BadBlockKind::OtherTag { .. } | BadBlockKind::Untagged { .. } => (
                ErrorKind::Closed,
                "the data belongs to another transfer, as after a broken connection",
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
            GatherError::TooManyRanges { .. } => {
                (ErrorKind::Limit, "the data is in too many separate ranges")
            }
            _ => (
                ErrorKind::Protocol,
                "the peer's end-of-data marks are inconsistent",
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

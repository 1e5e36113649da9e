//! `Error`: layer, operation and fact of a failure, and its way through `io::Error`.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;

/// The result of every set-up operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The operation of a layer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Reading a stack string or its options.
    Plan,
    /// Opening actively.
    Connect,
    /// Starting to listen.
    Listen,
    /// Taking a peer off a listener's queue.
    Accept,
    /// Opening passively: the handshakes of an accepted peer.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Sending from a file.
    SendFile,
    /// Flushing.
    Flush,
    /// Ending the stream in good order.
    Shutdown,
    /// Setting or reading an option of an open handle, or moving its position.
    Control,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "plan",
            Self::Connect => "connect",
            Self::Listen => "listen",
            Self::Accept => "accept",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::SendFile => "send file",
            Self::Flush => "flush",
            Self::Shutdown => "shutdown",
            Self::Control => "control",
        })
    }
}

/// The kind of a failure, as a caller can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The stack string is malformed, or its layers do not fit.
    BadPlan,
    /// The stack string names a driver that this registry does not hold.
    UnknownDriver,
    /// An option is unknown to its driver, or its value is not accepted.
    BadOption,
    /// The contact string or address makes no sense to this layer.
    BadTarget,
    /// The layer cannot do this at all.
    Unsupported,
    /// The peer, or a network between, refused.
    Refused,
    /// No route, no such host.
    Unreachable,
    /// The caller cancelled the operation.
    Cancelled,
    /// The operation made no progress in the time it was given.
    TimedOut,
    /// The peer broke the connection off.
    Reset,
    /// The layer below ended before this layer's own end mark.
    UnexpectedEof,
    /// The address, or every port of the range, is in use.
    AddressInUse,
    /// The operating system refused permission.
    Denied,
    /// The named object does not exist.
    NotFound,
    /// Out of descriptors, memory or buffers.
    Exhausted,
    /// The peer broke the protocol of this layer.
    Protocol,
    /// Authentication or protection failed.
    Security,
    /// Any other failure of the operating system.
    Io,
}

impl ErrorKind {
    /// Whether the same call may succeed later without a change by anyone here.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::Unreachable
                | Self::TimedOut
                | Self::Reset
                | Self::UnexpectedEof
                | Self::AddressInUse
                | Self::Exhausted
        )
    }
}

impl From<io::ErrorKind> for ErrorKind {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::AddrNotAvailable => Self::Unreachable,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Self::Reset,
            io::ErrorKind::UnexpectedEof => Self::UnexpectedEof,
            io::ErrorKind::AddrInUse => Self::AddressInUse,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::OutOfMemory => Self::Exhausted,
            io::ErrorKind::Unsupported => Self::Unsupported,
            io::ErrorKind::InvalidData => Self::Protocol,
            _ => Self::Io,
        }
    }
}

impl From<ErrorKind> for io::ErrorKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::BadPlan
            | ErrorKind::UnknownDriver
            | ErrorKind::BadOption
            | ErrorKind::BadTarget => Self::InvalidInput,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Refused => Self::ConnectionRefused,
            ErrorKind::Unreachable => Self::HostUnreachable,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Cancelled => Self::ConnectionAborted,
            ErrorKind::Reset => Self::ConnectionReset,
            ErrorKind::UnexpectedEof => Self::UnexpectedEof,
            ErrorKind::AddressInUse => Self::AddrInUse,
            ErrorKind::Denied | ErrorKind::Security => Self::PermissionDenied,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Exhausted => Self::OutOfMemory,
            ErrorKind::Protocol => Self::InvalidData,
            ErrorKind::Io => Self::Other,
        }
    }
}

type Source = Box<dyn StdError + Send + Sync + 'static>;

/// A failure of one layer.
///
/// `Display` prints this level only; the causes are in [`source`](StdError::source).
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(Debug, thiserror::Error)]
#[error("{layer}: {op}: {fact}")]
struct Inner {
    kind: ErrorKind,
    layer: Cow<'static, str>,
    op: Operation,
    fact: String,
    source: Option<Source>,
}

impl Error {
    /// Makes an error of `layer` in `op`; `fact` is a clause in lower case, without a full stop.
    #[cold]
    pub fn new(
        kind: ErrorKind,
        layer: impl Into<Cow<'static, str>>,
        op: Operation,
        fact: impl Into<String>,
    ) -> Self {
        Self(Box::new(Inner {
            kind,
            layer: layer.into(),
            op,
            fact: fact.into(),
            source: None,
        }))
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Puts the subject of the fact, such as an address or a name, in front of it.
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.0.fact = format!("{what}: {}", self.0.fact);
        self
    }

    /// Turns an I/O error into one of `layer`; an error that already names a layer is kept.
    #[cold]
    pub fn from_io(error: io::Error, layer: impl Into<Cow<'static, str>>, op: Operation) -> Self {
        match Self::try_from_io(error) {
            Ok(ours) => ours,
            Err(error) => {
                let kind = match error.raw_os_error() {
                    // ENFILE, EMFILE, ENOBUFS: values shared by every Linux architecture but two.
                    Some(23 | 24 | 105) => ErrorKind::Exhausted,
                    _ => error.kind().into(),
                };
                Self::new(kind, layer, op, error.to_string()).with_source(error)
            }
        }
    }

    /// Recovers the error that an `io::Error` carries.
    ///
    /// # Errors
    /// Returns the `io::Error` when it carries no error of this type.
    pub fn try_from_io(error: io::Error) -> std::result::Result<Self, io::Error> {
        error.downcast::<Self>()
    }

    /// Finds the error that an `io::Error` carries, when a layer of a stack made it.
    #[must_use]
    pub fn layer_of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Name of the driver that failed.
    #[must_use]
    pub fn layer(&self) -> &str {
        &self.0.layer
    }

    /// The failed operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.op
    }

    /// The fact.
    #[must_use]
    pub fn fact(&self) -> &str {
        &self.0.fact
    }

    /// Whether trying again may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.0.kind.is_transient()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind().into(), error)
    }
}

/// Names the layer and the operation in an I/O error of the data plane.
///
/// [`WouldBlock`](io::ErrorKind::WouldBlock) and [`Interrupted`](io::ErrorKind::Interrupted) pass
/// unchanged, because callers match on them.
#[cold]
#[must_use]
pub fn at_layer(error: io::Error, layer: &'static str, op: Operation) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => error,
        kind if Error::layer_of(&error).is_none() => {
            io::Error::new(kind, Error::from_io(error, layer, op))
        }
        _ => error,
    }
}

/// Returns the error of an operation after the end of writing.
#[cold]
#[must_use]
pub fn shut_down(layer: &'static str, op: Operation) -> io::Error {
    Error::new(ErrorKind::Reset, layer, op, "this end was shut down before").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_journey_through_io_error() {
        let ours = Error::new(
            ErrorKind::TimedOut,
            "tcp",
            Operation::Connect,
            "no answer in 3 s",
        );
        let through: io::Error = ours.into();
        assert_eq!(through.kind(), io::ErrorKind::TimedOut);
        let found = Error::layer_of(&through).unwrap();
        assert_eq!(
            (found.layer(), found.operation()),
            ("tcp", Operation::Connect)
        );
        assert_eq!(found.to_string(), "tcp: connect: no answer in 3 s");
        assert!(found.is_transient());
    }

    #[test]
    fn the_lowest_layer_is_blamed_once() {
        let low = at_layer(
            io::ErrorKind::ConnectionReset.into(),
            "tcp",
            Operation::Read,
        );
        let high = at_layer(low, "count", Operation::Read);
        assert_eq!(high.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(Error::layer_of(&high).unwrap().layer(), "tcp");
        assert_eq!(Error::from_io(high, "xio", Operation::Read).layer(), "tcp");
    }

    #[test]
    fn the_subject_is_named_once() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let cause = refused.to_string();
        let error = Error::from_io(refused, "tcp", Operation::Connect).about("[::1]:1");
        assert_eq!(error.to_string(), format!("tcp: connect: [::1]:1: {cause}"));
        assert_eq!(error.kind(), ErrorKind::Refused);
        let source = error.source().map(ToString::to_string);
        assert_eq!(source, Some(cause));
    }

    #[test]
    fn would_block_stays_bare() {
        let bare = at_layer(io::ErrorKind::WouldBlock.into(), "tcp", Operation::Read);
        assert!(Error::layer_of(&bare).is_none());
    }

    #[test]
    fn descriptor_exhaustion_is_worth_another_try() {
        let error = Error::from_io(io::Error::from_raw_os_error(24), "tcp", Operation::Accept);
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.is_transient());
    }
}

//! Failures of the machine as errors with a kind, an operation and a fact.

use udt_proto::ConnectionError;
use xio_core::{Error, ErrorKind, Operation};

/// Returns the failure as an error of this layer.
#[cold]
pub(crate) fn error(why: ConnectionError, op: Operation) -> Error {
    let kind = match why {
        ConnectionError::TimedOut | ConnectionError::PeerGone | ConnectionError::LingerExpired => {
            ErrorKind::TimedOut
        }
        ConnectionError::Rejected | ConnectionError::Unreachable => ErrorKind::Refused,
        ConnectionError::Truncated => ErrorKind::UnexpectedEof,
        ConnectionError::PeerAborted
        | ConnectionError::PeerClosed
        | ConnectionError::Forgotten
        | ConnectionError::Unacknowledged => ErrorKind::Reset,
        ConnectionError::Misbehaved(_) => ErrorKind::Protocol,
        ConnectionError::WrongService => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    };
    // The machine's text begins with the protocol and may name the operation; the error has both.
    let text = why.to_string();
    let fact = text.rsplit(": ").next().unwrap_or(&text);
    // The machine's error is no separate source: this error holds all of it.
    Error::new(kind, "udt", op, fact)
}

//! What a failure of the machine is to a caller: a kind, an operation and a fact.

use udt_proto::ConnectionError;
use xio_core::{Error, ErrorKind, Operation};

/// The failure as an error of this layer.
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
    // The machine's text begins with the protocol's name, and some with the operation; both are said.
    let text = why.to_string();
    let fact = text.rsplit(": ").next().unwrap_or(&text);
    // It holds all that the machine's error does, so that is no cause of its own.
    Error::new(kind, "udt", op, fact)
}

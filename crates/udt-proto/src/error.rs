//! `ConnectionError`, `PeerMisbehaved`: why a connection is no more, and whose fault it is.

use std::fmt;

/// Why a connection cannot be used, or can be used no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Nobody answered the handshake in time.
    TimedOut,
    /// Nobody is at the peer's address.
    Unreachable,
    /// The peer refused the handshake: wrong version, other service, or too many waiting.
    Rejected,
    /// Nothing came from the peer for so long that it must be gone.
    PeerGone,
    /// The peer is there, but no longer for this connection: word of the end was lost, or it failed.
    Forgotten,
    /// The peer ended the connection before all it had sent was here.
    Truncated,
    /// The peer gave the connection up, and said so.
    PeerAborted,
    /// The peer ended the connection, having acknowledged all that was written until then.
    PeerClosed,
    /// The peer ended the connection before it had acknowledged all that was written.
    Unacknowledged,
    /// The peer broke the protocol.
    Misbehaved(PeerMisbehaved),
    /// What was written was not acknowledged while the close waited for it.
    LingerExpired,
    /// The connection was closed or aborted at this end.
    Closed,
    /// A message of this size, in bytes, does not fit our send buffer or what the peer lets wait to be read.
    MessageTooLong {
        /// Bytes that a message may have.
        limit: usize,
    },
    /// Bytes were asked of a connection for messages, or messages of one for bytes.
    WrongService,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "udt: connect: no answer in time",
            Self::Unreachable => "udt: connect: nobody is there",
            Self::Rejected => "udt: connect: the peer refused",
            Self::PeerGone => "udt: nothing came from the peer for too long",
            Self::Forgotten => {
                "udt: the peer is there but knows this connection no more, so word of its end was lost"
            }
            Self::Truncated => "udt: the peer ended the connection with data missing",
            Self::PeerAborted => "udt: the peer gave the connection up",
            Self::PeerClosed => "udt: the peer ended the connection",
            Self::Unacknowledged => {
                "udt: the peer ended the connection before it had acknowledged everything"
            }
            Self::Misbehaved(how) => return how.fmt(f),
            Self::LingerExpired => "udt: close: the peer did not acknowledge everything in time",
            Self::Closed => "udt: the connection is closed at this end",
            Self::MessageTooLong { limit } => {
                return write!(f, "udt: send: a message may have {limit} bytes at most");
            }
            Self::WrongService => "udt: bytes and messages do not mix",
        })
    }
}

impl std::error::Error for ConnectionError {}

/// The peer broke the protocol, or a bound that keeps it from costing memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// It acknowledged packets that were never sent.
    AcknowledgedUnsent,
    /// It reported the loss of packets that were never sent, or of a range that ends before it begins.
    BadLossReport,
    /// Its handshake has a packet size or a number that cannot be used.
    BadHandshake,
    /// It gave up part of a stream, which has no parts.
    DroppedStream,
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedUnsent => "udt: the peer acknowledged what was never sent",
            Self::BadLossReport => "udt: the peer reported the loss of what was never sent",
            Self::DroppedStream => "udt: the peer gave up part of a stream",
            Self::BadHandshake => "udt: the peer answered the handshake with impossible values",
        })
    }
}

impl std::error::Error for PeerMisbehaved {}

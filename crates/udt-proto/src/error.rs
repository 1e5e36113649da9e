//! `ConnectionError`, `PeerMisbehaved`: the reason why a connection ended.

use std::fmt;

/// Reason why a connection cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer did not answer the handshake in time.
    TimedOut,
    /// The peer's port is closed.
    Unreachable,
    /// The peer refused the handshake: wrong version, other service, or a full backlog.
    Rejected,
    /// The peer was silent for too long.
    PeerGone,
    /// The peer's listener answers, but this connection no longer does: its shutdown was lost, or
    /// it failed.
    Forgotten,
    /// The peer ended the connection while data was missing here.
    Truncated,
    /// The peer aborted the connection.
    PeerAborted,
    /// The peer ended the connection after it had acknowledged all written data.
    PeerClosed,
    /// The peer ended the connection before it had acknowledged all written data.
    Unacknowledged,
    /// The peer broke the protocol.
    Misbehaved(PeerMisbehaved),
    /// The linger time ended before all written data was acknowledged.
    LingerExpired,
    /// The connection was closed or aborted at this end.
    Closed,
    /// The message does not fit the send buffer or the peer's flow window.
    MessageTooLong {
        /// Largest message in bytes.
        limit: usize,
    },
    /// Bytes were used on a connection of messages, or messages on a connection of bytes.
    WrongService,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "udt: connect: the peer did not answer in time",
            Self::Unreachable => "udt: connect: refused, the peer's port is closed",
            Self::Rejected => "udt: connect: the peer rejected the handshake",
            Self::PeerGone => "udt: the peer was silent for too long",
            Self::Forgotten => {
                "udt: the peer has ended this connection and its shutdown packet was lost"
            }
            Self::Truncated => "udt: the peer ended the connection with data missing",
            Self::PeerAborted => "udt: the peer aborted the connection",
            Self::PeerClosed => "udt: the peer ended the connection",
            Self::Unacknowledged => {
                "udt: the peer ended the connection before it had acknowledged all data"
            }
            Self::Misbehaved(how) => return how.fmt(f),
            Self::LingerExpired => "udt: close: the peer did not acknowledge all data in time",
            Self::Closed => "udt: the connection is closed at this end",
            Self::MessageTooLong { limit } => {
                return write!(f, "udt: send: a message has {limit} bytes at most");
            }
            Self::WrongService => {
                "udt: bytes on a connection of messages, or messages on one of bytes"
            }
        })
    }
}

impl std::error::Error for ConnectionError {}

/// Violation of the protocol, or of a bound that protects memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// It acknowledged packets that were never sent.
    AcknowledgedUnsent,
    /// It reported the loss of packets that were never sent, or of an inverted range.
    BadLossReport,
    /// Its handshake has an invalid packet size or number.
    BadHandshake,
    /// It dropped part of a stream.
    DroppedStream,
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedUnsent => "udt: the peer acknowledged packets that were never sent",
            Self::BadLossReport => {
                "udt: the peer reported the loss of packets that were never sent"
            }
            Self::DroppedStream => "udt: the peer dropped part of a stream",
            Self::BadHandshake => "udt: the peer answered the handshake with invalid values",
        })
    }
}

impl std::error::Error for PeerMisbehaved {}

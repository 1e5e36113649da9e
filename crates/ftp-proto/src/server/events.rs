//! `Input`, `Output` and `Ending`: the events at the two ends of a server session.

use std::fmt;
use std::time::Instant;

use ftp_wire::error::BadLine;
use ftp_wire::reply::Reply;

use crate::error::PeerMisbehaved;
use crate::security::{Mechanism, Protection};
use crate::types::{Action, Event, Outcome, Ticket};

/// An event for a session.
pub enum Input<'a> {
    /// One line of the control channel, without its line end.
    Line(&'a [u8]),
    /// A line that cannot be a command. One over the limit ends the session: the bytes after it
    /// cannot be trusted. One with control bytes is answered in its turn.
    BadLine(BadLine),
    /// Progress of an outstanding action.
    Event(Ticket, Event),
    /// The end of an outstanding action.
    Done(Ticket, Outcome),
    /// The deadline of the last [`Output::Wait`] has come.
    Timeout,
    /// The server stops: a running transfer is finished, then the session ends. The second time,
    /// the transfer is aborted.
    Drain,
    /// The server evicts the connection in favour of a new one: the peer is answered 421, and the
    /// session ends.
    Evict,
    /// The handshake of an [`Output::Upgrade`] succeeded: lines are those of the protected channel.
    Upgraded(Protection),
    /// The handshake failed, or bytes had arrived ahead of it. The reply says so to a peer that can
    /// still read one; the session ends.
    UpgradeFailed(UpgradeFailure),
    /// The peer has closed the control connection.
    Eof,
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A line may be a password.
            Self::Line(line) => f.debug_tuple("Line").field(&line.len()).finish(),
            Self::BadLine(bad) => f.debug_tuple("BadLine").field(bad).finish(),
            Self::Event(ticket, event) => {
                f.debug_tuple("Event").field(ticket).field(event).finish()
            }
            Self::Done(ticket, outcome) => {
                f.debug_tuple("Done").field(ticket).field(outcome).finish()
            }
            Self::Timeout => f.write_str("Timeout"),
            Self::Drain => f.write_str("Drain"),
            Self::Evict => f.write_str("Evict"),
            Self::Upgraded(by) => f.debug_tuple("Upgraded").field(by).finish(),
            Self::UpgradeFailed(why) => f.debug_tuple("UpgradeFailed").field(why).finish(),
            Self::Eof => f.write_str("Eof"),
        }
    }
}

/// The next task of the caller.
#[derive(Debug)]
pub enum Output {
    /// Send this reply.
    Reply(Reply),
    /// Run this action, and feed back its events and its outcome under the same ticket.
    Action(Ticket, Action),
    /// Send the replies so far, then run the handshake of this mechanism on the control connection,
    /// and feed [`Input::Upgraded`] or [`Input::UpgradeFailed`].
    ///
    /// No output but [`Output::Close`] follows until then. The caller must hold no byte of the peer
    /// at that moment: bytes that arrived in clear must never be read as protected ones, so they
    /// are an [`UpgradeFailure::Injected`]. A line fed during the handshake ends the session too.
    Upgrade(Mechanism),
    /// Send the replies so far, then close the control connection and drop every outstanding
    /// action.
    Close(Ending),
    /// Wait for an input, at most until this time.
    Wait(Option<Instant>),
}

/// The reason why a control channel stays unprotected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradeFailure {
    /// Bytes had arrived in clear behind `AUTH`.
    Injected,
    /// The handshake failed; the reply is for a peer that reads lines.
    Handshake(Option<Reply>),
}

/// The reason for the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The peer said `QUIT`.
    Quit,
    /// The peer closed the connection.
    PeerClosed,
    /// No login in time.
    LoginTimeout,
    /// The handshake behind AUTH failed.
    HandshakeFailed,
    /// No command for too long.
    IdleTimeout,
    /// The server was told to stop.
    Drained,
    /// A reply of many lines could not be completed.
    Incomplete,
    /// The server has too many connections.
    Overloaded,
    /// The peer broke the protocol or a bound.
    Misbehaved(PeerMisbehaved),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quit => f.write_str("control channel: the peer said QUIT"),
            Self::PeerClosed => f.write_str("control channel: the peer closed the connection"),
            Self::LoginTimeout => f.write_str("control channel: no login in time"),
            Self::HandshakeFailed => f.write_str("control channel: the handshake failed"),
            Self::IdleTimeout => f.write_str("control channel: no command in time"),
            Self::Incomplete => f.write_str("control channel: a listing failed in mid-reply"),
            Self::Drained => f.write_str("control channel: the server is stopping"),
            Self::Overloaded => f.write_str("control channel: the server has too many connections"),
            Self::Misbehaved(how) => how.fmt(f),
        }
    }
}

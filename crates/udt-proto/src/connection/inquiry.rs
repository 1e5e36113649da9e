//! `Inquiry`: tells a silent peer that is out of reach from one that has forgotten the connection.
//!
//! The reference sends one shutdown. If it is lost, the peer is silent, as is a host that is out of
//! reach and may return. But a listener's port answers handshake requests as long as it listens,
//! and so does an established connection. If the port goes on answering and the connection does
//! not, it has ended.

use crate::handshake::{Handshake, Request};

/// Expiries before the first inquiry: almost two seconds of silence.
const SILENCE: u32 = 3;
/// Answers of the port, with none of the connection, that prove its end.
const ENOUGH: u32 = 4;

/// Inquiries and answers since the peer was heard last.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    asks_connection: bool,
    asks_port: bool,
    /// Whether an inquiry to the port is unanswered.
    is_asked: bool,
    answers: u32,
}

impl Inquiry {
    /// Inquires once more after a number of expiries; returns whether the answers prove the end.
    pub(super) fn on_expiry(&mut self, expiries: u32) -> bool {
        let is_silent = expiries >= SILENCE;
        (self.asks_connection, self.asks_port) = (is_silent, is_silent);
        self.answers >= ENOUGH
    }

    /// Returns the next inquiry and its destination socket id: that of the connection, or 0 for the
    /// port.
    pub(super) fn next(&mut self, ours: Handshake, to: u32) -> Option<(Handshake, u32)> {
        let question = Handshake {
            request: Request::Ask,
            cookie: 0,
            ..ours
        };
        if std::mem::take(&mut self.asks_connection) {
            return Some((question, to));
        }
        self.is_asked |= self.asks_port;
        std::mem::take(&mut self.asks_port).then_some((question, 0))
    }

    /// Notes an answer of the port.
    pub(super) fn on_answer(&mut self) {
        if std::mem::take(&mut self.is_asked) {
            self.answers += 1;
        }
    }
}

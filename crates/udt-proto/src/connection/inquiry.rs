//! `Inquiry`: whether a peer that is silent is out of reach, or is there and has forgotten the connection.
//!
//! The reference says the end once. Where that is lost nothing more comes, as from a host that is out of
//! reach, which may come back. But the port of a listener answers whoever asks for a connection, as long
//! as it listens, and a connection that stands answers a handshake packet at once. Where the port goes on
//! answering and the connection does not, it is no more.

use crate::handshake::{Handshake, Request};

/// Expiries before the peer is asked: almost two seconds of silence.
const SILENCE: u32 = 3;
/// Answers of the port while the connection gives none that leave no doubt.
const ENOUGH: u32 = 4;

/// What was asked and answered since the peer was heard last.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    asks_connection: bool,
    asks_port: bool,
    /// Whether the port was asked and has not answered that yet.
    is_asked: bool,
    answers: u32,
}

impl Inquiry {
    /// Asks once more after so many expiries, unless the answers leave no doubt: whether they do.
    pub(super) fn on_expiry(&mut self, expiries: u32) -> bool {
        let is_silent = expiries >= SILENCE;
        (self.asks_connection, self.asks_port) = (is_silent, is_silent);
        self.answers >= ENOUGH
    }

    /// What to ask next, and of which number: the connection of that number, or the port.
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

    /// Takes in that the port answers.
    pub(super) fn on_answer(&mut self) {
        if std::mem::take(&mut self.is_asked) {
            self.answers += 1;
        }
    }
}

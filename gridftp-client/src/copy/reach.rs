//! `Reach`: whether the server can connect to us, which downloads in MODE E need.

use ftp_wire::command::Mode;

use super::lock;
use super::state::CopyState;
use crate::client::Client;

/// Knowledge of the data connections that the server makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Unknown,
    /// It was silent for long, or refused a transfer for its connection: it cannot connect, or it
    /// is slow or busy.
    Doubted,
    /// It connects, or nothing says that it cannot; silence is waited out.
    Trusted,
    /// It cannot connect.
    Denied,
}

impl CopyState {
    /// The mode for files on `client`.
    pub(crate) fn mode(&self, client: &Client) -> Mode {
        if client.is_extended() && self.reach() != Reach::Denied {
            Mode::Extended
        } else {
            Mode::Stream
        }
    }

    pub(crate) fn reach(&self) -> Reach {
        *lock(&self.reach)
    }

    /// Replaces the knowledge by `to`, unless more is known already; gives the knowledge before.
    pub(crate) fn note_reach(&self, to: Reach) -> Reach {
        let mut reach = lock(&self.reach);
        let before = *reach;
        if to != Reach::Doubted || before == Reach::Unknown {
            *reach = to;
        }
        before
    }

    /// Notes that the server cannot connect to us, as `fact` says; whether another mode may be
    /// tried.
    pub(crate) fn note_unreachable(&self, fact: &str) -> bool {
        if self.options.connect.mode == Some(Mode::Extended) {
            return false;
        }
        if self.note_reach(Reach::Denied) != Reach::Denied {
            self.note(&format!("{fact}; using MODE S"));
        }
        true
    }
}

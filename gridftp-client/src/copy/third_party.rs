//! `ThirdParty`: whether two servers move data between them, or through this machine.

use ftp_proto::client::FailureKind;

use super::lock;
use super::state::CopyState;
use crate::error::{ControlError, TransferError, is_cut_off};
use crate::options::Relay;

/// Knowledge of the data connections between the two servers of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ThirdParty {
    #[default]
    Unknown,
    /// A file went that way: a later refusal is of another cause.
    Works,
    /// They refuse it.
    Refused,
}

impl CopyState {
    /// Says whether the data of two servers pass this machine.
    pub(crate) fn relays(&self) -> bool {
        match self.options.relay {
            Relay::Auto => *lock(&self.third_party) == ThirdParty::Refused,
            relay => relay == Relay::Always,
        }
    }

    /// Notes that a file went from server to server.
    pub(crate) fn note_third_party_works(&self) {
        let mut third_party = lock(&self.third_party);
        if *third_party == ThirdParty::Unknown {
            *third_party = ThirdParty::Works;
        }
    }

    /// Notes that the two servers refuse to move data between them, as `error` says; tells whether
    /// the data pass this machine from now on.
    pub(crate) fn note_third_party_refused(&self, error: &TransferError) -> bool {
        if self.options.relay != Relay::Auto {
            return false;
        }
        let before = {
            let mut third_party = lock(&self.third_party);
            let before = *third_party;
            if before == ThirdParty::Unknown {
                *third_party = ThirdParty::Refused;
            }
            before
        };
        if let (ThirdParty::Unknown, Some(from), Some(to)) =
            (before, &self.source, &self.destination)
        {
            let fact = match error {
                TransferError::Request { what, .. } => what.clone(),
                error => error.to_string(),
            };
            self.warn(&format!(
                "the data from {from} to {to} pass this machine: {fact}"
            ));
        }
        before != ThirdParty::Works
    }

    /// As [`note_third_party_refused`](Self::note_third_party_refused), of the failure of one file, which may have another cause.
    pub(crate) fn is_for_relay(&self, error: &TransferError) -> bool {
        lacks_connection(error) && self.note_third_party_refused(error)
    }

    /// The failure of a file, with its remedy where that is to have it pass this machine.
    pub(crate) fn with_relay_remedy(&self, error: TransferError) -> TransferError {
        match self.options.relay == Relay::Never && lacks_connection(&error) {
            true => TransferError::ThirdPartyRefused {
                cause: Box::new(error),
            },
            false => error,
        }
    }
}

/// Says whether two servers refuse, and will go on refusing, to connect to each other for data: one
/// does not take the address of the other, or none came from there.
fn lacks_connection(error: &TransferError) -> bool {
    match error {
        TransferError::Control(ControlError::Refused { command, reply, .. }) => {
            let names_peer = ["PORT", "EPRT", "SPOR", "PASV", "EPSV", "SPAS"];
            let sets_up = names_peer.iter().any(|verb| command.starts_with(verb));
            match sets_up {
                true => !FailureKind::of(reply).is_transient(),
                // The words of a storage behind the server are no matter of these connections.
                false => is_cut_off(reply) && reply.code().number() != 550,
            }
        }
        TransferError::Both {
            source,
            destination,
        } => {
            let is_gone = source.is_gone() || destination.is_gone();
            !is_gone && (lacks_connection(source) || lacks_connection(destination))
        }
        _ => false,
    }
}

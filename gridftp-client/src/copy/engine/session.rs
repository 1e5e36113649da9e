//! `Session`: the sessions that one connection's worth of work needs, and how many are worth it.

use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use ftp_wire::command::Mode;

use crate::client::Client;
use crate::copy::state::CopyState;
use crate::copy::window::COMMANDS;
use crate::copy::{third, tuning};
use crate::error::TransferError;
use crate::options::Relay;

/// Round trip up to which small files cost more work than waiting: connections beyond the
/// processors here then only take turns. Beyond it they wait, on links that one stream still fills
/// ([`crate::copy::widths::NEAR`]).
const AT_WORK: Duration = Duration::from_millis(1);
/// Files that wait, for each connection there is, before one more is made: twice as many as one has
/// under way. A new one needs six round trips and starts slowly, in which a distant one that is
/// there moves hundreds of small files.
const WAITING: usize = 2 * COMMANDS;
/// As [`WAITING`], in MODE S, where a file has the connection for itself for four round trips or
/// more.
const WAITING_ALONE: usize = 4;
/// Round trip for which one more connection is worth it in MODE S: they wait most of the time.
const FOR_ONE_MORE: Duration = Duration::from_micros(1500);
/// Connections at most in MODE S when the caller does not say; servers count those of an address.
const MOST: u32 = 32;

/// The sessions that one connection's worth of work needs.
#[derive(Debug)]
pub(crate) enum Session {
    /// Files come from this server.
    Pull(Box<Client>),
    /// Files go to this server.
    Push(Box<Client>),
    /// Files go from the first to the second, through this machine or not.
    Third(Box<Client>, Box<Client>),
    /// Files stay on this machine, and no server takes part.
    Local,
    /// Files come from web servers, and go to this server if there is one.
    Web(Option<Box<Client>>),
}

impl Session {
    /// The session of a copy between these servers, between one of them and this machine, or on this
    /// machine.
    pub(crate) fn of(
        shared: &CopyState,
        source: Option<Box<Client>>,
        destination: Option<Box<Client>>,
    ) -> Self {
        match (source, destination) {
            (_, destination) if shared.is_of_web() => Self::Web(destination),
            (Some(source), Some(destination)) => Self::Third(source, destination),
            (Some(source), None) => Self::Pull(source),
            (None, Some(destination)) => Self::Push(destination),
            (None, None) => Self::Local,
        }
    }

    /// Has it left once data goes over another stack than that of its begin.
    ///
    /// # Errors
    /// Neither server offers the rate limit that the caller set, and the data must not pass this machine.
    pub(crate) fn of_copy(mut self, shared: &CopyState) -> Result<Self, TransferError> {
        let (_, left) = shared.tuning.stack();
        match &mut self {
            Self::Pull(client) | Self::Push(client) => client.control.left = left,
            Self::Third(source, destination) => {
                if shared.options.relay == Relay::Never {
                    third::check_rate(shared, source, destination)?;
                }
                (source.control.left, destination.control.left) = (left.clone(), left);
            }
            Self::Local | Self::Web(_) => {}
        }
        Ok(self)
    }

    /// The way of its data, of which the rules allow so many files at once.
    pub(super) fn route(&self, shared: &CopyState, files: u32) -> tuning::Route {
        let (round_trip, mode, is_between) = match self {
            Self::Pull(client) | Self::Push(client) => {
                (client.round_trip(), shared.mode(client), false)
            }
            Self::Third(source, destination) => {
                let both = source.is_extended() && destination.is_extended();
                let mode = match both && !shared.relays() {
                    true => Mode::Extended,
                    false => Mode::Stream,
                };
                let round_trip = source.round_trip().max(destination.round_trip());
                (round_trip, mode, !shared.relays())
            }
            Self::Local | Self::Web(_) => (Duration::ZERO, Mode::Extended, false),
        };
        let (is_offered, tells) = match self {
            // The sender there may change its congestion control.
            Self::Pull(client) => (client.abilities.udt && !client.abilities.adapts, true),
            // It keeps the bytes of a broken upload.
            Self::Push(client) => (client.abilities.udt && client.abilities.held, true),
            Self::Third(source, destination) if is_between => {
                // Data nodes are not measured.
                let tells = source.abilities.waits && !source.abilities.nodes;
                (tells && third::offer_udt(source, destination), tells)
            }
            Self::Third(..) | Self::Local | Self::Web(_) => (false, true),
        };
        let limits = match self {
            Self::Third(source, destination) if is_between => {
                third::offer_rate(source, destination)
            }
            _ => true,
        };
        let told = |client: &Client| client.abilities.connections;
        let connections = match self {
            Self::Pull(client) | Self::Push(client) => told(client),
            Self::Third(source, destination) => [told(source), told(destination)]
                .into_iter()
                .flatten()
                .min(),
            Self::Local => None,
            Self::Web(client) => client.as_deref().and_then(told),
        };
        tuning::Route {
            round_trip,
            mode,
            is_between,
            tells,
            limits,
            files,
            connections,
            over_udt: is_offered && shared.may_go_over_udt(round_trip),
        }
    }

    /// Returns how many connections are worth it, all in all, where the caller does not say, and
    /// how many files are to wait for each of them before there is one more.
    pub(super) fn worth(&self, shared: &CopyState) -> (u32, usize) {
        let most = shared.connections();
        let (files, waiting) = match self {
            Self::Pull(client) | Self::Push(client) => {
                worth(shared.mode(client), client.round_trip(), most)
            }
            Self::Third(source, destination) if shared.relays() => {
                let round_trip = source.round_trip().max(destination.round_trip());
                worth(Mode::Stream, round_trip, most)
            }
            // Those of others do the work, or wait for it.
            Self::Third(..) => (most, WAITING),
            // A worker without a session costs nothing.
            Self::Local => (worth(Mode::Extended, Duration::ZERO, most).0, 1),
            // The way to the source is not known, and each file has a connection there for itself.
            Self::Web(_) => (most, 1),
        };
        (shared.hold_files(files), waiting)
    }
}

/// As [`Session::worth`], of a server at this distance.
fn worth(mode: Mode, round_trip: Duration, most: u32) -> (u32, usize) {
    if mode != Mode::Extended {
        let more = round_trip.as_micros() / FOR_ONE_MORE.as_micros();
        let more = u32::try_from(more).unwrap_or(MOST);
        return (more.clamp(most, MOST), WAITING_ALONE);
    }
    if round_trip > AT_WORK {
        return (most, WAITING);
    }
    let processors = available_parallelism().map_or(2, NonZero::get);
    let processors = u32::try_from(processors).unwrap_or(u32::MAX).max(2);
    (most.min(processors), WAITING)
}

#[cfg(test)]
mod tests;

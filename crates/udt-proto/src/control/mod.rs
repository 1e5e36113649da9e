//! `Controller`: how many packets may be on the way, and how fast they may follow each other.

mod cubic;
mod losses;
mod model;
mod native;

use std::fmt::Debug;
use std::time::{Duration, Instant};

pub(crate) use self::cubic::Cubic;
pub(crate) use self::model::Model;
pub(crate) use self::native::Native;
use crate::options::Congestion;
use crate::rtt::RoundTrip;

/// The interval at which acknowledgements come when nothing else makes them come.
pub(crate) const SYN: Duration = Duration::from_millis(10);
/// Smallest window, in packets, that keeps the acknowledgements coming.
const LEAST_WINDOW: f64 = 8.0;
/// Packets that the receiver acknowledges together, with a margin.
const LUMP: f64 = 128.0;
/// Late samples in a row that are a queue and no chance.
const QUEUED: u32 = 8;

/// What an acknowledgement or a loss report told about the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Progress {
    /// Whether it was a full acknowledgement.
    pub(crate) is_full: bool,
    /// The first packet that is not acknowledged.
    pub(crate) acked: u64,
    /// The first packet that was never sent.
    pub(crate) next: u64,
    /// Packets that have arrived, as far as can be told.
    pub(crate) delivered: u64,
    /// Whether none before the last of those is missing.
    pub(crate) is_whole: bool,
    /// Packets on the way, as far as can be told.
    pub(crate) in_flight: u64,
    /// Packets reported as lost, ever.
    pub(crate) lost: u64,
    /// What a burst of packets tells that is known to have arrived.
    pub(crate) sample: Option<Sample>,
    /// Round trip of the packet behind the losses of this report.
    pub(crate) behind_loss: Option<Duration>,
    pub(crate) rtt: RoundTrip,
    /// Packets per second as the receiver sees them come, and could see them come; 0 where not known.
    pub(crate) receive_rate: f64,
    pub(crate) capacity: f64,
}

/// What a burst of packets tells that has arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Packets per second, between its being sent and its being known to have arrived.
    pub(crate) rate: f64,
    pub(crate) rtt: Duration,
    /// One past its last packet.
    pub(crate) end: u64,
    /// Whether there was less to send than could have been.
    pub(crate) is_limited: bool,
}

/// Decides how fast a connection sends; it never sees packets, only what is known of them.
pub(crate) trait Controller: Debug + Send {
    /// Reacts on packets that arrived.
    fn on_ack(&mut self, now: Instant, progress: &Progress);
    /// Reacts on a loss report whose first packet is `first`.
    fn on_loss(&mut self, now: Instant, first: u64, progress: &Progress);
    /// Reacts on silence.
    fn on_timeout(&mut self, progress: &Progress);
    /// Notes that sending begins again with nothing on the way, and so with no queue of ours.
    fn on_idle_end(&mut self, _now: Instant) {}
    /// Reacts on a warning that a router or receiver is congested.
    fn on_warning(&mut self, next: u64);
    /// Packets that may be on the way.
    fn window(&self) -> u64;
    /// Packets per second.
    fn rate(&self) -> f64;
    /// Packets per second that the path carries, as far as it knows.
    fn bandwidth(&self) -> f64 {
        self.rate()
    }
    /// The shortest round trip it knows of.
    fn min_rtt(&self) -> Option<Duration> {
        None
    }
}

/// Creates the chosen control, with the round trip of the handshake and a number that differs by flow.
pub(crate) fn make(
    congestion: Congestion,
    now: Instant,
    rtt: RoundTrip,
    peer_window: u32,
    seed: u32,
) -> Box<dyn Controller> {
    match congestion {
        Congestion::Model => Box::new(Model::new(now, rtt)),
        Congestion::Cubic => Box::new(Cubic::new(rtt.duration(), peer_window)),
        Congestion::Native => Box::new(Native::new(peer_window, seed)),
    }
}

/// Finds the queue that ends a startup, from samples of the round trip.
#[derive(Debug, Default)]
struct QueueSigns(u32);

impl QueueSigns {
    /// Takes in a sample at a rate in packets per second; whether there is a queue.
    fn on_rtt(&mut self, rtt: Duration, min_rtt: Duration, rate: f64) -> bool {
        // Acknowledgements alone are late by what they wait for each other.
        let lump = Duration::from_secs_f64(LUMP / rate.max(1.0)).min(SYN * 3 / 2);
        let is_late = rtt > min_rtt + min_rtt / 8 + lump;
        self.0 = if is_late { self.0 + 1 } else { 0 };
        self.0 >= QUEUED
    }
}

/// Packets that seem in flight at a rate because acknowledgements come in lumps.
fn lumps(rate: f64) -> f64 {
    packets(rate, SYN * 3 / 2).clamp(16.0, 208.0)
}

/// Packets of a rate that pass in a time.
pub(crate) fn packets(rate: f64, time: Duration) -> f64 {
    rate * time.as_secs_f64()
}

/// A number of packets, downwards, as an integer.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, which is what is wanted"
)]
pub(crate) fn whole(packets: f64) -> u64 {
    packets as u64
}

/// A count as a number to compute with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of packets are far below 2^52"
)]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

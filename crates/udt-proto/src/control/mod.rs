//! `Controller`: congestion control, by a window in packets and a pacing rate.

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

/// Interval of full acknowledgements.
pub(crate) const SYN: Duration = Duration::from_millis(10);
/// Smallest window, in packets, that keeps the acknowledgements coming.
const LEAST_WINDOW: f64 = 8.0;
/// Packets that the receiver acknowledges together, with a margin.
const LUMP: f64 = 128.0;
/// Late samples in a row that show a queue.
const QUEUED: u32 = 8;

/// State of the path after an acknowledgement or a loss report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Progress {
    /// Whether it was a full acknowledgement.
    pub(crate) is_full: bool,
    /// The first packet not acknowledged.
    pub(crate) acked: u64,
    /// The first packet never sent.
    pub(crate) next: u64,
    /// Packets that have arrived, as far as is known.
    pub(crate) delivered: u64,
    /// Whether no packet before the last of those is missing.
    pub(crate) is_whole: bool,
    /// Packets in flight, as far as is known.
    pub(crate) in_flight: u64,
    /// Packets ever reported as lost.
    pub(crate) lost: u64,
    /// Sample of the last burst that has arrived.
    pub(crate) sample: Option<Sample>,
    /// Round trip of the packet behind the losses of this report.
    pub(crate) behind_loss: Option<Duration>,
    pub(crate) rtt: RoundTrip,
    /// Arrival rate and capacity in packets per second, as the receiver measures them; 0 where
    /// unknown.
    pub(crate) receive_rate: f64,
    pub(crate) capacity: f64,
}

/// Measurement by a burst of packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Delivery rate in packets per second, from its transmission to its acknowledgement.
    pub(crate) rate: f64,
    pub(crate) rtt: Duration,
    /// One past its last packet.
    pub(crate) end: u64,
    /// Whether the application had less to send than the window allowed.
    pub(crate) is_limited: bool,
}

/// Congestion control of a connection.
pub(crate) trait Controller: Debug + Send {
    /// Reacts to an acknowledgement.
    fn on_ack(&mut self, now: Instant, progress: &Progress);
    /// Reacts to a loss report whose first packet is `first`.
    fn on_loss(&mut self, now: Instant, first: u64, progress: &Progress);
    /// Reacts to silence.
    fn on_timeout(&mut self, progress: &Progress);
    /// Notes that sending begins again with nothing in flight.
    fn on_idle_end(&mut self, _now: Instant) {}
    /// Reacts to a warning of congestion; `next` is the first packet never sent.
    fn on_warning(&mut self, next: u64);
    /// Most packets in flight.
    fn window(&self) -> u64;
    /// Pacing rate in packets per second.
    fn rate(&self) -> f64;
    /// Estimated rate of the path in packets per second.
    fn bandwidth(&self) -> f64 {
        self.rate()
    }
    /// Shortest round trip known.
    fn min_rtt(&self) -> Option<Duration> {
        None
    }
}

/// Creates the chosen control, with the round trip of the handshake and a number that differs by
/// flow.
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
    /// Takes in a sample at a rate in packets per second; returns whether there is a queue.
    fn on_rtt(&mut self, rtt: Duration, min_rtt: Duration, rate: f64) -> bool {
        // Acknowledgements wait for each other, which is no queue.
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

/// Number of packets at a rate in a time.
pub(crate) fn packets(rate: f64, time: Duration) -> f64 {
    rate * time.as_secs_f64()
}

/// Rounds a number of packets down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, as intended"
)]
pub(crate) fn whole(packets: f64) -> u64 {
    packets as u64
}

/// Converts a count for computations.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of packets are far below 2^52"
)]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

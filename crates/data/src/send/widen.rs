//! `Widening`: finds the number of connections that carry the blocks of a running file.
//!
//! Each period of the transfer is an input, so that it needs no clock. The number doubles as long as
//! that raises the rate. Unlike a search over many files it does not go below its start, and ends:
//! the connections that are not needed are given up before a firewall forgets them for their
//! silence.

use std::time::Duration;

use crate::limit::Limit;

/// Least length of a period: the times of the kernel are taken some times in each second.
const PERIOD: Duration = Duration::from_secs(1);
/// Round trips of a period at least, in which the windows of new connections grow about as much.
const ROUND_TRIPS: u32 = 10;
/// Longest period, where a peer chooses its round trip.
const LONGEST: Duration = Duration::from_secs(10);
/// Periods behind a change that do not count: connections are in slow start.
const WARM: u32 = 1;
/// Periods of one measurement.
const MEASURED: u32 = 2;
/// Rate that twice as many connections need, as a part of the rate before.
const GAIN: f64 = 1.05;
/// Periods without a change before the number is final.
const PATIENCE: u32 = 30;

/// One period of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    pub(crate) took: Duration,
    /// Payload bytes sent in it.
    pub(crate) bytes: u64,
    /// The limit of the connections that carry blocks, where it is known.
    pub(crate) limit: Option<Limit>,
}

/// The search for the number of connections.
#[derive(Debug)]
pub(crate) struct Widening {
    active: u32,
    most: u32,
    /// The number before the last change, and its rate in bytes a second.
    before: Option<(u32, f64)>,
    /// Periods that do not count yet.
    warm: u32,
    /// Periods since the last change.
    unchanged: u32,
    /// Periods, bytes and time of the measurement in progress.
    sum: (u32, u64, Duration),
    is_final: bool,
}

impl Widening {
    /// Begins with `start` connections; `most` are open.
    pub(crate) fn new(start: u32, most: u32) -> Self {
        Self {
            active: start.min(most),
            most,
            before: None,
            warm: WARM,
            unchanged: 0,
            sum: Default::default(),
            is_final: start >= most,
        }
    }

    /// The number of connections that carry blocks.
    pub(crate) const fn active(&self) -> u32 {
        self.active
    }

    /// Whether the number does not change any more.
    pub(crate) const fn is_final(&self) -> bool {
        self.is_final
    }

    /// The length of the next period on a path of this round trip.
    pub(crate) fn period(round_trip: Option<Duration>) -> Duration {
        let trips = round_trip.unwrap_or_default().saturating_mul(ROUND_TRIPS);
        trips.clamp(PERIOD, LONGEST)
    }

    /// Takes a period with the number of connections in force.
    pub(crate) fn handle(&mut self, period: &Period) {
        if self.is_final {
            return;
        }
        self.unchanged += 1;
        self.measure(period);
        self.is_final |= self.unchanged >= PATIENCE;
    }

    fn measure(&mut self, period: &Period) {
        if self.warm > 0 {
            self.warm -= 1;
            return;
        }
        let (periods, bytes, took) = &mut self.sum;
        *periods += 1;
        *bytes = bytes.saturating_add(period.bytes);
        *took = took.saturating_add(period.took);
        if *periods < MEASURED {
            return;
        }
        let rate = rate(*bytes, *took);
        self.sum = Default::default();
        self.judge(rate, period.limit);
    }

    /// Compares the rate with that of fewer connections, and takes the next step.
    fn judge(&mut self, rate: f64, limit: Option<Limit>) {
        if let Some((fewer, before)) = self.before
            && rate < GAIN * before
        {
            self.active = fewer;
            self.is_final = true;
            return;
        }
        self.before = None;
        if self.active >= self.most {
            self.is_final = true;
        } else if rate > 0.0 && !limit.is_some_and(Limit::is_at_an_end) {
            self.before = Some((self.active, rate));
            self.active = self.active.saturating_mul(2).min(self.most);
            (self.warm, self.unchanged) = (WARM, 0);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-3)
}

#[cfg(test)]
#[path = "widen_tests.rs"]
mod tests;

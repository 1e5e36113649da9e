//! `Widening`: finds the number of connections that carry the blocks of a running file.
//!
//! Each period of the transfer is an input, so that it needs no clock. The number doubles as long as
//! that raises the score: the rate, of which ten times the part of the packets that were sent again is
//! taken off. Where that part is large and stays so, the connections crowd each other, as those of BBR
//! do, and the number halves as long as the rate holds. Unlike a search over many files it ends: the
//! connections that are not needed are given up before a firewall forgets them for their silence.

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
/// Score that twice as many connections need, as a part of the score before.
const GAIN: f64 = 1.05;
/// Weight of the part of the packets that were sent again.
const LOSS: f64 = 10.0;
/// Largest part of a score that loss takes: of two crowded numbers the smaller one still scores better.
const MOST_LOSS: f64 = 0.9;
/// Part of the packets sent again with which connections may crowd each other.
const CROWDED: f64 = 0.02;
/// Rate that half as many connections keep up, as a part of the rate before.
const KEPT: f64 = 0.95;
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
    /// Part of the packets that were sent again.
    pub(crate) resent: f64,
}

/// The comparison that the measurement in progress is for.
#[derive(Debug, Clone, Copy)]
enum Trial {
    /// Nothing: the first one of a number.
    None,
    /// The measurement of `fewer` connections. The second measurement of the larger number, `again`,
    /// follows a better rate with lost packets, as new connections have it in slow start.
    Wider {
        fewer: u32,
        before: Sum,
        again: bool,
    },
    /// The rate of the same connections, which had sent many packets again.
    Crowded { rate: f64 },
    /// The number before the last step, and the best rate of all larger numbers.
    Narrower { more: u32, rate: f64 },
}

/// A measurement of a number of connections.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    periods: u32,
    bytes: u64,
    took: Duration,
    resent: f64,
}

/// The search for the number of connections.
#[derive(Debug)]
pub(crate) struct Widening {
    active: u32,
    most: u32,
    /// Whether fewer may do: not where a trial of them has ended.
    narrows: bool,
    trial: Trial,
    /// Periods that do not count yet.
    warm: u32,
    /// Periods since the last change.
    unchanged: u32,
    sum: Sum,
    is_final: bool,
}

impl Widening {
    /// Begins with `start` connections; `most` are open.
    pub(crate) fn new(start: u32, most: u32) -> Self {
        Self {
            active: start.min(most),
            most,
            narrows: true,
            trial: Trial::None,
            warm: WARM,
            unchanged: 0,
            sum: Sum::default(),
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
        self.sum.add(period);
        if self.sum.periods >= MEASURED {
            let sum = std::mem::take(&mut self.sum);
            self.judge(sum, period.limit);
        }
    }

    /// Compares a measurement with the one before, and takes the next step.
    fn judge(&mut self, sum: Sum, limit: Option<Limit>) {
        let rate = sum.rate();
        let is_crowded = self.narrows && self.active > 1 && sum.resent() >= CROWDED;
        match self.trial {
            Trial::Wider {
                fewer,
                before,
                again,
            } if sum.score() < GAIN * before.score() => {
                if !again && rate >= GAIN * before.rate() {
                    let again = true;
                    self.trial = Trial::Wider {
                        fewer,
                        before,
                        again,
                    };
                    return;
                }
                self.most = fewer;
                self.change(fewer, Trial::None);
                self.is_final = !is_crowded;
            }
            Trial::Narrower { more, rate: before } if rate < KEPT * before => {
                self.narrows = false;
                self.change(more, Trial::None);
                self.is_final = more >= self.most;
            }
            Trial::Crowded { rate: before } | Trial::Narrower { rate: before, .. }
                if is_crowded =>
            {
                if let Trial::Narrower { .. } = self.trial {
                    self.most = self.active;
                }
                let (more, rate) = (self.active, before.max(rate));
                self.change(more / 2, Trial::Narrower { more, rate });
            }
            _ if is_crowded => self.trial = Trial::Crowded { rate },
            _ => self.widen(sum, limit),
        }
    }

    /// Tries more connections, as long as there are more and they may help.
    fn widen(&mut self, sum: Sum, limit: Option<Limit>) {
        // The crowding traffic may have been another's, and have ended.
        self.narrows &= !matches!(self.trial, Trial::Narrower { .. });
        self.trial = Trial::None;
        if self.active >= self.most {
            self.is_final = true;
        } else if sum.rate() > 0.0 && !limit.is_some_and(Limit::is_at_an_end) {
            let trial = Trial::Wider {
                fewer: self.active,
                before: sum,
                again: false,
            };
            let more = self.active.saturating_mul(2).min(self.most);
            self.change(more, trial);
        }
    }

    fn change(&mut self, active: u32, trial: Trial) {
        (self.active, self.trial) = (active, trial);
        (self.warm, self.unchanged) = (WARM, 0);
    }
}

impl Sum {
    fn add(&mut self, period: &Period) {
        self.periods += 1;
        self.bytes = self.bytes.saturating_add(period.bytes);
        self.took = self.took.saturating_add(period.took);
        self.resent += period.resent;
    }

    /// Bytes a second.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64().max(1e-3)
    }

    /// Part of the packets that were sent again.
    fn resent(&self) -> f64 {
        self.resent / f64::from(self.periods.max(1))
    }

    fn score(&self) -> f64 {
        self.rate() * (1.0 - (LOSS * self.resent()).min(MOST_LOSS))
    }
}

#[cfg(test)]
#[path = "widen_tests.rs"]
mod tests;

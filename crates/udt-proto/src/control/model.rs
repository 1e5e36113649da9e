//! `Model`: a control that models the path by its rate and its length, and keeps their product in
//! flight.
//!
//! The rate is the largest delivery rate of the last rounds, the length is the shortest round trip
//! of the last seconds. From time to time the control sends faster to find more bandwidth, then
//! slower to drain the queue, and rarely a little only, to see the true length. Random loss changes
//! neither estimate. Where a queue overflows, the packets in flight are bounded by the window of a
//! CUBIC flow with that loss, until the window is larger than the model's: this shares a short
//! queue with flows that slow down for every loss.

use std::time::{Duration, Instant};

use super::cubic::Curve;
use super::losses::{Losses, Verdict};
use super::{
    Controller, LEAST_WINDOW, Progress, QueueSigns, SYN, Sample, lumps, packets, real, whole,
};
use crate::rtt::RoundTrip;

/// First window, in packets: one more than makes the receiver acknowledge at once.
const FIRST_WINDOW: f64 = 65.0;
/// Doubles the rate every round trip: 2/ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Rounds over which the largest rate counts.
const ROUNDS: usize = 10;
/// Age at which a shortest round trip is measured again.
const RTT_AGE: Duration = Duration::from_secs(10);
/// Time of little in flight, to measure the shortest round trip.
const PROBE_TIME: Duration = Duration::from_millis(200);
/// Rates relative to the estimate, one round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Faster every round, until the delivery rate stops to grow.
    Startup,
    /// At the rate and queue that ended the startup, until the delivery rate is measured.
    Settle { until: Instant },
    /// Slower, until the queue of the startup is gone.
    Drain,
    /// At the estimate; the first step of the cycle looks for more.
    Cruise { step: usize, since: Instant },
    /// Little in flight, until the queues are empty.
    Probe { until: Option<Instant> },
}

/// State of the control; rates in packets per second.
#[derive(Debug)]
pub(crate) struct Model {
    phase: Phase,
    /// Largest delivery rate of each of the last rounds, the newest first.
    rates: [f64; ROUNDS],
    min_rtt: Duration,
    min_rtt_at: Instant,
    measured: bool,
    /// Shortest round trip of this `Probe`.
    probe_rtt: Option<Duration>,
    /// The round ends with the arrival of a packet sent after it began.
    round_end: u64,
    losses: Losses,
    /// Bound of the packets in flight since a queue overflowed, and the rates before it.
    bound: Option<Curve>,
    rates_before: [f64; ROUNDS],
    /// Smoothed round trip.
    rtt: Duration,
    /// Rate that startup must beat, and the rounds in which it did not.
    plateau: f64,
    flat_rounds: u32,
    signs: QueueSigns,
}

impl Model {
    pub(crate) fn new(now: Instant, rtt: RoundTrip) -> Self {
        Self {
            phase: Phase::Startup,
            rates: [0.0; ROUNDS],
            min_rtt: rtt.duration(),
            min_rtt_at: now,
            measured: false,
            probe_rtt: None,
            round_end: 0,
            losses: Losses::default(),
            bound: None,
            rates_before: [0.0; ROUNDS],
            rtt: rtt.duration(),
            plateau: 0.0,
            flat_rounds: 0,
            signs: QueueSigns::default(),
        }
    }

    /// Estimated rate of the path.
    fn carried(&self) -> f64 {
        let most = self.rates.iter().copied().fold(0.0, f64::max);
        if most > 0.0 {
            // A lower rate would be too low to measure anything.
            most.max(LEAST_WINDOW / self.min_rtt.max(SYN).as_secs_f64())
        } else {
            FIRST_WINDOW / self.min_rtt.max(Duration::from_micros(100)).as_secs_f64()
        }
    }

    /// Packets that fill the path without a queue.
    fn fill(&self) -> f64 {
        packets(self.carried(), self.min_rtt)
    }

    fn on_sample(&mut self, now: Instant, sample: &Sample, progress: &Progress) {
        if !self.measured || sample.rtt <= self.min_rtt {
            self.min_rtt = sample.rtt;
            self.min_rtt_at = now;
            self.measured = true;
        } else if sample.rtt <= self.min_rtt + self.min_rtt / 50 {
            self.min_rtt_at = now;
        }
        if let Phase::Probe { until: Some(_) } = self.phase {
            let shortest = self.probe_rtt.map_or(sample.rtt, |rtt| rtt.min(sample.rtt));
            self.probe_rtt = Some(shortest);
        }
        let rate = self.carried();
        if self.phase == Phase::Startup && self.signs.on_rtt(sample.rtt, self.min_rtt, rate) {
            let until = now + self.min_rtt;
            self.phase = Phase::Settle { until };
        }
        if sample.end > self.round_end {
            self.on_round(progress, sample.is_limited);
        }
        let most = self.carried();
        if let Some(rate) = self.rates.first_mut()
            && (!sample.is_limited || sample.rate > most)
        {
            *rate = rate.max(sample.rate);
        }
    }

    fn on_round(&mut self, progress: &Progress, is_limited: bool) {
        let is_lossy = self.losses.is_round_lossy();
        if self.losses.on_round() == Verdict::Restore {
            self.restore();
        }
        if self.phase == Phase::Startup && !is_limited {
            self.on_startup_round(is_lossy);
        }
        self.round_end = progress.next;
        if !is_limited {
            self.rates.rotate_right(1);
            if let Some(rate) = self.rates.first_mut() {
                *rate = 0.0;
            }
        }
    }

    /// Removes the bound: the reduction has changed nothing.
    fn restore(&mut self) {
        if self.bound.take().is_some() {
            self.rates = self.rates_before;
        }
    }

    /// Bounds the packets in flight, since a queue has overflowed.
    fn reduce(&mut self, now: Instant, progress: &Progress) {
        let queued = packets(self.carried(), self.rtt.max(self.min_rtt)) + lumps(self.carried());
        let mut window = real(progress.in_flight).min(queued);
        match &self.bound {
            Some(bound) => window = bound.window(),
            None => self.rates_before = self.rates,
        }
        if self.losses.on_reduce(window, progress) == Verdict::Restore {
            self.restore();
            return;
        }
        self.bound = Some(Curve::reduced(window, self.bound.as_ref(), progress.acked));
        if !matches!(self.phase, Phase::Probe { .. }) {
            self.cruise(now, 2);
        }
    }

    /// Lets the bound grow, and removes it once it exceeds the model's window.
    fn on_bound(&mut self, now: Instant, progress: &Progress) {
        let most = 2.0 * self.fill() + lumps(self.carried());
        let is_limited = progress.sample.is_some_and(|sample| sample.is_limited);
        let Some(bound) = &mut self.bound else { return };
        bound.grow(now, progress.acked, self.rtt, is_limited);
        if bound.window() > most {
            self.bound = None;
        }
    }

    fn on_startup_round(&mut self, is_lossy: bool) {
        let reached = self.carried();
        if reached >= self.plateau * 1.25 {
            self.plateau = reached;
            self.flat_rounds = 0;
        } else {
            self.flat_rounds += 1;
        }
        if self.flat_rounds >= 3 || self.flat_rounds >= 1 && is_lossy {
            self.phase = Phase::Drain;
        }
    }

    fn on_phase(&mut self, now: Instant, progress: &Progress) {
        let in_flight = real(progress.in_flight);
        match self.phase {
            Phase::Startup => {}
            Phase::Settle { until } => {
                if now >= until {
                    self.phase = Phase::Drain;
                }
            }
            Phase::Drain => {
                if self.is_drained(progress) {
                    self.cruise(now, 2);
                }
            }
            Phase::Cruise { step, since } => {
                let is_over = now.saturating_duration_since(since) >= self.min_rtt.max(SYN);
                let next = match step {
                    // More bandwidth shows only once more is in flight.
                    0 => {
                        is_over && in_flight >= 1.2 * self.fill()
                            || now.saturating_duration_since(since) >= 3 * self.min_rtt.max(SYN)
                    }
                    1 => {
                        is_over && self.is_drained(progress)
                            || now.saturating_duration_since(since) >= 2 * self.min_rtt.max(SYN)
                    }
                    _ => is_over,
                };
                if next {
                    self.cruise(now, (step + 1) % CYCLE.len());
                }
            }
            Phase::Probe { until: None } => {
                if in_flight <= self.probe_window() + lumps(self.carried()) {
                    let until = now + PROBE_TIME.max(self.min_rtt);
                    self.phase = Phase::Probe { until: Some(until) };
                }
            }
            Phase::Probe { until: Some(until) } => {
                if now >= until {
                    self.min_rtt_at = now;
                    self.min_rtt = self.probe_rtt.take().unwrap_or(self.min_rtt);
                    self.cruise(now, 2);
                }
            }
        }
        let is_old = now.saturating_duration_since(self.min_rtt_at) > RTT_AGE;
        if is_old && matches!(self.phase, Phase::Cruise { .. } | Phase::Drain) {
            self.phase = Phase::Probe { until: None };
            self.probe_rtt = None;
        }
    }

    /// Whether the queue is almost empty.
    fn is_drained(&self, progress: &Progress) -> bool {
        let short = self.min_rtt + self.min_rtt / 8;
        progress.is_whole && real(progress.in_flight) <= self.fill() + lumps(self.carried())
            || progress.sample.is_some_and(|sample| sample.rtt <= short)
    }

    fn cruise(&mut self, now: Instant, step: usize) {
        self.phase = Phase::Cruise { step, since: now };
    }

    fn probe_window(&self) -> f64 {
        (self.fill() / 2.0).max(LEAST_WINDOW)
    }
}

impl Controller for Model {
    fn on_ack(&mut self, now: Instant, progress: &Progress) {
        self.rtt = progress.rtt.duration();
        if let Some(sample) = &progress.sample {
            self.on_sample(now, sample, progress);
        }
        let may_reduce = self.phase != Phase::Startup;
        match self.losses.on_progress(progress, self.min_rtt, may_reduce) {
            Verdict::Keep => {}
            Verdict::Reduce => self.reduce(now, progress),
            Verdict::Restore => self.restore(),
        }
        self.on_bound(now, progress);
        self.on_phase(now, progress);
    }

    fn on_loss(&mut self, now: Instant, _first: u64, progress: &Progress) {
        self.on_ack(now, progress);
    }

    fn on_timeout(&mut self, _progress: &Progress) {}

    fn on_idle_end(&mut self, now: Instant) {
        // The path is empty, so the next round trip is the shortest.
        self.min_rtt_at = now;
    }

    fn on_warning(&mut self, next: u64) {
        let window = match &self.bound {
            Some(bound) => bound.window(),
            None => {
                self.rates_before = self.rates;
                self.fill()
            }
        };
        self.bound = Some(Curve::reduced(window, self.bound.as_ref(), next));
    }

    fn window(&self) -> u64 {
        let fill = self.fill();
        let most = match self.phase {
            Phase::Startup | Phase::Settle { .. } => {
                (STARTUP_GAIN * fill + lumps(self.carried())).max(FIRST_WINDOW)
            }
            Phase::Drain | Phase::Cruise { .. } => 2.0 * fill + lumps(self.carried()),
            Phase::Probe { .. } => self.probe_window(),
        };
        whole(self.bound.map_or(most, |bound| {
            (bound.window() + lumps(self.carried())).min(most)
        }))
    }

    fn rate(&self) -> f64 {
        if let Some(bound) = self.bound {
            return bound.rate(self.rtt);
        }
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Cruise { step, .. } => CYCLE.get(step).copied().unwrap_or(1.0),
            Phase::Settle { .. } | Phase::Probe { .. } => 1.0,
        };
        gain * self.carried()
    }

    fn bandwidth(&self) -> f64 {
        self.carried()
    }

    fn min_rtt(&self) -> Option<Duration> {
        Some(self.min_rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::any_instant;

    #[test]
    fn a_path_without_a_queue_has_its_rates_back_after_a_warning() {
        let rtt = RoundTrip::measured(Duration::from_millis(20));
        let mut model = Model::new(any_instant(), rtt);
        model.rates = [1e5; ROUNDS];
        model.on_warning(100);
        assert!(model.bound.is_some());
        model.restore();
        assert!(model.bound.is_none());
        assert_eq!(model.rates, [1e5; ROUNDS]);
    }
}

//! `Model`: a control that estimates what the path carries and how long it is, and keeps that much on the way.
//!
//! The bandwidth is the largest delivery rate of the last rounds, the length the shortest round trip
//! of the last seconds; their product is what must be on the way to fill the path. Now and then it
//! sends a little faster to find more, then slower to drain what queued, and rarely little to see the
//! true length. A random loss changes neither estimate. Losses beyond what chance explains make it keep
//! no queue of its own for a while, and a loss where there is a queue makes it take its estimate back a
//! little: both leave room for flows that only understand loss, and end where another heeds none.

use std::time::{Duration, Instant};

use super::deference::Deference;
use super::{Controller, Progress, SYN, Sample, packets, real, whole};
use crate::rtt::RoundTrip;

/// Packets that go out before anything is known: one more than makes the receiver acknowledge at once.
const FIRST_WINDOW: f64 = 65.0;
/// The least that keeps the acknowledgements coming.
const LEAST_WINDOW: f64 = 8.0;
/// Twice as much every round trip: 2/ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Rounds over which the largest rate counts.
const ROUNDS: usize = 10;
/// How long a shortest round trip counts.
const RTT_AGE: Duration = Duration::from_secs(10);
/// How long the path is emptied to measure its length.
const PROBE_TIME: Duration = Duration::from_millis(200);
/// The rate relative to the estimate, one round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Packets that the receiver acknowledges together, and some.
const LUMP: f64 = 128.0;
/// So many bursts in a row do not find a queue by chance.
const QUEUED: u32 = 8;
/// A larger part of the packets is not lost by chance.
const LOSSY: f64 = 0.02;
/// A queue that is longer than this part of the round trip, and what acknowledgements wait for each other, is one.
const QUEUE: u32 = 4;
/// What is left of the estimate after a loss with a queue.
const YIELD: f64 = 0.85;
/// A look for more that loses a larger part is not taken again for some time, in which flows that only
/// understand loss can grow.
const COSTLY: f64 = 0.01;
const REST: Duration = Duration::from_secs(2);
/// The rate relative to the estimate while losses are remembered: others find room, and so does the next probe.
const HEADROOM: f64 = 0.9;
/// Rounds for which losses are remembered.
const CAUTION: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Faster every round, until that brings nothing more.
    Startup,
    /// No faster, with a queue that keeps the path full, until its rate is seen.
    Settle { until: Instant },
    /// Slower, until the queue that brought is gone.
    Drain,
    /// At the estimate, looking for more in the first step of the cycle.
    Cruise { step: usize, since: Instant },
    /// Little, until the queues are empty.
    Probe { until: Option<Instant> },
}

/// State of the control; rates in packets per second.
#[derive(Debug)]
pub(crate) struct Model {
    phase: Phase,
    /// The largest rate of each of the last rounds, the present one first.
    rates: [f64; ROUNDS],
    min_rtt: Duration,
    min_rtt_at: Instant,
    measured: bool,
    /// Shortest round trip while the path is emptied.
    probe_rtt: Option<Duration>,
    /// The round ends when a packet has come that was not sent before it began.
    round_end: u64,
    /// What had been delivered and lost when this round began.
    round_delivered: u64,
    round_lost: u64,
    /// The longest round trip of this round.
    round_rtt: Duration,
    deference: Deference,
    /// The rate that startup must beat, and the rounds in which it did not.
    plateau: f64,
    flat_rounds: u32,
    /// Bursts in a row that found a queue.
    queued: u32,
    /// Rounds for which it keeps no queue.
    caution: u32,
    /// What had been delivered and lost when it began to look for more.
    probe_delivered: u64,
    probe_lost: u64,
    /// When it may look for more again.
    rest_until: Instant,
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
            round_delivered: 0,
            round_lost: 0,
            round_rtt: Duration::ZERO,
            deference: Deference::default(),
            plateau: 0.0,
            flat_rounds: 0,
            queued: 0,
            caution: 0,
            probe_delivered: 0,
            probe_lost: 0,
            rest_until: now,
        }
    }

    /// The estimate of what the path carries.
    fn carried(&self) -> f64 {
        let most = self.rates.iter().copied().fold(0.0, f64::max);
        if most > 0.0 {
            // Too little would also be too little to learn from.
            most.max(LEAST_WINDOW / self.min_rtt.max(SYN).as_secs_f64())
        } else {
            FIRST_WINDOW / self.min_rtt.max(Duration::from_micros(100)).as_secs_f64()
        }
    }

    /// Packets that fill the path and no queue.
    fn fill(&self) -> f64 {
        packets(self.carried(), self.min_rtt)
    }

    /// Packets that are on the way only because acknowledgements come in lumps.
    fn lumps(&self) -> f64 {
        packets(self.carried(), SYN * 3 / 2).clamp(16.0, 208.0)
    }

    fn on_sample(&mut self, now: Instant, sample: &Sample, progress: &Progress) {
        // A longest queue that is always there would hide the true length, so a longer one replaces it in time.
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
        if self.phase == Phase::Startup {
            self.on_queue(now, sample.rtt);
        }
        self.round_rtt = self.round_rtt.max(sample.rtt);
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
        let delivered = progress.delivered.saturating_sub(self.round_delivered);
        let lost = progress.lost.saturating_sub(self.round_lost);
        let is_lossy = lost >= 4 && real(lost) > LOSSY * real(delivered + lost);
        self.on_round_queue(lost);
        self.caution = if is_lossy && self.deference.is_due() {
            CAUTION
        } else {
            self.caution.saturating_sub(1)
        };
        if self.phase == Phase::Startup && !is_limited {
            self.on_startup_round(is_lossy);
        }
        self.round_end = progress.next;
        self.round_delivered = progress.delivered;
        self.round_lost = progress.lost;
        if !is_limited {
            self.rates.rotate_right(1);
            if let Some(rate) = self.rates.first_mut() {
                *rate = 0.0;
            }
        }
    }

    /// Yields to others where packets are lost and there is a queue, which chance does not wait for.
    fn on_round_queue(&mut self, lost: u64) {
        let longest = std::mem::take(&mut self.round_rtt);
        let is_queueing = longest > self.min_rtt + self.min_rtt / QUEUE + SYN;
        let is_cruising = matches!(self.phase, Phase::Cruise { .. });
        let is_crowded = is_cruising && is_queueing && lost > 0;
        let rate = self.carried();
        if self.deference.on_round(is_crowded, rate) {
            self.rates.iter_mut().for_each(|rate| *rate *= YIELD);
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

    /// Notes whether a burst found a queue; acknowledgements alone are late by what they wait for each other.
    fn on_queue(&mut self, now: Instant, rtt: Duration) {
        let lump = Duration::from_secs_f64(LUMP / self.carried()).min(SYN * 3 / 2);
        let is_queueing = rtt > self.min_rtt + self.min_rtt / 8 + lump;
        self.queued = if is_queueing { self.queued + 1 } else { 0 };
        if self.queued >= QUEUED {
            let until = now + self.min_rtt;
            self.phase = Phase::Settle { until };
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
                    // More is only found once more is on the way.
                    0 => {
                        is_over && (in_flight >= 1.2 * self.fill() || self.caution > 0)
                            || now.saturating_duration_since(since) >= 3 * self.min_rtt.max(SYN)
                    }
                    1 => {
                        is_over && self.is_drained(progress)
                            || now.saturating_duration_since(since) >= 2 * self.min_rtt.max(SYN)
                    }
                    _ => is_over,
                };
                if next {
                    self.on_step(now, step, progress);
                }
            }
            Phase::Probe { until: None } => {
                if in_flight <= self.probe_window() + self.lumps() {
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

    /// Whether hardly anything waits in a queue.
    fn is_drained(&self, progress: &Progress) -> bool {
        let short = self.min_rtt + self.min_rtt / 8;
        progress.is_whole && real(progress.in_flight) <= self.fill() + self.lumps()
            || progress.sample.is_some_and(|sample| sample.rtt <= short)
    }

    /// Goes on in the cycle, unless the last look for more has cost others too much to have the next so soon.
    fn on_step(&mut self, now: Instant, step: usize, progress: &Progress) {
        let next = (step + 1) % CYCLE.len();
        if next == 0 {
            if now < self.rest_until && self.deference.is_due() {
                return;
            }
            self.probe_delivered = progress.delivered;
            self.probe_lost = progress.lost;
        }
        if next == 2 {
            let delivered = progress.delivered.saturating_sub(self.probe_delivered);
            let lost = progress.lost.saturating_sub(self.probe_lost);
            let is_costly = lost >= 4 && real(lost) > COSTLY * real(delivered + lost);
            if is_costly && self.deference.is_due() {
                // Flows that began together need not look for more together.
                self.rest_until = now + REST + Duration::from_millis(progress.delivered % 500);
            }
        }
        self.cruise(now, next);
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
        if let Some(sample) = &progress.sample {
            self.on_sample(now, sample, progress);
        }
        self.on_phase(now, progress);
    }

    fn on_loss(&mut self, now: Instant, _first: u64, progress: &Progress) {
        self.on_ack(now, progress);
    }

    fn on_timeout(&mut self, _progress: &Progress) {}

    fn on_idle_end(&mut self, now: Instant) {
        // There is nothing to empty for another look at the length.
        self.min_rtt_at = now;
    }

    fn on_warning(&mut self, _next: u64) {
        self.caution = CAUTION;
    }

    fn window(&self) -> u64 {
        let fill = self.fill();
        whole(match self.phase {
            Phase::Startup | Phase::Settle { .. } => {
                (STARTUP_GAIN * fill + self.lumps()).max(FIRST_WINDOW)
            }
            Phase::Drain => 2.0 * fill + self.lumps(),
            Phase::Cruise { .. } if self.caution > 0 => 1.1 * fill + self.lumps(),
            Phase::Cruise { .. } => 2.0 * fill + self.lumps(),
            Phase::Probe { .. } => self.probe_window(),
        })
    }

    fn rate(&self) -> f64 {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Cruise { step, .. } => {
                let gain = CYCLE.get(step).copied().unwrap_or(1.0);
                if self.caution > 0 && step > 1 {
                    HEADROOM
                } else {
                    gain
                }
            }
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

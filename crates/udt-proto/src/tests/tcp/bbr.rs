//! `Bbr`: ignores loss, as the first version of BBR does.

use std::time::{Duration, Instant};

use super::{Control, Heard};

const STARTUP_GAIN: f64 = 2.885;
/// Rounds over which the largest rate counts.
const ROUNDS: usize = 10;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const RTT_AGE: Duration = Duration::from_secs(10);
const PROBE_TIME: Duration = Duration::from_millis(200);
const LEAST_WINDOW: f64 = 4.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Startup,
    Drain,
    Cruise { step: usize, since: Instant },
    Probe { until: Option<Instant> },
}

/// Congestion control as in the first published version, without its model of policers.
#[derive(Debug)]
pub(in super::super) struct Bbr {
    phase: Phase,
    window: f64,
    /// Window before a loss or a probe of the round trip.
    prior: f64,
    /// Whether it sends no more than arrives, until the end of a lossy round.
    is_conserving: bool,
    rates: [f64; ROUNDS],
    min_rtt: Duration,
    min_rtt_at: Option<Instant>,
    round_end: u64,
    plateau: f64,
    flat_rounds: u32,
}

impl Bbr {
    pub(in super::super) fn new() -> Self {
        Self {
            phase: Phase::Startup,
            window: 10.0,
            prior: 0.0,
            is_conserving: false,
            rates: [0.0; ROUNDS],
            min_rtt: Duration::MAX,
            min_rtt_at: None,
            round_end: 0,
            plateau: 0.0,
            flat_rounds: 0,
        }
    }

    fn carried(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn fill(&self) -> f64 {
        self.carried() * self.min_rtt.as_secs_f64()
    }

    fn on_round(&mut self) {
        self.is_conserving = false;
        if self.phase == Phase::Startup {
            if self.carried() >= self.plateau * 1.25 {
                self.plateau = self.carried();
                self.flat_rounds = 0;
            } else {
                self.flat_rounds += 1;
            }
            if self.flat_rounds >= 3 {
                self.phase = Phase::Drain;
            }
        }
        self.rates.rotate_right(1);
        self.rates[0] = 0.0;
    }

    fn on_rtt(&mut self, heard: &Heard) {
        let is_old = self.min_rtt_at.is_some_and(|at| heard.now - at > RTT_AGE);
        if heard.rtt <= self.min_rtt || is_old {
            self.min_rtt = heard.rtt;
            self.min_rtt_at = Some(heard.now);
        }
        if is_old && !matches!(self.phase, Phase::Probe { .. }) {
            self.phase = Phase::Probe { until: None };
            self.prior = self.window;
        }
    }

    fn on_phase(&mut self, heard: &Heard) {
        let now = heard.now;
        let cruise = |step| Phase::Cruise { step, since: now };
        match self.phase {
            Phase::Startup => {}
            Phase::Drain => {
                if heard.in_flight <= self.fill() {
                    self.phase = cruise(2);
                }
            }
            Phase::Cruise { step, since } => {
                let is_over = now - since > self.min_rtt;
                let is_next = match step {
                    0 => is_over && (heard.lost > 0 || heard.in_flight >= 1.25 * self.fill()),
                    1 => is_over || heard.in_flight <= self.fill(),
                    _ => is_over,
                };
                if is_next {
                    self.phase = cruise((step + 1) % CYCLE.len());
                }
            }
            Phase::Probe { until: None } => {
                if heard.in_flight <= LEAST_WINDOW {
                    let until = Some(now + PROBE_TIME.max(self.min_rtt));
                    self.phase = Phase::Probe { until };
                }
            }
            Phase::Probe { until: Some(until) } => {
                if now >= until {
                    self.min_rtt_at = Some(now);
                    self.window = self.window.max(self.prior);
                    self.phase = cruise(2);
                }
            }
        }
    }
}

impl Control for Bbr {
    fn on_ack(&mut self, heard: &Heard) {
        if heard.delivered_before >= self.round_end {
            self.round_end = heard.delivered;
            self.on_round();
        }
        self.rates[0] = self.rates[0].max(heard.rate);
        self.on_rtt(heard);
        self.on_phase(heard);
        self.window = (self.window - heard.lost as f64).max(1.0);
        if heard.is_new_loss {
            self.is_conserving = true;
            self.window = heard.in_flight;
        }
        let target = match self.phase {
            Phase::Startup | Phase::Drain => STARTUP_GAIN * self.fill(),
            Phase::Cruise { .. } => 2.0 * self.fill(),
            Phase::Probe { .. } => LEAST_WINDOW,
        };
        // Room for packets that are sent and acknowledged together.
        let target = target + 3.0 * (self.rate() / 1e3).max(2.0);
        self.window += 1.0;
        if self.is_conserving {
            self.window = self.window.max(heard.in_flight + 1.0);
        } else if self.phase != Phase::Startup {
            self.window = self.window.min(target);
        }
        if matches!(self.phase, Phase::Probe { .. }) {
            self.window = self.window.min(LEAST_WINDOW);
        }
        self.window = self.window.max(LEAST_WINDOW);
    }

    fn on_timeout(&mut self) {
        self.window = LEAST_WINDOW;
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn rate(&self) -> f64 {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Cruise { step, .. } => CYCLE[step],
            Phase::Probe { .. } => 1.0,
        };
        if self.carried() > 0.0 {
            0.99 * gain * self.carried()
        } else {
            10_000.0
        }
    }
}

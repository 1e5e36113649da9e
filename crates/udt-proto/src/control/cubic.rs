//! `Cubic`: the congestion control of RFC 9438, and `Curve`, its growth between two losses.

use std::time::{Duration, Instant};

use super::{Controller, LEAST_WINDOW, Progress, QueueSigns, SYN, lumps, real, whole};

/// Part of the window that is left after a loss (RFC 9438, section 4.6).
const BETA: f64 = 0.7;
/// Aggressiveness, in packets per second cubed (section 5).
const C: f64 = 0.4;
/// Growth in packets per round of a Reno flow of the same average (section 4.3).
const RENO: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// First window, in packets.
const FIRST_WINDOW: f64 = 16.0;
/// Pacing of slow start, relative to a window per round trip.
const SLOW_START_PACE: f64 = 2.0;

/// Window that grows since the last loss as RFC 9438 says, in packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    window: f64,
    /// The window after the last reduction, and the one that it returns to.
    low: f64,
    high: f64,
    /// The window of a Reno flow since the last reduction.
    reno: f64,
    since: Option<Instant>,
    /// First packet not acknowledged at the last growth.
    acked: u64,
}

impl Curve {
    /// Goes on with a window that no loss has ended.
    fn steady(window: f64, acked: u64) -> Self {
        Self {
            window,
            low: window,
            high: window,
            reno: window,
            since: None,
            acked,
        }
    }

    /// Reduces a window in which a packet was lost; `before` is the curve until then.
    pub(super) fn reduced(window: f64, before: Option<&Self>, acked: u64) -> Self {
        // Fast convergence (section 4.7): a flow that loses ground releases more.
        let is_shrinking = before.is_some_and(|before| window < before.high);
        let high = window
            * if is_shrinking {
                (1.0 + BETA) / 2.0
            } else {
                1.0
            };
        let low = (BETA * window).max(LEAST_WINDOW);
        Self {
            high: high.max(low),
            ..Self::steady(low, acked)
        }
    }

    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// Packets per second that spread the window over a round trip.
    pub(super) fn rate(&self, rtt: Duration) -> f64 {
        self.window / rtt.max(SYN / 10).as_secs_f64()
    }

    /// Grows by the acknowledged bytes. An idle flow keeps its window.
    pub(super) fn grow(&mut self, now: Instant, acked: u64, rtt: Duration, is_limited: bool) {
        let packets = real(acked.saturating_sub(self.acked)).min(self.window);
        self.acked = acked;
        if is_limited {
            let high = self.high.max(self.window);
            *self = Self {
                high,
                ..Self::steady(self.window, acked)
            };
            return;
        }
        let since = *self.since.get_or_insert(now);
        let back = ((self.high - self.low) / C).cbrt();
        let at = |time: f64| C * (time - back).powi(3) + self.high;
        let time = now.saturating_duration_since(since).as_secs_f64();
        let slope = if self.reno < self.high { RENO } else { 1.0 };
        self.reno += slope * packets / self.window;
        if at(time) < self.reno {
            self.window = self.window.max(self.reno);
        } else {
            let target = at(time + rtt.as_secs_f64()).clamp(self.window, 1.5 * self.window);
            self.window += (target - self.window) / self.window * packets;
        }
    }
}

/// State of the control.
#[derive(Debug)]
pub(crate) struct Cubic {
    most_window: f64,
    /// Window of slow start, which a loss, a queue or `threshold` ends.
    slow_start: f64,
    /// Window at which slow start after silence ends (RFC 9438, section 4.8).
    threshold: f64,
    acked: u64,
    signs: QueueSigns,
    curve: Option<Curve>,
    /// Losses of packets before this one belong to the last reduction.
    recovery: u64,
    min_rtt: Option<Duration>,
    rtt: Duration,
}

impl Cubic {
    pub(crate) fn new(rtt: Duration, peer_window: u32) -> Self {
        Self {
            most_window: f64::from(peer_window),
            slow_start: FIRST_WINDOW,
            threshold: f64::INFINITY,
            acked: 0,
            signs: QueueSigns::default(),
            curve: None,
            recovery: 0,
            min_rtt: None,
            rtt,
        }
    }

    fn packets(&self) -> f64 {
        let window = self.curve.as_ref().map_or(self.slow_start, Curve::window);
        window.min(self.most_window)
    }

    fn reduce(&mut self, progress: &Progress) {
        let window = self
            .packets()
            .min(real(progress.in_flight).max(LEAST_WINDOW));
        self.curve = Some(Curve::reduced(window, self.curve.as_ref(), progress.acked));
        self.recovery = progress.next;
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, now: Instant, progress: &Progress) {
        self.rtt = progress.rtt.duration();
        // A window that the peer's buffer bounds is not probed.
        let mut is_limited =
            real(progress.in_flight) < self.packets() / 2.0 || self.packets() >= self.most_window;
        if let Some(sample) = progress.sample {
            let min_rtt = self.min_rtt.map_or(sample.rtt, |rtt| rtt.min(sample.rtt));
            self.min_rtt = Some(min_rtt);
            is_limited |= sample.is_limited;
            let rate = self.slow_start / min_rtt.as_secs_f64();
            if self.curve.is_none() && self.signs.on_rtt(sample.rtt, min_rtt, rate) {
                // The queue ends slow start before it overflows.
                self.curve = Some(Curve::steady(self.slow_start, progress.acked));
            }
        }
        match &mut self.curve {
            Some(curve) if progress.acked >= self.recovery => {
                curve.grow(now, progress.acked, self.rtt, is_limited);
            }
            Some(_) => {}
            None if is_limited => {}
            None => {
                let grown = self.slow_start + real(progress.acked.saturating_sub(self.acked));
                self.slow_start = grown.min(self.most_window);
                if self.slow_start >= self.threshold {
                    self.curve = Some(Curve::steady(self.slow_start, progress.acked));
                }
            }
        }
        self.acked = progress.acked;
    }

    fn on_loss(&mut self, now: Instant, first: u64, progress: &Progress) {
        if first >= self.recovery {
            self.reduce(progress);
        }
        self.on_ack(now, progress);
    }

    fn on_timeout(&mut self, progress: &Progress) {
        self.reduce(progress);
        self.threshold = self.packets();
        self.slow_start = LEAST_WINDOW;
        self.curve = None;
    }

    fn on_warning(&mut self, next: u64) {
        let window = self.packets();
        self.curve = Some(Curve::reduced(window, self.curve.as_ref(), self.acked));
        self.recovery = next;
    }

    fn window(&self) -> u64 {
        whole(self.packets() + lumps(self.bandwidth()))
    }

    fn rate(&self) -> f64 {
        match &self.curve {
            Some(_) => self.packets() / self.rtt.max(SYN / 10).as_secs_f64(),
            None => SLOW_START_PACE * self.bandwidth(),
        }
    }

    fn bandwidth(&self) -> f64 {
        self.packets() / self.rtt.as_secs_f64().max(1e-6)
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Sample;
    use crate::rtt::RoundTrip;
    use crate::tests::world::any_instant;

    const RTT: Duration = Duration::from_millis(20);

    /// Acknowledges windows for `rounds` round trips of a path that never fills; returns the time.
    fn run(cubic: &mut Cubic, rounds: u32, progress: &mut Progress, mut now: Instant) -> Instant {
        for _ in 0..rounds {
            let window = cubic.window();
            progress.acked += window;
            progress.next = progress.acked + window;
            progress.delivered = progress.acked;
            progress.in_flight = window;
            progress.sample = Some(Sample {
                rate: real(window) / RTT.as_secs_f64(),
                rtt: RTT,
                end: progress.acked,
                is_limited: false,
            });
            now += RTT;
            cubic.on_ack(now, progress);
        }
        now
    }

    fn progress() -> Progress {
        Progress {
            is_full: true,
            acked: 0,
            next: 0,
            delivered: 0,
            is_whole: true,
            in_flight: 0,
            lost: 0,
            sample: None,
            behind_loss: None,
            rtt: RoundTrip::measured(RTT),
            receive_rate: 0.0,
            capacity: 0.0,
        }
    }

    #[test]
    fn the_rate_is_bounded_by_the_window_of_the_peer() {
        let (mut cubic, mut path) = (Cubic::new(RTT, 100), progress());
        let now = run(&mut cubic, 200, &mut path, any_instant());
        let most = SLOW_START_PACE * 100.0 / RTT.as_secs_f64();
        assert!(cubic.rate() <= most, "{}", cubic.rate());
        cubic.on_loss(now, path.acked, &path);
        // Ten minutes of growth by the curve.
        run(&mut cubic, 30_000, &mut path, now);
        assert!(cubic.rate() <= most / SLOW_START_PACE, "{}", cubic.rate());
    }

    /// RFC 9438, section 4.8.
    #[test]
    fn slow_start_after_silence_ends_at_the_reduced_window() {
        let (mut cubic, mut path) = (Cubic::new(RTT, 100_000), progress());
        let now = run(&mut cubic, 8, &mut path, any_instant());
        let before = real(path.in_flight);
        cubic.on_timeout(&path);
        assert!(cubic.packets() <= LEAST_WINDOW);
        run(&mut cubic, 16, &mut path, now);
        let after = cubic.packets();
        assert!(after >= BETA * before, "{before} packets, then {after}");
        assert!(after < 2.0 * before, "{before} packets, then {after}");
    }
}

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

    /// Grows by what was acknowledged. An idle flow keeps its window.
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
    /// Window of slow start, which a loss or a queue ends.
    slow_start: f64,
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
        let mut is_limited = real(progress.in_flight) < self.packets() / 2.0;
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
                self.slow_start += real(progress.acked.saturating_sub(self.acked));
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
        self.curve = Some(Curve::reduced(
            LEAST_WINDOW,
            self.curve.as_ref(),
            progress.acked,
        ));
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
            Some(curve) => curve.rate(self.rtt),
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

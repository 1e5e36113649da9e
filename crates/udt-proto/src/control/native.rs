//! `Native`: UDT's own control, by additive increase and multiplicative decrease of the rate.
//!
//! Seven things differ from the reference, all of them local. Rates stay fractional, since rounding
//! a period up makes every decrease far deeper than an eighth at high rates. A receive rate counts
//! only once it was reported, so that an early loss does not stop the flow, and only up to a
//! multiple of the measured delivery rate, since bursts make it far too large. The first period
//! after slow start is the round trip divided by the window. An epoch of congestion ends after two
//! round trips, or a flow of retransmissions alone would never slow down again. Acknowledgements
//! that arrive a little closer than they were sent count as well. The random numbers of each flow
//! have a seed of their own.

use std::time::{Duration, Instant};

use super::{Controller, Progress, SYN, packets, real, whole};

/// A decrease makes the period longer by an eighth.
const DECREASE: f64 = 1.125;
/// Seconds per packet of the slowest rate.
const LONGEST_PERIOD: f64 = 1.0;
/// Most decreases in one epoch of congestion.
const MOST_DECREASES: u32 = 5;
/// Shortest time between the acknowledgements of two `SYN` intervals.
const CLOSEST: Duration = Duration::from_millis(9);
/// Factor up to which a reported rate may exceed the delivery rate.
const BELIEF: f64 = 1.5;

/// State of the control; periods in seconds per packet, rates in packets per second.
#[derive(Debug)]
pub(crate) struct Native {
    slow_start: bool,
    window: f64,
    most_window: f64,
    period: f64,
    last_decrease_period: f64,
    /// Packet size of the formula's constant, in bytes; the actual size is not known here.
    mss: f64,
    lossy: bool,
    last_ack: u64,
    last_decrease: u64,
    last_decrease_at: Option<Instant>,
    /// Measured delivery rate in packets per second; 0 where unknown.
    delivered: f64,
    average_reports: f64,
    reports: u32,
    decreases: u32,
    every: u32,
    last_at: Option<Instant>,
    seed: u32,
}

impl Native {
    pub(crate) fn new(peer_window: u32, seed: u32) -> Self {
        Self {
            slow_start: true,
            window: 16.0,
            most_window: f64::from(peer_window.max(16)),
            period: 1e-6,
            last_decrease_period: 1e-6,
            mss: 1500.0,
            lossy: false,
            last_ack: 0,
            last_decrease: 0,
            last_decrease_at: None,
            delivered: 0.0,
            average_reports: 0.0,
            reports: 0,
            decreases: 0,
            every: 1,
            last_at: None,
            seed,
        }
    }

    /// Updates the delivery rate.
    fn on_sample(&mut self, progress: &Progress) {
        if let Some(sample) = progress.sample {
            // Falls slowly: a pause of this sender says nothing of the path.
            self.delivered = sample.rate.max(0.98 * self.delivered);
        }
    }

    /// Bounded receive rate of the peer's report; 0 where unknown.
    fn receive_rate(&self, progress: &Progress) -> f64 {
        if self.delivered > 0.0 {
            progress.receive_rate.min(BELIEF * self.delivered)
        } else {
            progress.receive_rate
        }
    }

    fn leave_slow_start(&mut self, progress: &Progress) {
        self.slow_start = false;
        let rate = self.receive_rate(progress).max(self.delivered);
        self.period = if rate > 0.0 {
            1.0 / rate
        } else {
            (progress.rtt.duration() + SYN).as_secs_f64() / self.window
        };
    }

    /// Lengthens the period, to an eighth of a round trip at most, so that a better path is
    /// noticed.
    fn decrease(&mut self, progress: &Progress) {
        let longest = (progress.rtt.duration() + SYN).as_secs_f64() / 8.0;
        self.period = (self.period * DECREASE).min(longest.max(self.period));
    }

    /// Returns a fraction of one, from the seed of this flow: competing flows must not decrease in
    /// step.
    fn random(&mut self) -> f64 {
        self.seed = self
            .seed
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        f64::from(self.seed >> 8) / f64::from(1_u32 << 24)
    }

    fn increase(&self, capacity: f64) -> f64 {
        let mut spare = capacity - 1.0 / self.period;
        if self.period > self.last_decrease_period && capacity / 9.0 < spare {
            spare = capacity / 9.0;
        }
        if spare <= 0.0 {
            return 0.01;
        }
        let magnitude = (spare * self.mss * 8.0).log10().ceil();
        (10_f64.powf(magnitude) * 1.5e-6 / self.mss).max(0.01)
    }
}

impl Controller for Native {
    fn on_ack(&mut self, now: Instant, progress: &Progress) {
        self.on_sample(progress);
        let too_soon = |at| now.saturating_duration_since(at) < CLOSEST;
        if !progress.is_full || self.last_at.is_some_and(too_soon) {
            return;
        }
        self.last_at = Some(now);
        if self.slow_start {
            self.window += real(progress.acked.saturating_sub(self.last_ack)) + 1.0;
            self.last_ack = progress.acked;
            if self.window > self.most_window {
                self.leave_slow_start(progress);
            }
            return;
        }
        let receive_rate = self.receive_rate(progress);
        if receive_rate > 0.0 {
            let time = progress.rtt.duration() + SYN;
            self.window = packets(receive_rate, time) + 16.0;
        }
        if std::mem::take(&mut self.lossy) {
            return;
        }
        let syn = SYN.as_secs_f64();
        let increase = self.increase(progress.capacity);
        self.period = self.period * syn / (self.period * increase + syn);
    }

    fn on_loss(&mut self, now: Instant, first: u64, progress: &Progress) {
        self.on_sample(progress);
        if self.slow_start {
            self.leave_slow_start(progress);
            if progress.receive_rate > 0.0 {
                return;
            }
        }
        self.lossy = true;
        let epoch = 2 * (progress.rtt.duration() + SYN);
        let is_old = |at| now.saturating_duration_since(at) > epoch;
        if first >= self.last_decrease || self.last_decrease_at.is_some_and(is_old) {
            self.last_decrease_at = Some(now);
            self.last_decrease_period = self.period;
            self.decrease(progress);
            // Rounded up as in the reference, so that it hardly falls again: of losses in bursts,
            // fewer count.
            let average = 0.875 * self.average_reports + 0.125 * f64::from(self.reports);
            self.average_reports = average.ceil();
            self.reports = 1;
            self.decreases = 1;
            self.last_decrease = progress.next;
            let every = (self.average_reports * self.random()).ceil().max(1.0);
            self.every = u32::try_from(whole(every)).unwrap_or(u32::MAX);
            return;
        }
        self.decreases += 1;
        if self.decreases <= MOST_DECREASES {
            self.reports += 1;
            if self.reports.is_multiple_of(self.every) {
                self.decrease(progress);
                self.last_decrease = progress.next;
            }
        }
    }

    fn on_timeout(&mut self, progress: &Progress) {
        if self.slow_start {
            self.leave_slow_start(progress);
        }
    }

    fn on_warning(&mut self, next: u64) {
        self.period = (self.period * DECREASE).min(LONGEST_PERIOD);
        self.last_decrease = next;
    }

    fn window(&self) -> u64 {
        whole(self.window.min(self.most_window))
    }

    fn rate(&self) -> f64 {
        1.0 / self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::RoundTrip;

    /// Counts the decreases by a number of reports in each of 200 epochs.
    fn decreases(control: &mut Native, start: Instant, reports: u64) -> u32 {
        let mut count = 0;
        for epoch in 0..200 {
            for report in 0..reports {
                let next = 1000 * (control.last_decrease / 1000 + 2);
                let progress = Progress {
                    is_full: false,
                    acked: 0,
                    next,
                    delivered: 0,
                    is_whole: false,
                    in_flight: 0,
                    lost: 0,
                    sample: None,
                    behind_loss: None,
                    rtt: RoundTrip::UNKNOWN,
                    receive_rate: 1e6,
                    capacity: 1e6,
                };
                let first = if report == 0 { next - 1 } else { 0 };
                let before = control.period;
                control.on_loss(start + Duration::from_secs(epoch), first, &progress);
                count += u32::from(control.period > before);
                control.period = 1e-4;
            }
        }
        count
    }

    #[test]
    fn flows_of_different_seeds_do_not_decrease_in_step() {
        let draws = |seed| {
            let mut control = Native::new(25600, seed);
            [(); 8].map(|()| control.random())
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant can be had in no other way"
    )]
    fn where_losses_have_come_together_fewer_of_them_count() {
        let now = Instant::now();
        let mut control = Native::new(25600, 1);
        control.slow_start = false;
        assert_eq!(decreases(&mut control, now, 1), 200);
        // Every second report counts as well.
        assert_eq!(decreases(&mut control, now, 2), 400);
        decreases(&mut control, now, 5);
        // Now it counts in two of five epochs.
        let later = decreases(&mut control, now, 2);
        assert!((260..310).contains(&later), "{later}");
    }
}

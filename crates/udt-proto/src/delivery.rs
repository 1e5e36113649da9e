//! `Delivery`: packets that have arrived, as acknowledgements and loss reports tell, and rate
//! samples from them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::control::{Sample, packets, real, whole};

/// Most bursts remembered for samples.
const MOST_MARKS: usize = 1 << 15;

/// A burst, and the state when it was sent.
#[derive(Debug, Clone, Copy)]
struct Mark {
    end: u64,
    sent_at: Instant,
    /// Send time of the last packet that had arrived by then.
    first_sent: Instant,
    /// Packets that had arrived without retransmission, and when that was known.
    fresh: u64,
    fresh_at: Instant,
    /// Packets that had arrived by retransmission, and when that was known.
    filled: u64,
    filled_at: Instant,
    is_limited: bool,
}

/// Packets that have arrived, as far as the sender can tell.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// One past the last packet known to have arrived; packets before it may be missing.
    highest: u64,
    highest_at: Instant,
    /// Packets that were reported as lost, each counted once.
    holes: u64,
    /// Those of them that have arrived since, and when the last was known.
    filled: u64,
    filled_at: Instant,
    first_sent: Instant,
    marks: VecDeque<Mark>,
    /// One past the last packet for which the application was slower than the path.
    limited_until: u64,
}

impl Delivery {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            highest: 0,
            highest_at: now,
            holes: 0,
            filled: 0,
            filled_at: now,
            first_sent: now,
            marks: VecDeque::new(),
            limited_until: 0,
        }
    }

    /// Packets reported as lost and not known to have arrived since.
    pub(crate) fn missing(&self) -> u64 {
        self.holes - self.filled
    }

    /// Packets that have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.highest.saturating_sub(self.missing())
    }

    /// Packets that have arrived without retransmission.
    fn fresh(&self) -> u64 {
        self.highest.saturating_sub(self.holes)
    }

    /// Notes the arrival of a packet; packets before it may be missing.
    pub(crate) fn reach(&mut self, now: Instant, end: u64) {
        if end > self.highest {
            self.highest = end;
            self.highest_at = now;
        }
    }

    /// Notes that a packet was reported as lost for the first time.
    pub(crate) fn on_hole(&mut self) {
        self.holes += 1;
    }

    /// Notes the acknowledgement of packets that were reported as lost.
    pub(crate) fn on_filled(&mut self, now: Instant, packets: u64) {
        self.filled = (self.filled + packets).min(self.holes);
        self.filled_at = now;
    }

    /// Notes new packets up to `end`; `is_idle` if none were in flight.
    pub(crate) fn on_sent(&mut self, now: Instant, end: u64, is_idle: bool, is_limited: bool) {
        if is_idle {
            self.first_sent = now;
            self.highest_at = now;
            self.filled_at = now;
        }
        if is_limited {
            self.limited_until = end;
        }
        if self.marks.len() < MOST_MARKS {
            self.marks.push_back(Mark {
                end,
                sent_at: now,
                first_sent: self.first_sent,
                fresh: self.fresh(),
                fresh_at: self.highest_at,
                filled: self.filled,
                filled_at: self.filled_at,
                is_limited: self.limited_until > self.highest,
            });
        }
    }

    /// Packets that have arrived at a rate since then, but are not acknowledged because of a hole.
    pub(crate) fn hidden(&self, now: Instant, next: u64, rate: f64, longest: Duration) -> u64 {
        if self.missing() == 0 {
            return 0;
        }
        let since = now.saturating_duration_since(self.highest_at).min(longest);
        whole(packets(rate, since)).min(next.saturating_sub(self.highest))
    }

    /// Returns when a hole will hide `count` packets at a rate, if it does.
    pub(crate) fn hidden_at(&self, count: u64, rate: f64, longest: Duration) -> Option<Instant> {
        let takes = Duration::from_secs_f64(real(count) / rate.max(1.0));
        // The margin covers the rounding of the time.
        let takes = takes + Duration::from_micros(1);
        (takes <= longest && self.missing() > 0).then(|| self.highest_at + takes)
    }

    /// Returns the sample of the last burst that has arrived.
    pub(crate) fn sample(&mut self, now: Instant) -> Option<Sample> {
        let mut newest = None;
        while self.marks.front().is_some_and(|m| m.end <= self.highest) {
            newest = self.marks.pop_front();
        }
        let mark = newest?;
        self.first_sent = mark.sent_at;
        let rtt = now.saturating_duration_since(mark.sent_at);
        let rtt = rtt.max(Duration::from_micros(1));
        let took = now.saturating_duration_since(mark.fresh_at);
        let took = took.max(mark.sent_at.saturating_duration_since(mark.first_sent));
        // Over less than a round trip, a rate measures the bunching of acknowledgements.
        let took = took.max(rtt).as_secs_f64();
        // Packets that fill holes are acknowledged together, so they arrived over a longer time.
        let since = now.saturating_duration_since(mark.filled_at).as_secs_f64();
        let fresh = self.fresh().saturating_sub(mark.fresh);
        let filled = self.filled - mark.filled;
        Some(Sample {
            rate: real(fresh) / took + real(filled) / took.max(since),
            rtt,
            end: mark.end,
            is_limited: mark.is_limited,
        })
    }

    /// Frees unused memory, and all of it when nothing will be sent any more.
    pub(crate) fn shrink(&mut self, is_over: bool) {
        if is_over || self.marks.is_empty() {
            self.marks = VecDeque::new();
        }
    }

    /// Bytes of memory held, about.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant can be had in no other way"
    )]
    fn predicted_hidden_packets_are_hidden_then() {
        let now = Instant::now();
        let mut delivery = Delivery::new(now);
        delivery.on_hole();
        let longest = Duration::from_secs(1);
        for rate in [7.0, 999.0, 12_345.678, 1e6 / 3.0] {
            for count in 1..500 {
                let Some(at) = delivery.hidden_at(count, rate, longest) else {
                    continue;
                };
                let hidden = delivery.hidden(at, 1_000_000, rate, longest);
                assert!(hidden >= count, "{hidden} of {count} at {rate}");
            }
        }
    }
}

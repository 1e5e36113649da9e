//! `Delivery`: what must have arrived by now, from acknowledgements and loss reports, and what that says of the path.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::control::{Sample, packets, real, whole};

/// Bursts that are remembered to measure by.
const MOST_MARKS: usize = 1 << 15;

/// A burst as it was sent.
#[derive(Debug, Clone, Copy)]
struct Mark {
    end: u64,
    sent_at: Instant,
    /// When the last packet was sent that had arrived by then.
    first_sent: Instant,
    /// What had come for the first time by then, and as of when.
    fresh: u64,
    fresh_at: Instant,
    /// What had come after all, and as of when.
    filled: u64,
    filled_at: Instant,
    is_limited: bool,
}

/// What has arrived, as far as the sender can tell.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// One past the last packet that is known to have come, whatever is missing before it.
    highest: u64,
    highest_at: Instant,
    /// Packets that were reported as lost, each counted once.
    holes: u64,
    /// Those of them that have come after all, and when the last was known to have.
    filled: u64,
    filled_at: Instant,
    first_sent: Instant,
    marks: VecDeque<Mark>,
    /// Until this packet has come, the application was slower than the path.
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

    /// Packets that were reported as lost and are not known to have come since.
    pub(crate) fn missing(&self) -> u64 {
        self.holes - self.filled
    }

    /// Packets that have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.highest.saturating_sub(self.missing())
    }

    /// Packets that have come without being sent again.
    fn fresh(&self) -> u64 {
        self.highest.saturating_sub(self.holes)
    }

    /// Notes that a packet has come, whatever is missing before it.
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

    /// Notes an acknowledgement of so many packets that had been reported as lost.
    pub(crate) fn on_filled(&mut self, now: Instant, packets: u64) {
        self.filled = (self.filled + packets).min(self.holes);
        self.filled_at = now;
    }

    /// Notes that packets go out for the first time, where nothing or something was on the way.
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

    /// Packets that must have come since, at a rate, while a hole keeps the peer from acknowledging them.
    pub(crate) fn hidden(&self, now: Instant, next: u64, rate: f64, longest: Duration) -> u64 {
        if self.missing() == 0 {
            return 0;
        }
        let since = now.saturating_duration_since(self.highest_at).min(longest);
        whole(packets(rate, since)).min(next.saturating_sub(self.highest))
    }

    /// When so many packets will be hidden at a rate, if a hole hides that many.
    pub(crate) fn hidden_at(&self, count: u64, rate: f64, longest: Duration) -> Option<Instant> {
        let takes = Duration::from_secs_f64(real(count) / rate.max(1.0));
        // By then it is surely that many, however the time was rounded.
        let takes = takes + Duration::from_micros(1);
        (takes <= longest && self.missing() > 0).then(|| self.highest_at + takes)
    }

    /// What the last burst tells of those that have arrived by now.
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
        // Less than a round trip says more about how acknowledgements travel than about the path.
        let took = took.max(rtt).as_secs_f64();
        // What fills holes is only seen once the first of them is filled, so it came over a longer time.
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

    /// Gives back the memory that nothing is in, and all of it when nothing will be sent any more.
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
    fn what_will_be_hidden_is_hidden_then() {
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

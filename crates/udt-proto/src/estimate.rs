//! `Arrivals`: how fast packets come, and how fast the path could bring them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A longer pause is the sender's, not the path's.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// Spans over which the rate is averaged.
const SPANS: usize = 4;
/// Pairs that are remembered.
const PAIRS: usize = 64;

/// Packets that came in a time.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    packets: u64,
    time: Duration,
}

impl Span {
    fn rate(self) -> f64 {
        let packets = f64::from(u32::try_from(self.packets).unwrap_or(u32::MAX));
        // Packets of one batch carry one time, which must not look like no time at all.
        packets
            / self
                .time
                .max(Duration::from_micros(self.packets))
                .as_secs_f64()
    }
}

/// Measures what arrives, batches included.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<Instant>,
    present: Span,
    spans: VecDeque<Span>,
    /// The first packet of a pair that was sent without a pause between.
    probe: Option<(u64, Instant)>,
    /// Times between the packets of pairs, in microseconds.
    pairs: VecDeque<u64>,
}

impl Arrivals {
    /// Notes a packet.
    pub(crate) fn on_packet(&mut self, now: Instant) {
        if let Some(last) = self.last {
            let pause = now.saturating_duration_since(last);
            self.present.time += pause.min(LONGEST_PAUSE);
        }
        self.last = Some(now);
        self.present.packets += 1;
    }

    /// Notes a packet that came right after the one before it, and was not sent again.
    pub(crate) fn on_next(&mut self, now: Instant, index: u64, sequence: u32) {
        if sequence & 15 == 0 {
            self.probe = Some((index, now));
            return;
        }
        let Some((_, since)) = self.probe.take_if(|(first, _)| *first + 1 == index) else {
            return;
        };
        // The two of a batch come at the same time, which tells nothing.
        let time = now.saturating_duration_since(since).as_micros();
        if let Ok(time) = u64::try_from(time)
            && time > 0
        {
            self.pairs.push_back(time);
            if self.pairs.len() > PAIRS {
                self.pairs.pop_front();
            }
        }
    }

    /// Packets per second as they come, and as they could come; ends a span.
    pub(crate) fn rates(&mut self) -> (u32, u32) {
        if self.present.packets > 0 {
            self.spans.push_back(std::mem::take(&mut self.present));
            if self.spans.len() > SPANS {
                self.spans.pop_front();
            }
        }
        let sum = self.spans.iter().fold(Span::default(), |sum, span| Span {
            packets: sum.packets + span.packets,
            time: sum.time + span.time,
        });
        if sum.packets == 0 {
            return (0, 0);
        }
        let fastest = self
            .spans
            .iter()
            .map(|span| span.rate())
            .fold(0.0, f64::max);
        let rate = if sum.time.is_zero() {
            fastest
        } else {
            sum.rate()
        };
        (
            whole(rate),
            whole(self.pair_rate().unwrap_or_default().max(rate)),
        )
    }

    /// The rate that the pairs suggest, those apart that were torn or pushed together on the way.
    fn pair_rate(&self) -> Option<f64> {
        let mut sorted: Vec<_> = self.pairs.iter().copied().collect();
        sorted.sort_unstable();
        let median = *sorted.get(sorted.len() / 2)?;
        let near = sorted
            .iter()
            .filter(|t| **t > median / 8 && **t < median * 8);
        let (count, sum) = near.fold((0_u32, 0_u64), |(count, sum), t| (count + 1, sum + t));
        let mean = Duration::from_micros(sum.checked_div(count.into())?);
        Some(1.0 / mean.max(Duration::from_micros(1)).as_secs_f64())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, which is what is wanted"
)]
fn whole(rate: f64) -> u32 {
    rate.ceil() as u32
}

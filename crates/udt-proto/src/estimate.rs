//! `Arrivals`: the arrival rate of packets, and the capacity of the path.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Batches remembered.
const BATCHES: usize = 64;
/// Batches needed to tell pauses from the rest.
const FEWEST: usize = 8;
/// Least time assumed for fewer batches.
const LEAST_TIME: Duration = Duration::from_millis(10);
/// Least time between the packets of a pair. Those of one batch arrive at the same time; the
/// reference reads packets one by one, which takes about this long, and its control is made for
/// that.
const LEAST_PAIR: Duration = Duration::from_micros(2);
/// Pairs remembered.
const PAIRS: usize = 64;

/// Packets that arrived at the same time, and the time since those before them.
#[derive(Debug, Clone, Copy)]
struct Batch {
    packets: u32,
    time: Duration,
}

impl Batch {
    /// Time for each packet.
    fn pace(self) -> Duration {
        self.time / self.packets.max(1)
    }
}

/// Measurements of arrivals.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<Instant>,
    batches: VecDeque<Batch>,
    /// First packet of a pair, which is sent without a pause between.
    probe: Option<(u64, Instant)>,
    /// Times between the packets of pairs, in microseconds.
    pairs: VecDeque<u64>,
}

impl Arrivals {
    /// Notes a packet.
    pub(crate) fn on_packet(&mut self, now: Instant) {
        let time = self
            .last
            .map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.last = Some(now);
        match self.batches.back_mut() {
            Some(batch) if time.is_zero() => batch.packets = batch.packets.saturating_add(1),
            _ => {
                self.batches.push_back(Batch { packets: 1, time });
                if self.batches.len() > BATCHES {
                    self.batches.pop_front();
                }
            }
        }
    }

    /// Notes a packet that arrived in order and was not retransmitted.
    pub(crate) fn on_next(&mut self, now: Instant, index: u64, sequence: u32) {
        if sequence & 15 == 0 {
            self.probe = Some((index, now));
            return;
        }
        let Some((_, since)) = self.probe.take_if(|(first, _)| *first + 1 == index) else {
            return;
        };
        let time = now.saturating_duration_since(since).max(LEAST_PAIR);
        self.pairs
            .push_back(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        if self.pairs.len() > PAIRS {
            self.pairs.pop_front();
        }
    }

    /// Returns arrival rate and capacity, in packets per second.
    pub(crate) fn rates(&self) -> (u32, u32) {
        let rate = self.rate();
        let capacity = self.pair_rate().unwrap_or_default().max(rate);
        (whole(rate), whole(capacity))
    }

    /// Arrival rate without the pauses between bursts, as in the reference.
    fn rate(&self) -> f64 {
        let sum = |batches: &mut dyn Iterator<Item = &Batch>| {
            batches.fold((0, Duration::ZERO), |(packets, time), batch| {
                (packets + batch.packets, time + batch.time)
            })
        };
        let (packets, time) = if self.batches.len() < FEWEST {
            let (packets, time) = sum(&mut self.batches.iter());
            (packets, time.max(LEAST_TIME))
        } else {
            let mut paces: Vec<_> = self.batches.iter().map(|batch| batch.pace()).collect();
            paces.sort_unstable();
            let median = paces.get(paces.len() / 2).copied().unwrap_or_default();
            let is_near = |pace: Duration| pace > median / 8 && pace < median * 8;
            sum(&mut self.batches.iter().filter(|batch| is_near(batch.pace())))
        };
        // Clocks have this resolution.
        let time = time.max(Duration::from_micros(packets.into()));
        if packets == 0 {
            0.0
        } else {
            f64::from(packets) / time.as_secs_f64()
        }
    }

    /// Rate of the pairs, without those that were torn apart or compressed on the way.
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

/// Updates a running average with a rate; 0 is unknown.
pub(crate) fn average(average: &mut f64, rate: u32) {
    if rate > 0 {
        let rate = f64::from(rate);
        *average = if *average > 0.0 {
            (7.0 * *average + rate) / 8.0
        } else {
            rate
        };
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, as intended"
)]
fn whole(rate: f64) -> u32 {
    rate.ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant can be had in no other way"
    )]
    fn pairs_tell_of_the_path_not_of_when_a_device_hands_them_over() {
        let capacity = |apart: &dyn Fn(u64) -> u64| {
            let mut now = Instant::now();
            let mut arrivals = Arrivals::default();
            for index in 0..3200 {
                now += match index % 16 {
                    0 => Duration::from_millis(2),
                    1 => Duration::from_micros(apart(index / 16)),
                    _ => Duration::ZERO,
                };
                arrivals.on_packet(now);
                arrivals.on_next(now, index, u32::try_from(index).unwrap());
            }
            arrivals.rates().1
        };
        assert_eq!(capacity(&|_| 60), 16_667);
        // One in four was pushed together, or torn apart.
        assert_eq!(capacity(&|pair| 60 * u64::from(pair % 4 > 0)), 16_667);
        assert_eq!(
            capacity(&|pair| if pair % 4 > 0 { 60 } else { 900 }),
            16_667
        );
        // Each within one batch: as many as the reference could read one by one.
        assert_eq!(capacity(&|_| 0), 500_000);
    }
}

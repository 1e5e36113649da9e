//! `Link`: one direction of a simulated path.

use std::ops::Range;
use std::time::{Duration, Instant};

/// A deterministic generator of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03)
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    /// Returns true with a probability in millionths.
    pub(super) fn hits(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }
}

/// Properties of a link.
#[derive(Debug, Clone, Default)]
pub(super) struct Nature {
    pub(super) delay: Duration,
    /// Bytes per second, 0 for no limit.
    pub(super) rate: u64,
    /// Bytes of the queue.
    pub(super) queue: u64,
    /// Probabilities in millionths.
    pub(super) loss: u32,
    pub(super) duplication: u32,
    pub(super) reordering: u32,
    /// Packets arrive at multiples of this time, as from devices with interrupt coalescing.
    pub(super) bursts: Duration,
    /// Largest random delay.
    pub(super) jitter: Duration,
    /// Largest datagram, 0 for any.
    pub(super) mtu: usize,
    /// Times without delivery, from the beginning.
    pub(super) blackouts: Vec<Range<Duration>>,
}

/// One direction of a path.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) nature: Nature,
    dice: Dice,
    since: Instant,
    free_at: Instant,
    pub(super) carried: u64,
    pub(super) dropped: u64,
}

impl Link {
    pub(super) fn new(now: Instant, nature: Nature, seed: u64) -> Self {
        Self {
            nature,
            dice: Dice::new(seed),
            since: now,
            free_at: now,
            carried: 0,
            dropped: 0,
        }
    }

    /// Returns the arrival times of a packet of that many bytes: none, one or two.
    pub(super) fn pass(&mut self, now: Instant, bytes: usize) -> [Option<Instant>; 2] {
        let since = now - self.since;
        let nature = &self.nature;
        let is_dark = nature.blackouts.iter().any(|dark| dark.contains(&since));
        let is_too_long = nature.mtu > 0 && bytes > nature.mtu;
        if is_dark || is_too_long || self.dice.hits(nature.loss) {
            self.dropped += 1;
            return [None, None];
        }
        let mut at = now;
        if nature.rate > 0 {
            let waits = self.free_at.saturating_duration_since(now);
            if waits.as_secs_f64() * nature.rate as f64 > nature.queue as f64 {
                self.dropped += 1;
                return [None, None];
            }
            // 28 bytes of IP and UDP are on the wire as well.
            let takes = Duration::from_secs_f64((bytes + 28) as f64 / nature.rate as f64);
            self.free_at = self.free_at.max(now) + takes;
            at = self.free_at;
        }
        self.carried += bytes as u64 + 28;
        at += nature.delay;
        if !nature.bursts.is_zero() {
            let bursts = (at - self.since).div_duration_f64(nature.bursts).ceil();
            at = self.since + nature.bursts.mul_f64(bursts);
        }
        let jitter = nature.jitter.as_micros() as u64;
        let late = |dice: &mut Dice| Duration::from_micros(dice.below(jitter + 1));
        let mut first = at + late(&mut self.dice);
        if self.dice.hits(nature.reordering) {
            first += nature.delay / 4 + Duration::from_micros(self.dice.below(5_000));
        }
        let again = self.dice.hits(nature.duplication);
        [Some(first), again.then(|| at + late(&mut self.dice))]
    }
}

//! `Shape`: arrival times of packets on a link of given rate, delay and loss. Time is an argument.

use std::time::{Duration, Instant};

/// Properties of one direction of a link.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Shape {
    /// Bytes per second; 0 is unlimited.
    pub rate: u64,
    /// One-way delay.
    pub delay: Duration,
    /// Lost packets in a million.
    pub loss: u32,
    /// Longest time of a packet in the queue; a packet that would wait longer is dropped.
    pub queue: Duration,
}

impl Shape {
    /// Returns a shape without loss, with a queue of 100 ms.
    pub fn new(rate: u64, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            loss: 0,
            queue: Duration::from_millis(100),
        }
    }
}

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    shape: Shape,
    free_at: Instant,
    seed: u64,
}

impl Direction {
    /// Returns an idle direction. Equal seeds lose equal packets.
    pub fn new(shape: Shape, now: Instant, seed: u64) -> Self {
        Self {
            shape,
            free_at: now,
            seed: seed | 1,
        }
    }

    /// Returns the arrival time of a packet of `bytes` sent at `now`, or nothing if it is lost.
    pub fn pass(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        let start = self.free_at.max(now);
        if start - now > self.shape.queue || self.dice() < self.shape.loss {
            return None;
        }
        let nanoseconds = (bytes as u64 * 1_000_000_000)
            .checked_div(self.shape.rate)
            .unwrap_or(0);
        self.free_at = start + Duration::from_nanos(nanoseconds);
        Some(self.free_at + self.shape.delay)
    }

    /// Returns a number below a million (xorshift).
    fn dice(&mut self) -> u32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        u32::try_from(self.seed % 1_000_000).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_queue_behind_each_other() {
        let now = Instant::now();
        let mut direction =
            Direction::new(Shape::new(1_000_000, Duration::from_millis(25)), now, 1);
        assert_eq!(
            direction.pass(now, 1000),
            Some(now + Duration::from_millis(26))
        );
        assert_eq!(
            direction.pass(now, 1000),
            Some(now + Duration::from_millis(27))
        );
        assert_eq!(
            direction.pass(now + Duration::from_secs(1), 1000),
            Some(now + Duration::from_millis(1026))
        );
    }

    #[test]
    fn a_full_queue_drops() {
        let now = Instant::now();
        let mut direction = Direction::new(Shape::new(1000, Duration::ZERO), now, 1);
        assert!(direction.pass(now, 1000).is_some());
        assert_eq!(direction.pass(now, 1000), None);
    }

    #[test]
    fn loss_is_close_to_the_configured_rate() {
        let now = Instant::now();
        let shape = Shape {
            loss: 100_000,
            ..Shape::new(0, Duration::ZERO)
        };
        let mut direction = Direction::new(shape, now, 42);
        let lost = (0..10_000)
            .filter(|_| direction.pass(now, 100).is_none())
            .count();
        assert!((800..1200).contains(&lost), "{lost}");
    }
}

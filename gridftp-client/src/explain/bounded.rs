//! `Bounded`: the part of the time in which a bound on the rate held a copy back.
//!
//! A bound may change at any time, so that each second of data has a verdict of its own.

use super::LOOK;
use crate::rate_limit::RateLimit;

/// Samples of one verdict: a second, the longest time between two grants of a bound; and between two
/// servers at least ten, up to the next marker.
const WINDOW: (u32, u32) = (50, 500);
/// Part of the bytes of a bound by which it is reached.
const REACHED: f64 = 0.9;

/// The verdicts of a copy so far.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    pub(super) limit: Option<RateLimit>,
    /// Bytes of the copy before this window, and so far.
    before: u64,
    bytes: u64,
    /// Samples of this window, those of a bound that yields, and the bytes that they allow.
    samples: u32,
    yielding: u32,
    allowed: f64,
    /// Samples of all windows, and of those that reached the caller's bound or the one that yields.
    all: u64,
    limited: u64,
    yielded: u64,
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
impl Bounded {
    /// Takes a sample with data under way, of a copy that moved so many bytes so far, which pass this
    /// end or go from server to server.
    pub(super) fn take(&mut self, bytes: u64, is_between: bool) {
        let Some(limit) = &self.limit else { return };
        let least = limit.least().unwrap_or(u64::MAX);
        // The first bytes of all are still on their way.
        if self.all > 0 || self.samples > 0 {
            self.allowed += least as f64 * LOOK.as_secs_f64();
        }
        self.yielding += u32::from(limit.yields());
        self.samples += 1;
        let has_moved = bytes > self.bytes;
        self.bytes = bytes;
        let is_over = match is_between {
            true => self.samples >= WINDOW.1 && has_moved,
            false => self.samples >= WINDOW.0,
        };
        if !is_over {
            return;
        }
        let [limited, yielded] = self.window();
        self.limited += limited;
        self.yielded += yielded;
        self.all += u64::from(self.samples);
        (self.before, self.samples, self.yielding, self.allowed) = (bytes, 0, 0, 0.0);
    }

    /// Samples of this window that reached the caller's bound, or the one that yields.
    fn window(&self) -> [u64; 2] {
        let moved = self.bytes.saturating_sub(self.before) as f64;
        match moved >= REACHED * self.allowed {
            true => [self.samples - self.yielding, self.yielding].map(u64::from),
            false => [0, 0],
        }
    }

    /// The parts of the time in which the caller's bound, and the one that yields, held the copy
    /// back.
    pub(super) fn parts(&self) -> [f64; 2] {
        let [limited, yielded] = self.window();
        let all = (self.all + u64::from(self.samples)).max(1) as f64;
        [self.limited + limited, self.yielded + yielded].map(|samples| samples as f64 / all)
    }
}

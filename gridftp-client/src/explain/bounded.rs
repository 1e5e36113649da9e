//! `Bounded`: the part of the time in which a bound on the rate held a copy back.
//!
//! A bound may change at any time, so that each second of data has a verdict of its own.

use super::LOOK;
use crate::rate_limit::RateLimit;

/// Samples of one verdict: a second, the longest time between two grants of a bound.
const WINDOW: u32 = 50;
/// Part of the bytes of a bound by which it is reached.
const REACHED: f64 = 0.9;

/// The verdicts of a copy so far.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    pub(super) limit: Option<RateLimit>,
    /// Bytes of the copy before this window.
    before: u64,
    /// Samples of this window, those of a bound that yields, and the bytes that they allow.
    samples: u32,
    yielding: u32,
    allowed: f64,
    /// Samples of all windows, and of those that reached the caller's bound or the one that yields.
    all: u64,
    limited: u64,
    yielded: u64,
}

impl Bounded {
    /// Takes a sample with data under way, of a copy that moved so many bytes so far.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn take(&mut self, bytes: u64) {
        let Some(limit) = &self.limit else { return };
        let least = limit.least().unwrap_or(u64::MAX);
        self.allowed += least as f64 * LOOK.as_secs_f64();
        self.yielding += u32::from(limit.yields());
        self.samples += 1;
        if self.samples < WINDOW {
            return;
        }
        if bytes.saturating_sub(self.before) as f64 >= REACHED * self.allowed {
            self.yielded += u64::from(self.yielding);
            self.limited += u64::from(self.samples - self.yielding);
        }
        self.all += u64::from(self.samples);
        (self.before, self.samples, self.yielding, self.allowed) = (bytes, 0, 0, 0.0);
    }

    /// The parts of the time in which the caller's bound, and the one that yields, held the copy
    /// back.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn parts(&self) -> [f64; 2] {
        let all = self.all.max(1) as f64;
        [self.limited, self.yielded].map(|samples| samples as f64 / all)
    }
}

//! `Candidate`: a codec that takes part in the choice, with its results in contests.

use std::time::{Duration, Instant};

use crate::codec::Algorithm;
use crate::codec_cache::{Choice, Outcome};

/// Time that a cap holds, at first and at most.
pub(super) const CAP: Duration = Duration::from_secs(2);
pub(super) const LONGEST_CAP: Duration = Duration::from_secs(120);

/// The candidates, the cheapest first, with a bound for their bytes per second.
pub(super) const FIELD: &[(Algorithm, i32, f64)] = &[
    (Algorithm::Lz4, 0, 4e9),
    (Algorithm::Lzo, 3, 3e9),
    (Algorithm::Zstd, 1, 2e9),
    (Algorithm::Zstd, 3, 1.5e9),
    (Algorithm::Zlib, 6, 3e8),
    (Algorithm::Zstd, 9, 3e8),
    (Algorithm::Zstd, 15, 4e7),
];
/// The codec of samples, which others are compared with: cheap, and better than a search for
/// repeats alone.
pub(super) const SAMPLER: Choice = Choice {
    algorithm: Algorithm::Zstd,
    level: 1,
};

/// Seconds per byte, and share of the length that is left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measure {
    pub(super) cost: f64,
    pub(super) left: f64,
}

impl Measure {
    /// The moving average of this and `other`, which counts by `weight`.
    pub(super) fn mix(self, new: Self, weight: f64) -> Self {
        let mix = |old: f64, new: f64| old * (1.0 - weight) + new * weight;
        Self {
            cost: mix(self.cost, new.cost),
            left: mix(self.left, new.left),
        }
    }

    /// Field by field, `other` being above 0.
    pub(super) fn times(self, by: Self, other: Self) -> Self {
        let left = self.left * by.left / other.left;
        Self {
            cost: self.cost * by.cost / other.cost,
            left: left.clamp(1e-4, 1.0),
        }
    }
}

/// A codec and its measurements.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) choice: Choice,
    /// Bytes per second that it exceeds on hardly any machine.
    pub(super) hope: f64,
    /// Contests that it took part in.
    pub(super) contests: u32,
    /// Its cost and gain in them, the latest counting most.
    pub(super) own: Measure,
    /// Cost and gain of the reference on the same blocks.
    pub(super) reference: Measure,
    /// Largest rate of the receiver, until when that holds, and for how long.
    pub(super) cap: Option<(f64, Instant)>,
    pub(super) cap_time: Duration,
}

impl Candidate {
    pub(super) fn new(choice: Choice, hope: f64) -> Self {
        Self {
            choice,
            hope,
            contests: 0,
            own: Measure::default(),
            reference: Measure::default(),
            cap: None,
            cap_time: CAP,
        }
    }

    pub(super) fn limit(&self, rate: f64) -> f64 {
        self.cap.map_or(rate, |(cap, _)| rate.min(cap))
    }

    /// Expected cost and gain where the reference has `base`.
    pub(super) fn measure(&self, base: Option<Measure>) -> Option<Measure> {
        (self.contests > 0).then_some(base?.times(self.own, self.reference))
    }

    /// Records the result of a contest.
    pub(super) fn compare(&mut self, own: Measure, reference: Measure) {
        self.contests += 1;
        match self.contests {
            1 => (self.own, self.reference) = (own, reference),
            n => {
                let weight = 1.0 / f64::from(n.min(8));
                self.own = self.own.mix(own, weight);
                self.reference = self.reference.mix(reference, weight);
                // The first time includes the making of its tables.
                if n == 2 {
                    (self.own.cost, self.reference.cost) = (own.cost, reference.cost);
                }
            }
        }
    }
}

impl Outcome {
    /// The measurement, where the codec had work to do.
    pub(super) fn measure(&self) -> Option<(Choice, Measure)> {
        if self.original == 0 || self.time.is_zero() {
            return None;
        }
        let original = amount(self.original as u64);
        let left = (amount(self.packed as u64) / original).clamp(1e-4, 1.0);
        Some((
            self.choice,
            Measure {
                cost: seconds(self.time) / original,
                left,
            },
        ))
    }
}

pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate needs no more than 52 bits"
)]
pub(super) fn amount(bytes: u64) -> f64 {
    bytes as f64
}

//! `RoundTrip`: the smoothed round-trip time and its variance, as both ends compute them.

use std::time::Duration;

/// Longest round trip believed, in microseconds.
const LONGEST: u32 = 60_000_000;

/// Smoothed round-trip time and variance, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    smoothed: u32,
    variance: u32,
    is_measured: bool,
}

impl RoundTrip {
    /// Default before the first measurement.
    pub(crate) const UNKNOWN: Self = Self {
        smoothed: 100_000,
        variance: 50_000,
        is_measured: false,
    };

    /// Begins with a single measurement.
    pub(crate) fn measured(first: Duration) -> Self {
        let smoothed = micros(first).clamp(1, LONGEST);
        Self {
            smoothed,
            variance: smoothed / 2,
            is_measured: true,
        }
    }

    /// Updates variance and mean with a measurement in microseconds.
    pub(crate) fn update(&mut self, sample: u32) {
        if !self.is_measured {
            *self = Self::measured(Duration::from_micros(sample.into()));
            return;
        }
        let sample = sample.min(LONGEST);
        self.variance = (3 * self.variance + sample.abs_diff(self.smoothed)) / 4;
        self.smoothed = (7 * self.smoothed + sample) / 8;
    }

    /// Returns mean and variance, as an acknowledgement carries them.
    pub(crate) const fn as_micros(self) -> (u32, u32) {
        (self.smoothed, self.variance)
    }

    pub(crate) const fn smoothed(self) -> u32 {
        self.smoothed
    }

    pub(crate) const fn variance(self) -> u32 {
        self.variance
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_micros(self.smoothed.into())
    }

    /// Time after which an answer is late.
    pub(crate) fn late(self) -> Duration {
        Duration::from_micros(u64::from(self.smoothed) + 4 * u64::from(self.variance))
    }
}

/// Converts to microseconds, saturating at 32 bits.
pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

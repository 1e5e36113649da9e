//! `Bucket`: a token bucket for the bytes of one direction.

use std::time::Duration;

use tokio::time::Instant;

use crate::options::Limit;

const SECOND: u128 = 1_000_000_000;

/// A token bucket: filled at the end of each period, full at the burst.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: u128,
    /// The period and the burst that were asked for.
    wished: (Duration, Option<u128>),
    period: Duration,
    burst: u128,
    level: u128,
    /// Fraction of a byte, in billionths, so that nothing is lost to rounding.
    part: u128,
    filled: Instant,
}

impl Bucket {
    /// Creates a bucket with the bytes of one period.
    pub(crate) fn new(limit: Limit, now: Instant) -> Self {
        let burst = limit.burst.map(|burst| u128::from(burst.bytes().max(1)));
        Self::with(limit.rate.bytes(), (limit.period, burst), now)
    }

    /// Changes the rate, the period and the burst from now on.
    pub(crate) fn set_limit(&mut self, limit: Limit, now: Instant) {
        let new = Self::new(limit, now);
        let level = self.level.min(new.level);
        *self = Self { level, ..new };
    }

    fn with(rate: u64, wished: (Duration, Option<u128>), now: Instant) -> Self {
        let rate = u128::from(rate.max(1));
        let per_period = |period: Duration| (rate * period.as_nanos() / SECOND).max(1);
        let (mut period, burst) = wished;
        let burst = burst.unwrap_or_else(|| 2 * per_period(period));
        // A period with more bytes than the burst would lose the rest.
        if per_period(period) > burst {
            let nanos = u64::try_from(burst * SECOND / rate).unwrap_or(u64::MAX);
            period = Duration::from_nanos(nanos.max(1));
        }
        Self {
            rate,
            wished,
            period,
            burst,
            level: per_period(period).min(burst),
            part: 0,
            filled: now,
        }
    }

    /// Changes the rate from now on.
    pub(crate) fn set(&mut self, rate: u64, now: Instant) {
        let new = Self::with(rate, self.wished, now);
        let level = self.level.min(new.level);
        *self = Self { level, ..new };
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_nanos();
        let periods = passed / self.period.as_nanos();
        if periods == 0 {
            return;
        }
        let nanos = periods * self.period.as_nanos();
        let brought = self.part + self.rate.saturating_mul(nanos);
        self.level = (self.level + brought / SECOND).min(self.burst);
        self.part = brought % SECOND;
        self.filled += Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// Takes at most `want` bytes, or returns the time of the next byte.
    pub(crate) fn take(&mut self, now: Instant, want: usize) -> Result<usize, Instant> {
        self.fill(now);
        if self.level == 0 {
            let per_period = self.rate * self.period.as_nanos();
            let periods = (SECOND - self.part).div_ceil(per_period);
            let nanos = periods.saturating_mul(self.period.as_nanos());
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            return Err(self.filled + Duration::from_nanos(nanos));
        }
        let level = usize::try_from(self.level).unwrap_or(usize::MAX);
        let taken = want.min(level);
        self.level -= taken as u128;
        Ok(taken)
    }

    pub(crate) fn give_back(&mut self, n: usize) {
        self.level = (self.level + n as u128).min(self.burst);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};
    use xio_core::ByteSize;

    use super::*;

    fn limit(rate: u64, micros: u64, burst: Option<u64>) -> Limit {
        let mut limit = Limit::new(ByteSize::new(rate));
        limit.period = Duration::from_micros(micros);
        limit.burst = burst.map(ByteSize::new);
        limit
    }

    proptest! {
        /// A caller that always takes all available bytes gets the rate and no more.
        #[test]
        fn the_rate_is_kept(rate in 1..1u64 << 34, micros in 1000..10_000_000u64, burst in 0..1u64 << 34) {
            let burst = (burst > 0).then_some(burst);
            let began = Instant::now();
            let mut now = began;
            let mut bucket = Bucket::new(limit(rate, micros, burst), began);
            let first = bucket.level;
            let mut total = 0;
            for _ in 0..1000 {
                match bucket.take(now, usize::MAX) {
                    Ok(n) => total += n as u128,
                    Err(next) => now = next,
                }
            }
            let earned = u128::from(rate) * (now - began).as_nanos() / SECOND;
            let step = (u128::from(rate) * bucket.period.as_nanos() / SECOND).max(1);
            prop_assert!(total <= earned + first + 1, "{total} of {earned}");
            prop_assert!(total + step + 1 >= earned, "{total} of {earned}");
        }
    }

    #[test]
    fn unused_bytes_add_up_to_the_burst() {
        let now = Instant::now();
        let mut bucket = Bucket::new(limit(1000, 100_000, Some(500)), now);
        let later = now + Duration::from_secs(60);
        assert_eq!(bucket.take(later, usize::MAX), Ok(500));
        assert_eq!(
            bucket.take(later, 1),
            Err(later + Duration::from_millis(100))
        );
        bucket.give_back(20);
        assert_eq!(bucket.take(later, 50), Ok(20));
    }

    #[test]
    fn a_burst_below_a_period_shortens_it() {
        let now = Instant::now();
        let mut bucket = Bucket::new(limit(1000, 1_000_000, Some(100)), now);
        assert_eq!(bucket.period, Duration::from_millis(100));
        assert_eq!(bucket.take(now, usize::MAX), Ok(100));
    }
}

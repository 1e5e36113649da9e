//! `RateOptions`: the rate limits of both directions.

use std::time::Duration;

use xio_core::{BadValue, ByteSize, Setting, Value};

use crate::Rate;

/// 1 Gbit/s, the default of Globus.
const DEFAULT_RATE: ByteSize = ByteSize::new(1 << 27);
const DEFAULT_PERIOD: Duration = Duration::from_millis(50);

const fn rate() -> Setting<Option<ByteSize>> {
    Setting::new().takes(
        "bytes or bits a second, as 10M or 80Mbit",
        &["10M", "80Mbit"],
    )
}

const fn period() -> Setting<Option<Duration>> {
    let takes = "microseconds, 1000 to 60000000";
    Setting::with(takes, &["1000", "50000"], read_period, |period| {
        Some(period.as_ref()?.as_micros().to_string())
    })
}

fn read_period(value: Value<'_>) -> Result<Option<Duration>, BadValue> {
    match value.parse()? {
        micros @ 1000..=60_000_000 => Ok(Some(Duration::from_micros(micros))),
        _ => Err(BadValue),
    }
}

/// Rate limit of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// Bytes a second.
    pub rate: ByteSize,
    /// Time between two grants.
    pub period: Duration,
    /// Most bytes that pass at once; `None` for the bytes of two periods.
    pub burst: Option<ByteSize>,
}

impl Limit {
    /// A limit of `rate` a second, with the default period and burst.
    #[must_use]
    pub const fn new(rate: ByteSize) -> Self {
        Self {
            rate,
            period: DEFAULT_PERIOD,
            burst: None,
        }
    }
}

xio_core::options! {
    /// Rate limits of both directions.
    ///
    /// An option for one direction goes before the option for both. Without any rate it is 1 Gbit/s
    /// each way.
    #[derive(Copy)]
    pub struct RateOptions for "rate" [impl Rate] {
        /// Most bytes that pass at once, each way.
        burst: Option<ByteSize> = None, "burst";
        /// Time between two grants, each way; 50 ms by default.
        period: Option<Duration> = None, "period", period();
        /// Rate limit, each way.
        rate: Option<ByteSize> = None, "rate", rate();
        /// Most bytes that are read at once.
        read_burst: Option<ByteSize> = None, "read_burst";
        /// Time between two grants to read.
        read_period: Option<Duration> = None, "read_period", period();
        /// Rate limit of reading.
        read_rate: Option<ByteSize> = None, "read_rate", rate();
        /// Most bytes that are written at once.
        write_burst: Option<ByteSize> = None, "write_burst";
        /// Time between two grants to write.
        write_period: Option<Duration> = None, "write_period", period();
        /// Rate limit of writing.
        write_rate: Option<ByteSize> = None, "write_rate", rate();
    }
}

impl RateOptions {
    /// The limit on reading.
    #[must_use]
    pub fn reading(&self) -> Option<Limit> {
        self.limit(self.read_rate, self.read_period, self.read_burst)
    }

    /// The limit on writing.
    #[must_use]
    pub fn writing(&self) -> Option<Limit> {
        self.limit(self.write_rate, self.write_period, self.write_burst)
    }

    fn limit(
        &self,
        rate: Option<ByteSize>,
        period: Option<Duration>,
        burst: Option<ByteSize>,
    ) -> Option<Limit> {
        let rates = [self.rate, self.read_rate, self.write_rate];
        let default = rates.iter().all(Option::is_none).then_some(DEFAULT_RATE);
        Some(Limit {
            rate: rate.or(self.rate).or(default)?,
            period: period.or(self.period).unwrap_or(DEFAULT_PERIOD),
            burst: burst.or(self.burst),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_have_their_own_limits() {
        let options: RateOptions = "rate=8Mbit;read_rate=2M;write_burst=10;period=2000"
            .parse()
            .unwrap();
        let (read, write) = (options.reading().unwrap(), options.writing().unwrap());
        assert_eq!((read.rate.bytes(), write.rate.bytes()), (2 << 20, 1 << 20));
        assert_eq!((read.burst, write.burst), (None, Some(ByteSize::new(10))));
        assert_eq!(read.period, Duration::from_millis(2));
    }

    #[test]
    fn without_a_rate_it_is_a_gigabit() {
        let plain = RateOptions::default();
        assert_eq!(plain.reading(), Some(Limit::new(DEFAULT_RATE)));
        let one: RateOptions = "write_rate=1M".parse().unwrap();
        assert_eq!((one.reading(), one.writing().is_some()), (None, true));
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "rate=0",
            "rate=",
            "rate=fast",
            "period=999",
            "period=60000001",
            "burst=0",
        ] {
            assert!(bad.parse::<RateOptions>().is_err(), "{bad}");
        }
    }
}

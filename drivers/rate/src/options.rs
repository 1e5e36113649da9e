//! `RateOptions`: the limits of both directions, from a string and back.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use xio_core::{BadValue, ByteSize, Entry, Error, Opt, OptionText, Result, Value};

const RATE: &str = "bytes or bits a second, as 10M or 80m";
const PERIOD: &str = "microseconds, 1000 to 60000000";
const BURST: &str = "bytes, as 1M";

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new("burst", BURST, "most that may pass at once, each way"),
    Opt::new("period", PERIOD, "how often bytes are allowed, each way"),
    Opt::new("rate", RATE, "how fast bytes may pass, each way"),
    Opt::new("read_burst", BURST, "most that may be read at once"),
    Opt::new("read_period", PERIOD, "how often reading is allowed"),
    Opt::new("read_rate", RATE, "how fast bytes may be read"),
    Opt::new("write_burst", BURST, "most that may be written at once"),
    Opt::new("write_period", PERIOD, "how often writing is allowed"),
    Opt::new("write_rate", RATE, "how fast bytes may be written"),
];

/// 1 Gbit/s, as Globus has it.
const DEFAULT_RATE: ByteSize = ByteSize::new(1 << 27);
const DEFAULT_PERIOD: Duration = Duration::from_millis(50);

/// How fast bytes may pass in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// Bytes per second.
    pub rate: ByteSize,
    /// How often what the rate brings is allowed; 50 ms by default.
    pub period: Duration,
    /// Most bytes that pass at once; `None` for what comes in two periods.
    pub burst: Option<ByteSize>,
}

impl Limit {
    /// So many bytes per second, with the default period and burst.
    #[must_use]
    pub const fn new(rate: ByteSize) -> Self {
        Self {
            rate,
            period: DEFAULT_PERIOD,
            burst: None,
        }
    }
}

/// What was said of one direction, or of both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Said {
    rate: Option<ByteSize>,
    period: Option<Duration>,
    burst: Option<ByteSize>,
}

/// Limits for both directions. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateOptions {
    both: Said,
    read: Said,
    write: Said,
}

impl RateOptions {
    /// Limits for reading and for writing; `None` is no limit, and one of the two must be there, or
    /// it is 1 Gbit/s both ways.
    #[must_use]
    pub fn new(read: Option<Limit>, write: Option<Limit>) -> Self {
        let said = |limit: Option<Limit>| Said {
            rate: limit.map(|limit| limit.rate),
            period: limit.map(|limit| limit.period),
            burst: limit.and_then(|limit| limit.burst),
        };
        Self {
            both: Said::default(),
            read: said(read),
            write: said(write),
        }
    }

    /// The limit on reading.
    #[must_use]
    pub fn reading(&self) -> Option<Limit> {
        self.limit(self.read)
    }

    /// The limit on writing.
    #[must_use]
    pub fn writing(&self) -> Option<Limit> {
        self.limit(self.write)
    }

    fn limit(&self, side: Said) -> Option<Limit> {
        let none_given = [self.both, self.read, self.write]
            .iter()
            .all(|said| said.rate.is_none());
        let default = none_given.then_some(DEFAULT_RATE);
        Some(Limit {
            rate: side.rate.or(self.both.rate).or(default)?,
            period: side.period.or(self.both.period).unwrap_or(DEFAULT_PERIOD),
            burst: side.burst.or(self.both.burst),
        })
    }

    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        let (said, key) = match key.split_once('_') {
            Some(("read", key)) => (&mut self.read, key),
            Some(("write", key)) => (&mut self.write, key),
            _ => (&mut self.both, key),
        };
        match key {
            "rate" => said.rate = Some(value.size_above_zero()?),
            "burst" => said.burst = Some(value.size_above_zero()?),
            "period" => {
                let micros: u64 = value.parse()?;
                if !(1000..=60_000_000).contains(&micros) {
                    return Err(BadValue);
                }
                said.period = Some(Duration::from_micros(micros));
            }
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for RateOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("rate")?.with_options(text)?)
    }
}

impl fmt::Display for RateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [
            ("", self.both),
            ("read_", self.read),
            ("write_", self.write),
        ];
        let text = sides
            .into_iter()
            .fold(OptionText::new(), |text, (prefix, said)| {
                text.add(&format!("{prefix}rate"), said.rate)
                    .add(
                        &format!("{prefix}period"),
                        said.period.map(|p| p.as_micros()),
                    )
                    .add(&format!("{prefix}burst"), said.burst)
            });
        text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn display_round_trips(sizes in any::<[Option<u32>; 6]>(), periods in any::<[Option<u16>; 3]>()) {
            let size = |n: Option<u32>| n.map(|n| ByteSize::new(u64::from(n) + 1));
            let [a, b, c, d, e, g] = sizes.map(size);
            let [p, q, r] = periods.map(|p| p.map(|p| Duration::from_micros(u64::from(p) + 1000)));
            let options = RateOptions {
                both: Said { rate: a, period: p, burst: b },
                read: Said { rate: c, period: q, burst: d },
                write: Said { rate: e, period: r, burst: g },
            };
            prop_assert_eq!(options.to_string().parse::<RateOptions>().unwrap(), options);
        }
    }

    #[test]
    fn directions_are_told_apart() {
        let options: RateOptions = "rate=8m;read_rate=2M;write_burst=10;period=2000"
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

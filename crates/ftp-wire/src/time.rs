//! `TimeVal`: the time-val of RFC 3659 §2.3 and its calendar.

use std::fmt;
use std::str::FromStr;

use crate::error::BadFacts;

/// A point in time as in MDTM and the `Modify` fact, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a point in time has these two parts and no others"
)]
pub struct TimeVal {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

const DAY: i64 = 86_400;
/// 0000-01-01 and the last second of 9999, the first and last time with a year of four digits.
const FIRST: i64 = -719_528 * DAY;
const LAST: i64 = 2_932_897 * DAY - 1;

/// A date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: u8,
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
}

impl TimeVal {
    /// Creates a time from seconds since 1970 and nanoseconds, the latter capped below one second.
    pub const fn new(seconds: i64, nanos: u32) -> Self {
        let nanos = if nanos > 999_999_999 {
            999_999_999
        } else {
            nanos
        };
        Self { seconds, nanos }
    }

    /// The time without its fraction.
    #[must_use]
    pub const fn whole(self) -> Self {
        Self { nanos: 0, ..self }
    }

    /// The time truncated to milliseconds.
    #[must_use]
    pub const fn to_millis(self) -> Self {
        Self {
            nanos: self.nanos - self.nanos % 1_000_000,
            ..self
        }
    }

    /// Parses `YYYYMMDDHHMMSS`, with a fraction of any length, to nine digits.
    ///
    /// A leap second becomes the second after it. `None` for any other text.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (digits, fraction) = text.split_at_checked(14)?;
        let (year, rest) = digits.split_at_checked(4)?;
        let year = i64::from(number(year)?);
        let mut pairs = rest.chunks(2).map(number);
        let mut next = |low: u32, high: u32| {
            let value = pairs.next()??;
            (low..=high).contains(&value).then_some(i64::from(value))
        };
        let (month, day) = (next(1, 12)?, next(1, 31)?);
        let (hour, minute, second) = (next(0, 23)?, next(0, 59)?, next(0, 60)?);
        if day > days_in(year, month) {
            return None;
        }
        let nanos = match fraction.split_first() {
            None => 0,
            Some((b'.', digits)) => fraction_nanos(digits)?,
            Some(_) => return None,
        };
        let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
        Some(Self { seconds, nanos })
    }

    pub(crate) fn civil(self) -> Civil {
        let seconds = self.seconds.clamp(FIRST, LAST);
        let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        let small = |n: i64| u8::try_from(n).unwrap_or_default();
        Civil {
            year,
            month: small(month),
            day: small(day),
            hour: small(of_day / 3600),
            minute: small(of_day / 60 % 60),
            second: small(of_day % 60),
        }
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |n, d| {
        d.is_ascii_digit().then(|| n * 10 + u32::from(d - b'0'))
    })
}

fn fraction_nanos(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine = digits
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(9);
    Some(nine.fold(0, |n, d| n * 10 + u32::from(d - b'0')))
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01; the year is counted from March, so that the leap day is its last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

/// The inverse of [`days_from_civil`]: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + i64::from(month >= 10);
    (year, (month + 2) % 12 + 1, day)
}

/// Writes `YYYYMMDDHHMMSS` and a fraction other than 0, in three digits where they are exact, else
/// in nine: some readers take any number of digits for milliseconds.
///
/// Years outside 0 to 9999 become the nearest year of four digits.
impl fmt::Display for TimeVal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self.civil();
        write!(
            f,
            "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"
        )?;
        match self.nanos {
            0 => Ok(()),
            nanos if nanos % 1_000_000 == 0 => write!(f, ".{:03}", nanos / 1_000_000),
            nanos => write!(f, ".{nanos:09}"),
        }
    }
}

impl FromStr for TimeVal {
    type Err = BadFacts;

    fn from_str(text: &str) -> Result<Self, BadFacts> {
        Self::parse(text.as_bytes()).ok_or(BadFacts::Value { at: 0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn knows_the_calendar() {
        for (text, seconds) in [
            ("19700101000000", 0),
            ("20261120194724", 1_795_204_044),
            ("20000229235959", 951_868_799),
            ("19691231235959", -1),
            ("00000101000000", FIRST),
            ("99991231235959", LAST),
            ("21060207062816", 1 << 32),
            ("20161231235960", 1_483_228_800),
        ] {
            let time = TimeVal::parse(text.as_bytes()).unwrap();
            assert_eq!(time.seconds, seconds, "{text}");
            if !text.ends_with("60") {
                assert_eq!(time.to_string(), text);
            }
        }
        assert_eq!(TimeVal::new(i64::MAX, 0).to_string(), "99991231235959");
        assert_eq!(TimeVal::new(i64::MIN, 0).to_string(), "00000101000000");
    }

    #[test]
    fn refuses_text_that_is_no_time() {
        for bad in [
            "",
            "2026112019472",
            "202611201947240",
            "20261320194724",
            "20260230194724",
            "19000229000000",
            "20261120244724",
            "20261120196024",
            "20261120194761",
            "20261120194724.",
            "20261120194724.x",
            "2026112019472x",
            "+0261120194724",
            "20261100194724",
        ] {
            assert_eq!(TimeVal::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn fractions_keep_nine_digits() {
        let time = TimeVal::parse(b"19700101000000.0123456789").unwrap();
        assert_eq!(time, TimeVal::new(0, 12_345_678));
        assert_eq!(
            TimeVal::new(1, 500_000_000).to_string(),
            "19700101000001.500"
        );
        assert_eq!(TimeVal::new(1, 70).to_string(), "19700101000001.000000070");
        assert_eq!(
            TimeVal::new(1, 1_999_999).to_millis().to_string(),
            "19700101000001.001"
        );
        assert_eq!(TimeVal::new(1, u32::MAX).nanos, 999_999_999);
        assert_eq!(TimeVal::new(1, 5).whole(), TimeVal::new(1, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_time_of_four_digit_years_round_trips(seconds in FIRST..=LAST, nanos in 0..1_000_000_000u32) {
            let time = TimeVal::new(seconds, nanos);
            prop_assert_eq!(TimeVal::parse(time.to_string().as_bytes()), Some(time));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let _ = TimeVal::parse(&bytes);
        }
    }
}

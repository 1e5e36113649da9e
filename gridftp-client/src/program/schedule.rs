//! `Schedule`: the bound on the rate of a copy, by the time of the day.

use std::str::FromStr;
use std::time::Duration;

use chrono::{Local, Timelike as _};

use crate::options::RateLimit;
use crate::program::values::size;

const DAY: u32 = 24 * 60;

/// Longest time until a change of the rate takes effect.
const LOOK: Duration = Duration::from_secs(5);

/// Rates, each from a minute of the day on until the next; `None` for no bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Vec<(u32, Option<u64>)>);

impl Schedule {
    /// The rate at a minute of the day; before the first one that of the last, of the day before.
    fn at(&self, minute: u32) -> Option<u64> {
        let past = self.0.iter().rev().find(|(from, _)| *from <= minute);
        let (_, rate) = past.or_else(|| self.0.last())?;
        *rate
    }

    /// The bound that is in force now.
    pub fn limit(&self) -> RateLimit {
        RateLimit::new(self.at(minute()))
    }

    /// Changes a bound by the time of the day, until it is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the bound as it is.
    pub async fn follow(&self, limit: &RateLimit) {
        self.follow_by(minute, limit).await;
    }

    /// As [`follow`](Self::follow), by a clock that gives the minute of the day.
    async fn follow_by(&self, clock: impl Fn() -> u32, limit: &RateLimit) {
        loop {
            limit.set(self.at(clock()));
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The minute of the day at this place.
fn minute() -> u32 {
    let now = Local::now();
    now.hour() * 60 + now.minute()
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for word in text.split_whitespace() {
            entries.push(match word.split_once(',') {
                Some((time, rate)) => (minutes(time)?, self::rate(rate)?),
                None => (0, rate(word)?),
            });
        }
        entries.sort_by_key(|(from, _)| *from);
        let twice = entries
            .windows(2)
            .any(|two| matches!(two, [(one, _), (other, _)] if one == other));
        if entries.is_empty() || twice {
            return Err(
                "write a rate, or one for each time, such as 08:00,10M 18:00,off".to_owned(),
            );
        }
        Ok(Self(entries))
    }
}

fn rate(text: &str) -> Result<Option<u64>, String> {
    if text == "off" {
        return Ok(None);
    }
    match size(text)? {
        0 => Err("a rate of 0 moves nothing; write off for none".to_owned()),
        rate => Ok(Some(rate)),
    }
}

fn minutes(text: &str) -> Result<u32, String> {
    let parsed = text.split_once(':').and_then(|(hours, minutes)| {
        let minutes = minutes.parse().ok().filter(|minutes: &u32| *minutes < 60)?;
        let time = hours.parse::<u32>().ok()?.checked_mul(60)? + minutes;
        (time < DAY).then_some(time)
    });
    parsed.ok_or_else(|| format!("{text}: write hours and minutes, such as 18:00"))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn the_rate_is_that_of_the_time() {
        let text = "18:00,off 08:00,10M 12:30,512K";
        let schedule: Schedule = text.parse().unwrap();
        for (minute, rate) in [
            (0, None),
            (8 * 60 - 1, None),
            (8 * 60, Some(10 << 20)),
            (12 * 60 + 30, Some(512 << 10)),
            (18 * 60 - 1, Some(512 << 10)),
            (18 * 60, None),
            (DAY - 1, None),
        ] {
            assert_eq!(schedule.at(minute), rate, "{minute}");
        }
        let always: Schedule = "3M".parse().unwrap();
        assert_eq!(always.at(DAY - 1), Some(3 << 20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_changes_while_bytes_pass() {
        let schedule: Schedule = "08:00,1M 18:00,10M 18:10,off".parse().unwrap();
        let begun = Instant::now();
        // It is 17:59 at the begin.
        let clock = || {
            let minutes = begun.elapsed().as_secs() / 60;
            17 * 60 + 59 + u32::try_from(minutes).unwrap()
        };
        let limit = RateLimit::new(schedule.at(clock()));
        let pass = async |mebibytes: usize| {
            let since = Instant::now();
            for _ in 0..mebibytes {
                limit.pass(1 << 20).await;
            }
            since.elapsed().as_secs()
        };
        let passing = async {
            // A minute at the first rate, and 60 MiB or fewer at the second.
            let both = pass(120).await;
            assert!((64..=72).contains(&both), "{both} s");
            tokio::time::sleep_until(begun + Duration::from_secs(670)).await;
            assert_eq!(pass(1000).await, 0);
        };
        tokio::select! {
            () = schedule.follow_by(clock, &limit) => unreachable!("it follows until it is dropped"),
            () = passing => {}
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "0",
            "fast",
            "08:00",
            "24:00,1M",
            "08:60,1M",
            "8,1M",
            "08:00,1M 08:00,2M",
            "1M 2M",
        ] {
            text.parse::<Schedule>().unwrap_err();
        }
    }
}

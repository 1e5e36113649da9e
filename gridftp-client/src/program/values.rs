//! Parsers for values of flags.

use std::ops::RangeInclusive;
use std::time::Duration;

use gridftp_dsi::types::ChecksumAlgorithm;
use xio_core::{ByteSize, parse_duration};

/// Seconds of the longest wait that a flag may ask for: of nine digits, as a number has at most.
pub const LONGEST: u64 = 10_000 * 86_400;

/// Reads a number of bytes: `4M` is 4 MiB.
pub fn size(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>();
    let takes = "write a number of bytes, such as 65536, 64K or 4M";
    size.map(ByteSize::bytes).map_err(|_| takes.to_owned())
}

/// A reader of times of whole seconds in `range`: `90`, `90s` and `1.5m` are the same.
pub fn time(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let time = parse_duration(text).ok();
        let fits = |time: &Duration| time.subsec_nanos() == 0 && range.contains(&time.as_secs());
        time.filter(fits).ok_or_else(|| {
            let [least, most] = [*range.start(), *range.end()].map(in_unit);
            format!(
                "write whole seconds, or a time with a unit, from {least} to {most}, such as 60, 90s or 10m"
            )
        })
    }
}

/// A number of seconds in the largest unit that has it whole.
fn in_unit(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let whole = units
        .iter()
        .find(|(size, _)| seconds > 0 && seconds.is_multiple_of(*size));
    whole.map_or_else(
        || format!("{seconds}s"),
        |(size, unit)| format!("{}{unit}", seconds / size),
    )
}

/// The mistake in the words of a command line, in one line.
pub fn mistake(error: &clap::Error) -> anyhow::Error {
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let told: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    anyhow::anyhow!("{}", told.join(" ").trim_start_matches("error: "))
}

/// Reads the name of an algorithm.
pub fn algorithm(text: &str) -> Result<ChecksumAlgorithm, String> {
    ChecksumAlgorithm::from_name(text.as_bytes()).ok_or_else(|| {
        let known = ChecksumAlgorithm::ALL.iter();
        let known: Vec<_> = known.map(|a| a.name().to_ascii_lowercase()).collect();
        format!("unknown algorithm; known are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_of_a_range() {
        let read = time(1..=86_400);
        for (text, seconds) in [
            ("60", 60),
            ("90s", 90),
            ("10m", 600),
            ("1.5m", 90),
            ("24h", 86_400),
            ("1d", 86_400),
            ("2000ms", 2),
        ] {
            assert_eq!(read(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "", "0", "0.5", "86401", "2d", "-1", "1y", "10 m", "m", "1e3",
        ] {
            assert!(read(bad).unwrap_err().contains("from 1s to 1d"), "{bad}");
        }
        assert!(read(&"9".repeat(1 << 20)).unwrap_err().len() < 100);
        let longest = time(0..=LONGEST);
        assert_eq!(longest("2w"), longest("14d"));
        for text in ["10000d", &LONGEST.to_string()] {
            assert_eq!(longest(text), Ok(Duration::from_secs(LONGEST)));
        }
        assert!(longest("10001d").unwrap_err().contains("from 0s to 10000d"));
    }

    #[test]
    fn sizes() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("4m"), Ok(4 << 20));
        assert_eq!(size("64KiB"), Ok(64 << 10));
        for bad in ["", "K", "4X", "-1", "1.5M", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}

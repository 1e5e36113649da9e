//! `Value`, `ByteSize`, `PortRange`: the values of options in a stack string.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, written `4M` or, in bits, `32Mbit`.
///
/// `K`, `M`, `G` and `T`, in either case and with `iB` behind them or not, multiply by powers of
/// 1024. With `bit` behind it the number counts bits, so `8Kbit` is 1024 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size of `bytes`.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes for an interface that takes memory sizes; the largest one if it is more.
    #[must_use]
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (text, bits) = match text.strip_suffix("bit") {
            Some(text) => (text, true),
            None => (text.strip_suffix("iB").unwrap_or(text), false),
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor: u64 = match text.get(digits.len()..).unwrap_or_default() {
            "" => 1,
            "K" | "k" => 1 << 10,
            "M" | "m" => 1 << 20,
            "G" | "g" => 1 << 30,
            "T" | "t" => 1 << 40,
            _ => return Err(BadValue),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadValue);
        }
        let number: u64 = digits.parse().map_err(|_| BadValue)?;
        let total = number.checked_mul(factor).ok_or(BadValue)?;
        Ok(Self(if bits { total / 8 } else { total }))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0 {
            0 => (0, ""),
            n if n % (1 << 40) == 0 => (n >> 40, "T"),
            n if n % (1 << 30) == 0 => (n >> 30, "G"),
            n if n % (1 << 20) == 0 => (n >> 20, "M"),
            n if n % (1 << 10) == 0 => (n >> 10, "K"),
            n => (n, ""),
        };
        write!(f, "{number}{unit}")
    }
}

/// Ports from a low to a high one, both included; written `50000-51000`, `50000,51000` or, for one
/// port, `50000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    low: u16,
    high: u16,
}

impl PortRange {
    /// The ports from `low` to `high`; `None` when there are none, or when port 0 is among them.
    #[must_use]
    pub const fn new(low: u16, high: u16) -> Option<Self> {
        if low == 0 || low > high {
            return None;
        }
        Some(Self { low, high })
    }

    /// The lowest port.
    #[must_use]
    pub const fn low(self) -> u16 {
        self.low
    }

    /// The highest port.
    #[must_use]
    pub const fn high(self) -> u16 {
        self.high
    }

    /// Whether `port` is among them.
    #[must_use]
    pub const fn contains(self, port: u16) -> bool {
        self.low <= port && port <= self.high
    }

    /// Every port once, in a random order: users of one range do not all try the same ports first,
    /// and a stranger cannot guess the next one.
    pub fn spread(self) -> impl Iterator<Item = u16> {
        let random = RandomState::new().hash_one(self);
        let [start, step] = [random >> 32, random & 0xffff_ffff];
        self.in_steps(start, step)
    }

    fn in_steps(self, start: u64, step: u64) -> impl Iterator<Item = u16> {
        let count = u64::from(self.high - self.low) + 1;
        // Steps that share no divisor with the count meet every port.
        let step = (step % count..)
            .find(|step| gcd(*step, count) == 1)
            .unwrap_or(1);
        (0..count).map(move |i| {
            let nth = (start + i * step) % count;
            self.low + u16::try_from(nth).expect("less than the number of ports")
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl FromStr for PortRange {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (low, high) = text.split_once(['-', ',']).unwrap_or((text, text));
        let port = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().map_err(|_| BadValue),
            false => Err(BadValue),
        };
        Self::new(port(low)?, port(high)?).ok_or(BadValue)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// The value is not of the kind that the option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is not accepted")]
#[expect(
    clippy::exhaustive_structs,
    reason = "drivers make it, and it says all there is to say"
)]
pub struct BadValue;

/// The text of one option's value, read as the type that the driver declares.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The text, `%HH` decoded.
    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// A truth value: `yes y true t no n false f`, in any case, or a number that is 0 or not.
    ///
    /// # Errors
    /// [`BadValue`] for anything else.
    pub fn bool(self) -> Result<bool, BadValue> {
        match self.0.to_ascii_lowercase().as_str() {
            "yes" | "y" | "true" | "t" => Ok(true),
            "no" | "n" | "false" | "f" => Ok(false),
            number => number.parse::<i32>().map(|n| n != 0).map_err(|_| BadValue),
        }
    }

    /// Anything that is read from text: numbers, [`ByteSize`], [`PortRange`], addresses.
    ///
    /// # Errors
    /// [`BadValue`] when it is not one.
    pub fn parse<T: FromStr>(self) -> Result<T, BadValue> {
        self.0.parse().map_err(|_| BadValue)
    }

    /// A size in bytes; see [`ByteSize`].
    ///
    /// # Errors
    /// [`BadValue`] when it is not one.
    pub fn size(self) -> Result<ByteSize, BadValue> {
        self.parse()
    }

    /// A size in bytes that is not 0.
    ///
    /// # Errors
    /// [`BadValue`] when it is not one.
    pub fn size_above_zero(self) -> Result<ByteSize, BadValue> {
        match self.size()? {
            size if size.bytes() == 0 => Err(BadValue),
            size => Ok(size),
        }
    }

    /// An IP address, in brackets or not.
    ///
    /// # Errors
    /// [`BadValue`] when it is not one.
    pub fn ip(self) -> Result<IpAddr, BadValue> {
        let inner = self.0.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        inner.unwrap_or(self.0).parse().map_err(|_| BadValue)
    }

    /// A time above 0; see [`parse_duration`].
    ///
    /// # Errors
    /// [`BadValue`] when it is not one.
    pub fn duration(self) -> Result<Duration, BadValue> {
        match parse_duration(self.0)? {
            Duration::ZERO => Err(BadValue),
            time => Ok(time),
        }
    }

    /// A text that is not empty and has no control characters, such as the name of a file or host.
    ///
    /// # Errors
    /// [`BadValue`] when it is not one.
    pub fn word(self) -> Result<String, BadValue> {
        match self.0.is_empty() || self.0.contains(char::is_control) {
            true => Err(BadValue),
            false => Ok(self.0.to_owned()),
        }
    }

    /// Permission bits in octal digits, as `0644`.
    ///
    /// # Errors
    /// [`BadValue`] when it is no octal number, or more than `most`.
    pub fn octal(self, most: u32) -> Result<u32, BadValue> {
        let octal = self.0.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let bits = u32::from_str_radix(self.0, 8).map_err(|_| BadValue)?;
        if octal && bits <= most {
            Ok(bits)
        } else {
            Err(BadValue)
        }
    }

    /// As [`list`](Self::list), with items that outlive the text.
    ///
    /// # Errors
    /// [`BadValue`] when it is empty.
    pub fn words(self) -> Result<Vec<String>, BadValue> {
        Ok(self.list()?.into_iter().map(str::to_owned).collect())
    }

    /// A list that begins with its delimiter: `#/bin/cat#file`.
    ///
    /// # Errors
    /// [`BadValue`] when it is empty.
    pub fn list(self) -> Result<Vec<&'a str>, BadValue> {
        let mut chars = self.0.chars();
        let delimiter = chars.next().ok_or(BadValue)?;
        Ok(chars.as_str().split(delimiter).collect())
    }
}

/// Reads a time: at most nine digits with at most three decimals (`2.5`), in seconds or in the unit
/// behind it: `ms`, `s`, `m`, `h`, `d` or `w`, or in words, as `2weeks` or `1day`.
///
/// # Errors
/// [`BadValue`] when it is not one.
pub fn parse_duration(text: &str) -> Result<Duration, BadValue> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let millis: u64 = match text.get(number.len()..).unwrap_or_default() {
        "ms" => 1,
        "" | "s" | "second" | "seconds" => 1000,
        "m" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        "w" | "week" | "weeks" => 604_800_000,
        _ => return Err(BadValue),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 || whole.len() > 9 {
        return Err(BadValue);
    }
    let whole: u64 = whole.parse().map_err(|_| BadValue)?;
    let thousandths: u64 = format!("{part:0<3}").parse().map_err(|_| BadValue)?;
    Ok(Duration::from_millis(
        whole * millis + thousandths * millis / 1000,
    ))
}

/// Prints a time in seconds, as [`parse_duration`] reads it.
#[must_use]
pub fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => time.as_secs().to_string(),
        millis => {
            let text = format!("{}.{millis:03}", time.as_secs());
            text.trim_end_matches('0').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_bytes_or_bits() {
        for (text, bytes) in [
            ("0", 0),
            ("1500", 1500),
            ("10M", 10 << 20),
            ("4K", 4096),
            ("2G", 2 << 30),
            ("8k", 8192),
            ("8bit", 1),
            ("8Kbit", 1024),
            ("1mbit", 131_072),
            ("10gbit", 10 * (1 << 30) / 8),
            ("1T", 1 << 40),
            ("64KiB", 65536),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize::new(bytes)), "{text}");
        }
        for text in [
            "",
            "M",
            "4 M",
            "-1",
            "+1",
            "1.5M",
            "4MB",
            "4P",
            "bit",
            "8bits",
            "8b",
            "99999999999999999999",
            "18446744073709551615G",
        ] {
            assert_eq!(text.parse::<ByteSize>(), Err(BadValue), "{text}");
        }
    }

    #[test]
    fn truth_has_many_words() {
        for text in ["yes", "Y", "true", "t", "1", "7"] {
            assert_eq!(Value(text).bool(), Ok(true), "{text}");
        }
        for text in ["no", "N", "FALSE", "f", "0"] {
            assert_eq!(Value(text).bool(), Ok(false), "{text}");
        }
        assert_eq!(Value("maybe").bool(), Err(BadValue));
        assert_eq!(Value("").bool(), Err(BadValue));
    }

    #[test]
    fn ranges_are_ordered_and_walked_once() {
        assert_eq!("5-7".parse(), Ok(PortRange { low: 5, high: 7 }));
        assert_eq!("5,5".parse(), Ok(PortRange { low: 5, high: 5 }));
        assert_eq!("5".parse(), Ok(PortRange { low: 5, high: 5 }));
        for text in ["7-5", "0-5", "0", "", "5-", "5-70000", "+5-7"] {
            assert_eq!(text.parse::<PortRange>(), Err(BadValue), "{text}");
        }
        let range = PortRange { low: 5, high: 8 };
        assert_eq!(range.in_steps(6, 4).collect::<Vec<_>>(), [7, 8, 5, 6]);
        assert_eq!(range.in_steps(1, 3).collect::<Vec<_>>(), [6, 5, 8, 7]);
        for (low, high) in [(5, 5), (5, 8), (1, 65535), (32_768, 60_999)] {
            let range = PortRange { low, high };
            let mut ports: Vec<u16> = range.spread().collect();
            ports.sort_unstable();
            assert_eq!(ports, (low..=high).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_next_port_cannot_be_guessed() {
        let range = PortRange {
            low: 10_000,
            high: 59_999,
        };
        let first: Vec<u16> = (0..100).filter_map(|_| range.spread().next()).collect();
        let mut apart: Vec<i32> = first
            .windows(2)
            .map(|pair| i32::from(pair[1]) - i32::from(pair[0]))
            .collect();
        apart.sort_unstable();
        apart.dedup();
        assert!(
            apart.len() > 90,
            "ports follow at equal distances: {first:?}"
        );
    }

    #[test]
    fn times_and_lists() {
        assert_eq!(Value("2.5").duration(), Ok(Duration::from_millis(2500)));
        assert_eq!(Value("30").duration(), Ok(Duration::from_secs(30)));
        for text in [
            "0",
            "0.0",
            "-1",
            "1.2345",
            "1000000000",
            "",
            ".5",
            "1e3",
            "s",
            "5M",
            "1 s",
            "1W",
            "1wk",
            "weeks",
        ] {
            assert_eq!(Value(text).duration(), Err(BadValue), "{text}");
        }
        for (text, millis) in [
            ("5ms", 5),
            ("5s", 5000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("2w", 1_209_600_000),
            ("1second", 1000),
            ("5seconds", 5000),
            ("1minute", 60_000),
            ("1.5minutes", 90_000),
            ("1hour", 3_600_000),
            ("2hours", 7_200_000),
            ("1day", 86_400_000),
            ("7days", 604_800_000),
            ("1week", 604_800_000),
            ("1.5weeks", 907_200_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        assert_eq!(seconds(Duration::from_millis(2500)), "2.5");
        assert_eq!(Value("#/bin/cat#a b").list(), Ok(vec!["/bin/cat", "a b"]));
    }
}

//! `PortRange` and `Size`: option values that have a text form of their own.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// An inclusive range of ports, `LO-HI` or one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct PortRange {
    low: u16,
    high: u16,
}

impl PortRange {
    /// Makes the range; `None` when it is empty or holds port 0.
    pub fn new(low: u16, high: u16) -> Option<Self> {
        (low != 0 && low <= high).then_some(Self { low, high })
    }

    /// The lowest port.
    pub fn low(self) -> u16 {
        self.low
    }

    /// The highest port.
    pub fn high(self) -> u16 {
        self.high
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (low, high) = text.split_once(['-', ',']).unwrap_or((text, text));
        low.trim()
            .parse()
            .ok()
            .zip(high.trim().parse().ok())
            .and_then(|(low, high)| Self::new(low, high))
            .ok_or_else(|| {
                format!(
                    "`{}` is no port range, need LO-HI with 1 <= LO <= HI <= 65535",
                    text.escape_debug()
                )
            })
    }
}

impl TryFrom<String> for PortRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// A number of bytes, with the suffixes K, M and G for powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Size(u64);

impl Size {
    /// So many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text
            .get(digits.len()..)
            .unwrap_or("")
            .to_ascii_uppercase()
            .as_str()
        {
            "" => Some(1),
            "K" => Some(1 << 10),
            "M" => Some(1 << 20),
            "G" => Some(1 << 30),
            _ => None,
        };
        digits
            .parse::<u64>()
            .ok()
            .zip(unit)
            .and_then(|(number, unit)| number.checked_mul(unit))
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "`{}` is no size, need a number with K, M, G or nothing behind it",
                    text.escape_debug()
                )
            })
    }
}

/// The two ways a size can stand in the file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "need a size such as 262144 or \"256K\"")]
enum NumberOrText {
    Number(u64),
    Text(String),
}

impl TryFrom<NumberOrText> for Size {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        match value {
            NumberOrText::Number(bytes) => Ok(Self(bytes)),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_parse_and_print() {
        assert_eq!(
            "50000-50010".parse::<PortRange>().unwrap().to_string(),
            "50000-50010"
        );
        assert_eq!(
            "50000".parse::<PortRange>().unwrap(),
            PortRange::new(50000, 50000).unwrap()
        );
        assert_eq!("5000,5010".parse::<PortRange>().unwrap().high(), 5010);
        for bad in ["", "0-5", "5-4", "1-65536", "a-b", "5-"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!("256K".parse::<Size>().unwrap().get(), 262_144);
        assert_eq!("1m".parse::<Size>().unwrap().get(), 1 << 20);
        assert_eq!("17".parse::<Size>().unwrap().get(), 17);
        for bad in ["", "K", "-1", "1KK", "99999999999G", "1.5M"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}

//! Parses and prints `a-b,c-d`, the one textual form, shared by markers and the resume journal.

use std::fmt;
use std::str::FromStr;

use crate::{Range64, RangeSet};

/// Most ranges that [`FromStr`] accepts: more than a command line of 64 KiB can hold.
pub const DEFAULT_MAX_RANGES: usize = 32_768;

/// Text that is no list of ranges, with the position of the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRanges {
    /// A decimal number was expected.
    Number {
        /// Byte of the text.
        at: usize,
    },
    /// The number is above 2^64 − 1.
    Overflow {
        /// Byte of the text.
        at: usize,
    },
    /// A `-` between the two ends of a range was expected.
    Dash {
        /// Byte of the text.
        at: usize,
    },
    /// A `,` between two ranges was expected.
    Comma {
        /// Byte of the text.
        at: usize,
    },
    /// The range ends before it starts.
    Backwards {
        /// Byte of the text.
        at: usize,
    },
    /// There are more ranges than the limit.
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for BadRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { at } => write!(f, "ranges: no number at byte {at}"),
            Self::Overflow { at } => write!(f, "ranges: number at byte {at} is above 2^64-1"),
            Self::Dash { at } => write!(f, "ranges: no \"-\" at byte {at}"),
            Self::Comma { at } => write!(f, "ranges: no \",\" at byte {at}"),
            Self::Backwards { at } => write!(f, "ranges: range at byte {at} ends before it starts"),
            Self::TooMany { limit } => write!(f, "ranges: more than {limit} ranges"),
        }
    }
}

impl std::error::Error for BadRanges {}

/// Parses `a-b,c-d`, ends exclusive, in any order; `a-a` adds nothing, and empty text is the empty
/// set.
///
/// # Errors
///
/// [`BadRanges`], among others for more than `max_ranges` ranges, counted before merging.
pub fn parse(text: &[u8], max_ranges: usize) -> Result<RangeSet, BadRanges> {
    let mut set = RangeSet::new();
    if text.is_empty() {
        return Ok(set);
    }
    let mut cursor = Cursor { rest: text, at: 0 };
    for _ in 0..max_ranges {
        let begin = cursor.at;
        let start = cursor.number()?;
        if !cursor.eat(b'-') {
            return Err(BadRanges::Dash { at: cursor.at });
        }
        let end = cursor.number()?;
        if end < start {
            return Err(BadRanges::Backwards { at: begin });
        }
        set.extend(Range64::new(start, end));
        if cursor.rest.is_empty() {
            return Ok(set);
        }
        if !cursor.eat(b',') {
            return Err(BadRanges::Comma { at: cursor.at });
        }
    }
    Err(BadRanges::TooMany { limit: max_ranges })
}

struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.skip(1);
        }
        found
    }

    fn skip(&mut self, n: usize) {
        self.rest = self.rest.get(n..).unwrap_or_default();
        self.at += n;
    }

    fn number(&mut self) -> Result<u64, BadRanges> {
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return Err(BadRanges::Number { at: self.at });
        }
        let value = self.rest.iter().take(digits).try_fold(0u64, |n, digit| {
            n.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        let value = value.ok_or(BadRanges::Overflow { at: self.at })?;
        self.skip(digits);
        Ok(value)
    }
}

impl FromStr for RangeSet {
    type Err = BadRanges;

    fn from_str(text: &str) -> Result<Self, BadRanges> {
        parse(text.as_bytes(), DEFAULT_MAX_RANGES)
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

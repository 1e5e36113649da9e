//! `Range64`: a non-empty half-open range of `u64` offsets that cannot overflow.

use std::fmt;

/// A non-empty half-open range of byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range64 {
    start: u64,
    end: u64,
}

impl Range64 {
    /// Creates the range from `start` up to, not including, `end`; `None` when it is empty.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end {
            Some(Self { start, end })
        } else {
            None
        }
    }

    /// Creates the range of `len` bytes at `start`; `None` when it is empty or ends beyond `u64`.
    pub const fn from_len(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Self::new(start, end),
            None => None,
        }
    }

    /// First offset.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last offset.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Number of bytes; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Says whether `offset` lies within.
    pub const fn contains(self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }

    /// The overlap of both ranges; `None` when there is none.
    pub fn intersect(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Splits at `offset` into the offsets below it and the rest.
    pub fn split_at(self, offset: u64) -> (Option<Self>, Option<Self>) {
        let at = offset.clamp(self.start, self.end);
        (Self::new(self.start, at), Self::new(at, self.end))
    }
}

impl fmt::Display for Range64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

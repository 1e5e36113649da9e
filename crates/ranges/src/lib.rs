//! Byte-range arithmetic for restart markers, resume and holes.
#![forbid(unsafe_code)]

/// A non-empty half-open range of byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range64 {
    start: u64,
    end: u64,
}

impl Range64 {
    /// Makes the range from `start` up to, not including, `end`; `None` when that is empty.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// First offset.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last offset.
    pub const fn end(self) -> u64 {
        self.end
    }
}

/// A set of byte offsets held as sorted ranges that neither touch nor overlap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct RangeSet {
    ranges: Vec<Range64>,
}

//! `Part`: the last bytes of a range of an upload, compared with those of its source.

use byte_ranges::{Range64, RangeSet};

/// Most bytes that are compared of a file, of all its ranges together.
pub(super) const MOST: u64 = 64 << 20;
/// Size of the aligned steps by which an upload goes back before a difference, in bytes.
pub(super) const STEP: u64 = 1 << 20;

/// The parts to read of a file of `size` bytes: the last of each range, which a server without
/// partial retrievals sends with all that is behind it.
pub(super) fn parts(there: &RangeSet, size: u64, is_partial: bool) -> Vec<Part> {
    let ranges = there.len().max(1) as u64;
    let most = (MOST / ranges).max(STEP) / STEP * STEP;
    let parts = there.iter().map(|range| Part::last(range, most));
    parts
        .filter(|part| is_partial || size.saturating_sub(part.start) <= MOST)
        .collect()
}

/// The last bytes of a range, and how far they are equal at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range64,
    /// First byte that is compared.
    pub(super) start: u64,
    /// Bytes that have come.
    pub(super) received: u64,
    /// One past the last byte that is equal.
    pub(super) equal: u64,
    /// Whether one of them is not zero.
    has_data: bool,
    pub(super) differs: bool,
}

impl Part {
    /// At most `most` bytes of a range, which is at least a [`STEP`].
    pub(super) fn last(range: Range64, most: u64) -> Self {
        let start = match range.end() - range.len().min(most) {
            start if start == range.start() => start,
            start => start.next_multiple_of(STEP),
        };
        Self {
            range,
            start,
            received: 0,
            equal: start,
            has_data: false,
            differs: false,
        }
    }

    /// Number of bytes that are still to be compared.
    pub(super) fn left(&self) -> u64 {
        match self.differs {
            true => 0,
            false => self.range.end() - self.equal,
        }
    }

    /// Compares the next bytes of both ends.
    pub(super) fn note(&mut self, there: &[u8], here: &[u8]) {
        let equal = match there == here {
            true => there.len(),
            false => there.iter().zip(here).take_while(|(a, b)| a == b).count(),
        };
        self.has_data = self.has_data || here.iter().take(equal).any(|byte| *byte != 0);
        self.equal += equal as u64;
        self.differs |= equal < there.len();
    }

    /// Says whether more came than was there.
    pub(super) fn goes_beyond(&self) -> bool {
        self.received > self.range.end() - self.start
    }

    /// The bytes of the range to go on with: all, or those before the step of the first difference,
    /// unless that leaves none which were compared, or they prove nothing of those before them.
    pub(super) fn equal(&self) -> Option<Range64> {
        let end = match self.equal == self.range.end() {
            true => self.equal,
            false => self.equal - self.equal % STEP,
        };
        // Zeros are also there where nothing was written.
        let is_proven = self.has_data || self.start == self.range.start();
        Range64::new(self.range.start(), end).filter(|_| is_proven && end > self.start)
    }
}

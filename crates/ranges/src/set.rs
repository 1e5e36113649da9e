//! `RangeSet`: insert, remove, gaps, intersect, iterate; merges neighbours.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use crate::Range64;

/// A set of byte offsets held as sorted ranges that neither touch nor overlap.
///
/// Every single operation takes time logarithmic in the number of ranges, at any offset, since a
/// peer chooses the order of its blocks. Memory is about 20 bytes a range; callers that accept
/// ranges from a peer bound their number with [`len`](Self::len).
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct RangeSet {
    /// End of each range by its start.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// An empty set.
    pub const fn new() -> Self {
        Self {
            ranges: BTreeMap::new(),
        }
    }

    /// The first `n` bytes.
    pub fn up_to(n: u64) -> Self {
        Range64::new(0, n).into_iter().collect()
    }

    /// Adds `range`, merging it with those it overlaps or touches.
    pub fn insert(&mut self, range: Range64) {
        let (mut start, mut end) = (range.start(), range.end());
        // The common case: the range continues the one before it and touches none behind it.
        if let Some((&s, e)) = self.ranges.range_mut(..=start).next_back() {
            if end <= *e {
                return;
            }
            if start <= *e {
                start = s;
                *e = end;
            }
        }
        // Merge the ranges that begin within the new one or right behind it.
        while let Some((&s, &e)) = self
            .ranges
            .range((Bound::Excluded(start), Bound::Included(end)))
            .next()
        {
            self.ranges.remove(&s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
    }

    /// Removes the offsets of `range`.
    pub fn remove(&mut self, range: Range64) {
        while let Some((&s, &e)) = self.ranges.range(..range.end()).next_back() {
            if e <= range.start() {
                break;
            }
            self.ranges.remove(&s);
            if range.end() < e {
                self.ranges.insert(range.end(), e);
            }
            if s < range.start() {
                self.ranges.insert(s, range.start());
            }
        }
    }

    /// Says whether `offset` is in the set.
    pub fn contains(&self, offset: u64) -> bool {
        self.ranges
            .range(..=offset)
            .next_back()
            .is_some_and(|(_, &e)| offset < e)
    }

    /// Says whether all of `range` is in the set.
    pub fn covers(&self, range: Range64) -> bool {
        self.ranges
            .range(..=range.start())
            .next_back()
            .is_some_and(|(_, &e)| range.end() <= e)
    }

    /// The ranges that overlap `within`, not cut to it; the first may lie before it.
    fn overlapping(&self, within: Range64) -> impl Iterator<Item = Range64> + '_ {
        let before = self.ranges.range(..within.start()).next_back();
        before
            .into_iter()
            .chain(self.ranges.range(within.start()..within.end()))
            .filter_map(|(&s, &e)| Range64::new(s, e))
    }

    /// The offsets of `within` that are not in the set.
    pub fn gaps(&self, within: Range64) -> Self {
        let mut gaps = Self::new();
        let mut from = within.start();
        for held in self.overlapping(within) {
            if from < held.start() {
                gaps.ranges.insert(from, held.start());
            }
            from = from.max(held.end());
        }
        if from < within.end() {
            gaps.ranges.insert(from, within.end());
        }
        gaps
    }

    /// The offsets below `size` that are not in the set.
    pub fn complement(&self, size: u64) -> Self {
        Range64::new(0, size).map_or_else(Self::new, |whole| self.gaps(whole))
    }

    /// The offsets that lie in `within`.
    pub fn clip(&self, within: Range64) -> Self {
        // Parts of separate ranges are separate, so they need no merging.
        let parts = self
            .overlapping(within)
            .filter_map(|held| held.intersect(within));
        Self {
            ranges: parts.map(|r| (r.start(), r.end())).collect(),
        }
    }

    /// The offsets in both sets.
    pub fn intersect(&self, other: &Self) -> Self {
        let (few, many) = if self.len() <= other.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut both = Self::new();
        for range in few {
            both.ranges.extend(
                many.overlapping(range)
                    .filter_map(|held| held.intersect(range))
                    .map(|r| (r.start(), r.end())),
            );
        }
        both
    }

    /// The set with every offset raised by `by`; `None` when one would overflow.
    pub fn shift_up(&self, by: u64) -> Option<Self> {
        self.end().checked_add(by)?;
        Some(Self {
            ranges: self.ranges.iter().map(|(s, e)| (s + by, e + by)).collect(),
        })
    }

    /// The set with every offset lowered by `by`; offsets below `by` are dropped.
    pub fn shift_down(&self, by: u64) -> Self {
        Range64::new(by, u64::MAX).map_or_else(Self::new, |kept| {
            let kept = self.clip(kept);
            Self {
                ranges: kept.ranges.iter().map(|(s, e)| (s - by, e - by)).collect(),
            }
        })
    }

    /// Number of bytes in the set.
    pub fn total(&self) -> u64 {
        self.iter().map(Range64::len).sum()
    }

    /// Says whether no offset is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The smallest offset not in the set, which is the length of the unbroken prefix in bytes.
    pub fn first_hole(&self) -> u64 {
        self.first()
            .filter(|r| r.start() == 0)
            .map_or(0, Range64::end)
    }

    /// One past the largest offset; 0 when empty.
    pub fn end(&self) -> u64 {
        self.last().map_or(0, Range64::end)
    }

    /// The range with the smallest offsets.
    pub fn first(&self) -> Option<Range64> {
        self.iter().next()
    }

    /// The range with the largest offsets.
    pub fn last(&self) -> Option<Range64> {
        self.iter().next_back()
    }

    /// Removes and returns at most `max` bytes from the front, as one range.
    pub fn take_first(&mut self, max: u64) -> Option<Range64> {
        let first = self.first()?;
        let (taken, rest) = first.split_at(first.start().saturating_add(max));
        let taken = taken?;
        self.ranges.remove(&first.start());
        self.ranges.extend(rest.map(|r| (r.start(), r.end())));
        Some(taken)
    }

    /// Removes all offsets.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The ranges, smallest offsets first.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            inner: self.ranges.iter(),
        }
    }
}

/// The ranges of a [`RangeSet`], smallest offsets first.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    inner: btree_map::Iter<'a, u64, u64>,
}

impl Iterator for Iter<'_> {
    type Item = Range64;

    fn next(&mut self) -> Option<Range64> {
        self.inner.next().and_then(|(&s, &e)| Range64::new(s, e))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Range64> {
        self.inner
            .next_back()
            .and_then(|(&s, &e)| Range64::new(s, e))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a RangeSet {
    type Item = Range64;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Extend<Range64> for RangeSet {
    fn extend<I: IntoIterator<Item = Range64>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range64> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range64>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

impl From<Range64> for RangeSet {
    fn from(range: Range64) -> Self {
        std::iter::once(range).collect()
    }
}

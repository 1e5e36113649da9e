//! `Layout`: the shares of a set of bytes that N stripes send.

use std::num::NonZero;

use crate::{Range64, RangeSet};

/// The way in which the bytes of a transfer are dealt to stripes.
///
/// For a whole file both are those of the Globus servers (GCT 6.2): blocks in turn, and pieces of
/// `ceil(size / stripes)` bytes, of which the last ones are shorter or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the protocol names these two")]
pub enum Layout {
    /// One piece a stripe, contiguous in the bytes to send, all of the same length. A restart
    /// divides the missing bytes, so that each stripe has its share of them.
    Partitioned,
    /// Blocks of this many bytes in turn: the block at offset `k × size` belongs to stripe
    /// `k mod stripes`, also after a restart.
    Blocked(NonZero<u64>),
}

/// One stripe of several: a layout, the index of the stripe and the number of stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stripe {
    layout: Layout,
    index: u32,
    count: NonZero<u32>,
}

impl Stripe {
    /// The only stripe of a transfer.
    pub const ONLY: Self = Self {
        layout: Layout::Partitioned,
        index: 0,
        count: NonZero::<u32>::MIN,
    };

    /// Stripe `index` of `count`; `None` unless `index` is below `count`.
    pub const fn new(layout: Layout, index: u32, count: u32) -> Option<Self> {
        match NonZero::new(count) {
            Some(count) if index < count.get() => Some(Self {
                layout,
                index,
                count,
            }),
            _ => None,
        }
    }

    /// The layout.
    pub const fn layout(self) -> Layout {
        self.layout
    }

    /// The index of the stripe.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The number of stripes.
    pub const fn count(self) -> u32 {
        self.count.get()
    }

    /// The bytes of `set` that this stripe sends.
    ///
    /// The shares of all stripes are disjoint, and together they are `set`.
    pub fn share(self, set: &RangeSet) -> Share {
        let (rest, blocks) = match self.layout {
            Layout::Partitioned => (self.piece(set), None),
            Layout::Blocked(_) if self.count() == 1 => (set.clone(), None),
            Layout::Blocked(block) => (set.clone(), Some(self.blocks(block))),
        };
        Share { rest, blocks }
    }

    /// The piece of `set` with the same number of bytes as those of other stripes.
    fn piece(self, set: &RangeSet) -> RangeSet {
        let each = set.total().div_ceil(self.count().into());
        let mut before = each.saturating_mul(self.index.into());
        let mut left = each;
        let mut piece = RangeSet::new();
        for range in set {
            let skipped = before.min(range.len());
            before -= skipped;
            let start = range.start() + skipped;
            let end = range.end().min(start.saturating_add(left));
            left -= end - start;
            piece.extend(Range64::new(start, end));
            if left == 0 {
                break;
            }
        }
        piece
    }

    fn blocks(self, block: NonZero<u64>) -> Blocks {
        let (index, count) = (self.index.into(), self.count.into());
        Blocks {
            block,
            index,
            count,
        }
    }
}

/// The blocks of one stripe.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    block: NonZero<u64>,
    index: u64,
    count: NonZero<u64>,
}

impl Blocks {
    /// The first range of offsets from `at` on in a block of this stripe; `None` if all of them are
    /// beyond `u64`.
    fn from(self, at: u64) -> Option<Range64> {
        let now = at / self.block;
        let turn = now % self.count;
        let wait = match self.index.checked_sub(turn) {
            Some(wait) => wait,
            None => self.count.get() - (turn - self.index),
        };
        let start = now.checked_add(wait)?.checked_mul(self.block.get())?;
        let end = start.saturating_add(self.block.get());
        Range64::new(start.max(at), end)
    }

    /// Number of offsets below `end` in blocks of this stripe.
    fn below(self, end: u64) -> u64 {
        let block = self.block.get();
        // Of a last, incomplete round only the blocks in front of `end`.
        let Some(round) = block.checked_mul(self.count.get()) else {
            let start = block.checked_mul(self.index);
            return start.map_or(0, |start| end.saturating_sub(start).min(block));
        };
        let last = (end % round).saturating_sub(block * self.index);
        end / round * block + last.min(block)
    }
}

/// The bytes that one stripe sends, in order. Takes no memory for blocks, however many there are.
#[derive(Debug, Clone)]
pub struct Share {
    /// The bytes behind those taken so far, of all stripes if there are `blocks`.
    rest: RangeSet,
    blocks: Option<Blocks>,
}

impl Share {
    /// Takes the next bytes: one range, of at most `max` bytes, and of several stripes within one
    /// block.
    pub fn take_first(&mut self, max: u64) -> Option<Range64> {
        let Some(blocks) = self.blocks else {
            return self.rest.take_first(max);
        };
        loop {
            let first = self.rest.first()?;
            let Some(own) = blocks.from(first.start()) else {
                self.rest.clear();
                return None;
            };
            if own.start() > first.start() {
                self.rest.take_first(own.start() - first.start());
            } else {
                return self.rest.take_first(max.min(own.len()));
            }
        }
    }

    /// Number of bytes not taken yet.
    pub fn total(&self) -> u64 {
        match self.blocks {
            None => self.rest.total(),
            Some(blocks) => {
                let parts = self.rest.iter();
                parts.fold(0, |sum, range| {
                    sum + (blocks.below(range.end()) - blocks.below(range.start()))
                })
            }
        }
    }

    /// Adds a range to the bytes to be dealt.
    pub fn push(&mut self, range: Range64) {
        self.rest.insert(range);
    }

    /// Drops all bytes that were not taken.
    pub fn clear(&mut self) {
        self.rest.clear();
    }
}

impl Iterator for Share {
    type Item = Range64;

    fn next(&mut self) -> Option<Range64> {
        self.take_first(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blocked(block: u64) -> Layout {
        Layout::Blocked(NonZero::new(block).unwrap())
    }

    fn stripe(layout: Layout, index: u32, count: u32) -> Stripe {
        Stripe::new(layout, index, count).unwrap()
    }

    fn shares(layout: Layout, count: u32, set: &RangeSet) -> Vec<String> {
        let share = |index| -> RangeSet { stripe(layout, index, count).share(set).collect() };
        (0..count).map(|index| share(index).to_string()).collect()
    }

    #[test]
    fn blocks_go_round_and_pieces_are_rounded_up() {
        let file = RangeSet::up_to(10);
        assert_eq!(shares(blocked(3), 2, &file), ["0-3,6-9", "3-6,9-10"]);
        assert_eq!(
            shares(Layout::Partitioned, 4, &file),
            ["0-3", "3-6", "6-9", "9-10"]
        );
        assert_eq!(
            shares(Layout::Partitioned, 4, &RangeSet::up_to(5)),
            ["0-2", "2-4", "4-5", ""]
        );
        // A restart keeps the blocks and divides the missing bytes.
        let holes: RangeSet = "2-4,7-10".parse().unwrap();
        assert_eq!(shares(blocked(3), 2, &holes), ["2-3,7-9", "3-4,9-10"]);
        assert_eq!(shares(Layout::Partitioned, 2, &holes), ["2-4,7-8", "8-10"]);
        for layout in [Layout::Partitioned, blocked(3)] {
            assert_eq!(shares(layout, 1, &holes), ["2-4,7-10"]);
            assert_eq!(Stripe::new(layout, 2, 2), None);
            assert_eq!(Stripe::new(layout, 0, 0), None);
        }
    }

    #[test]
    fn a_terabyte_in_small_blocks_is_dealt_lazily() {
        let set = RangeSet::up_to(1 << 40);
        let mut share = stripe(blocked(256 << 10), 3, 4).share(&set);
        assert_eq!(share.total(), 1 << 38);
        assert_eq!(share.next(), Range64::from_len(3 << 18, 1 << 18));
        assert_eq!(share.take_first(10), Range64::from_len(7 << 18, 10));
        assert_eq!(
            share.next(),
            Range64::from_len((7 << 18) + 10, (1 << 18) - 10)
        );
        assert_eq!(share.rest.len(), 1);
    }

    #[test]
    fn the_last_offsets_do_not_overflow() {
        let all = RangeSet::up_to(u64::MAX);
        let half = stripe(blocked(1 << 63), 1, 2).share(&all);
        assert_eq!(half.total(), u64::MAX - (1 << 63));
        assert_eq!(
            half.collect::<Vec<_>>(),
            [Range64::new(1 << 63, u64::MAX).unwrap()]
        );
        let none = stripe(blocked(u64::MAX), u32::MAX - 1, u32::MAX).share(&all);
        assert_eq!((none.total(), none.count()), (0, 0));
        let pieces = shares(Layout::Partitioned, 2, &all);
        assert_eq!(
            pieces,
            [
                "0-9223372036854775808",
                "9223372036854775808-18446744073709551615"
            ]
        );
    }

    fn any_layout() -> impl Strategy<Value = Layout> {
        prop_oneof![
            Just(Layout::Partitioned),
            (1u64..40).prop_map(blocked),
            (1u64..u64::MAX).prop_map(blocked),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn stripes_are_disjoint_and_together_the_set(
            cuts in prop::collection::btree_set(0u64..600, 0..20), shift in prop_oneof![
                Just(0u64), Just(u64::MAX - 600), 0..u64::MAX - 600,
            ],
            layout in any_layout(), count in 1u32..9, most in 1u64..50,
        ) {
            let cuts: Vec<_> = cuts.into_iter().collect();
            let set: RangeSet = cuts
                .chunks_exact(2)
                .filter_map(|cut| Range64::new(cut[0] + shift, cut[1] + shift))
                .collect();
            let (mut all, mut lengths) = (RangeSet::new(), Vec::new());
            for index in 0..count {
                let mut share = stripe(layout, index, count).share(&set);
                let (total, mut taken, mut last) = (share.total(), 0, None);
                while let Some(range) = share.take_first(most) {
                    prop_assert!(last < Some(range) && range.len() <= most);
                    last = Some(range);
                    taken += range.len();
                    if let Layout::Blocked(block) = layout && count > 1 {
                        let first = range.start() / block;
                        prop_assert_eq!(first, (range.end() - 1) / block);
                        prop_assert_eq!(first % u64::from(count), u64::from(index));
                    }
                    prop_assert!(all.gaps(range).total() == range.len(), "dealt twice");
                    all.insert(range);
                    prop_assert_eq!(share.total(), total - taken);
                }
                prop_assert_eq!(taken, total);
                lengths.push(total);
            }
            prop_assert_eq!(&all, &set);
            if layout == Layout::Partitioned {
                let each = set.total().div_ceil(count.into());
                let full = set.total().checked_div(each).unwrap_or(0);
                for (index, length) in (0u64..).zip(lengths) {
                    prop_assert!(length == each || index >= full, "{index}: {length} of {each}");
                }
            }
        }
    }
}

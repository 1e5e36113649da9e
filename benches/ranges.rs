//! The range set in its best case, and in its worst: every second block missing.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a bench talks to the person who runs it"
)]

use byte_ranges::{Range64, RangeSet};
use workspace_benches::timing::nanoseconds;

const BLOCK: u64 = 1000;

fn range(block: u64) -> Range64 {
    Range64::new(block * BLOCK, (block + 1) * BLOCK).expect("a block is not empty")
}

fn main() {
    for count in [100_u32, 10_000] {
        let in_order = nanoseconds(|| (0..u64::from(count)).fold(RangeSet::new(), insert));
        let holes = nanoseconds(|| {
            (0..u64::from(count))
                .map(|n| n * 2)
                .fold(RangeSet::new(), insert)
        });
        let backwards = nanoseconds(|| {
            (0..u64::from(count))
                .rev()
                .map(|n| n * 2)
                .fold(RangeSet::new(), insert)
        });
        for (what, ns) in [
            ("in order", in_order),
            ("with holes", holes),
            ("with holes, backwards", backwards),
        ] {
            println!(
                "{count:>6} blocks {what:<22} {:>8.0} ns a block",
                ns / f64::from(count)
            );
        }
    }
}

fn insert(mut set: RangeSet, block: u64) -> RangeSet {
    set.insert(range(block));
    set
}

//! Range text is bounded and round-trips, and operations on range sets match a plain set.

use std::collections::BTreeSet;

use byte_ranges::{Range64, RangeSet, text};

/// `data` is range text, and a list of operations of three bytes each.
pub(crate) fn check(data: &[u8]) {
    if let Ok(set) = text::parse(data, 16) {
        assert!(set.len() <= 16);
        assert_eq!(set.to_string().parse(), Ok(set));
    }
    let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
    for op in data.chunks_exact(3).take(64) {
        let [kind, a, b] = [op[0], op[1] % 64, op[2] % 64].map(u64::from);
        let range = Range64::new(a, b);
        match kind % 4 {
            0 | 1 => {
                set.extend(range);
                model.extend(a..b);
            }
            2 => {
                range.into_iter().for_each(|range| set.remove(range));
                model.retain(|x| !(a..b).contains(x));
            }
            _ => {
                set = set.complement(b);
                model = (0..b).filter(|x| !model.contains(x)).collect();
            }
        }
        assert!(
            set.iter()
                .flat_map(|r| r.start()..r.end())
                .eq(model.iter().copied())
        );
        assert!(
            set.iter()
                .zip(set.iter().skip(1))
                .all(|(a, b)| a.end() < b.start())
        );
        assert_eq!(set.total(), model.len() as u64);
    }
}

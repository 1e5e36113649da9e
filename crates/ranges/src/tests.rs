//! Model test: any sequence of operations against a `BTreeSet<u64>` oracle.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::text::{BadRanges, parse};
use crate::{Range64, RangeSet};

/// Offsets in the model stay below this.
const SPACE: u64 = 64;

#[derive(Debug, Clone)]
enum Operation {
    Insert(u64, u64),
    Remove(u64, u64),
    TakeFirst(u64),
    Clip(u64, u64),
    ShiftUp(u64),
    ShiftDown(u64),
    Reverse,
}

fn operation() -> impl Strategy<Value = Operation> {
    let n = 0..SPACE;
    prop_oneof![
        6 => (n.clone(), n.clone()).prop_map(|(a, b)| Operation::Insert(a, b)),
        3 => (n.clone(), n.clone()).prop_map(|(a, b)| Operation::Remove(a, b)),
        1 => (0..8u64).prop_map(Operation::TakeFirst),
        1 => (n.clone(), n).prop_map(|(a, b)| Operation::Clip(a, b)),
        1 => (0..4u64).prop_map(Operation::ShiftUp),
        1 => (0..4u64).prop_map(Operation::ShiftDown),
        1 => Just(Operation::Reverse),
    ]
}

fn apply(op: &Operation, set: &mut RangeSet, model: &mut BTreeSet<u64>) {
    match *op {
        Operation::Insert(a, b) => {
            set.extend(Range64::new(a, b));
            model.extend(a..b);
        }
        Operation::Remove(a, b) => {
            if let Some(range) = Range64::new(a, b) {
                set.remove(range);
            }
            model.retain(|x| !(a..b).contains(x));
        }
        Operation::TakeFirst(max) => {
            let expected = model.first().copied().filter(|_| max > 0);
            let taken = set.take_first(max);
            assert_eq!(taken.map(Range64::start), expected);
            for x in taken.into_iter().flat_map(|r| r.start()..r.end()) {
                assert!(model.remove(&x));
            }
            assert!(taken.is_none_or(|r| r.len() <= max));
        }
        Operation::Clip(a, b) => {
            *set = Range64::new(a, b).map_or_else(RangeSet::new, |r| set.clip(r));
            model.retain(|x| (a..b).contains(x));
        }
        Operation::ShiftUp(by) => {
            *set = set.shift_up(by).unwrap();
            *model = model.iter().map(|x| x + by).collect();
        }
        Operation::ShiftDown(by) => {
            *set = set.shift_down(by);
            *model = model.iter().filter_map(|x| x.checked_sub(by)).collect();
        }
        Operation::Reverse => {
            let size = model.last().map_or(0, |x| x + 1) + 3;
            *set = set.complement(size);
            *model = (0..size).filter(|x| !model.contains(x)).collect();
        }
    }
}

/// Compares members, order, separation and every query of a set with the model.
fn check(set: &RangeSet, model: &BTreeSet<u64>) {
    let members: Vec<u64> = set.iter().flat_map(|r| r.start()..r.end()).collect();
    assert_eq!(members, model.iter().copied().collect::<Vec<_>>());
    assert!(
        set.iter()
            .zip(set.iter().skip(1))
            .all(|(a, b)| a.end() < b.start()),
        "{set}"
    );
    assert_eq!(set.total(), model.len() as u64);
    assert_eq!(set.is_empty(), model.is_empty());
    assert_eq!(set.iter().len(), set.len());
    assert!(
        set.iter()
            .rev()
            .eq(set.iter().collect::<Vec<_>>().into_iter().rev())
    );
    assert_eq!(
        set.first_hole(),
        (0..).find(|x| !model.contains(x)).unwrap()
    );
    assert_eq!(set.end(), model.last().map_or(0, |x| x + 1));
    for x in 0..set.end() + 2 {
        assert_eq!(set.contains(x), model.contains(&x));
    }
    assert_eq!(&set.to_string().parse::<RangeSet>().unwrap(), set);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_matches_the_model(ops in prop::collection::vec(operation(), 0..60)) {
        let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
        for op in &ops {
            apply(op, &mut set, &mut model);
            check(&set, &model);
        }
    }

    #[test]
    fn gaps_covers_and_intersect_match_the_model(
        ours in prop::collection::btree_set(0..SPACE, 0..40),
        theirs in prop::collection::btree_set(0..SPACE, 0..40),
        a in 0..SPACE, len in 1..SPACE,
    ) {
        let of = |m: &BTreeSet<u64>| m.iter().filter_map(|&x| Range64::from_len(x, 1)).collect::<RangeSet>();
        let (set, other) = (of(&ours), of(&theirs));
        check(&set, &ours);
        check(&set.intersect(&other), &ours.intersection(&theirs).copied().collect());
        prop_assert_eq!(set.intersect(&other), other.intersect(&set));
        let within = Range64::from_len(a, len).unwrap();
        check(&set.gaps(within), &(a..a + len).filter(|x| !ours.contains(x)).collect());
        prop_assert_eq!(set.covers(within), (a..a + len).all(|x| ours.contains(&x)));
    }

    #[test]
    fn text_never_panics(text in prop::collection::vec(prop::sample::select(b"0123456789-, ".to_vec()), 0..40)) {
        if let Ok(set) = parse(&text, 8) {
            prop_assert!(set.len() <= 8);
        }
    }
}

#[test]
fn ranges_at_the_end_of_u64_do_not_overflow() {
    let last = Range64::new(u64::MAX - 1, u64::MAX).unwrap();
    let mut set = RangeSet::from(last);
    set.insert(Range64::new(0, u64::MAX).unwrap());
    assert_eq!(set.total(), u64::MAX);
    assert_eq!(set.shift_up(1), None);
    assert_eq!(set.shift_down(u64::MAX), RangeSet::new());
    assert_eq!(Range64::from_len(u64::MAX, 1), None);
    assert_eq!(set.take_first(u64::MAX).unwrap().len(), u64::MAX);
}

#[test]
fn appending_prepending_and_scattering_many_blocks_is_quick() {
    let mut forward = RangeSet::new();
    let mut backward = RangeSet::new();
    let mut scattered = RangeSet::new();
    for i in 0..200_000u64 {
        forward.insert(Range64::from_len(i * 10, 10).unwrap());
        backward.insert(Range64::from_len((200_000 - i) * 10, 10).unwrap());
        scattered.insert(Range64::from_len((i * 7919 % 200_000) * 10, 9).unwrap());
    }
    assert_eq!(
        (forward.len(), backward.len(), scattered.len()),
        (1, 1, 200_000)
    );
}

#[test]
fn bad_text_is_refused_with_its_fault_and_place() {
    for (text, error) in [
        ("5", BadRanges::Dash { at: 1 }),
        ("5-3", BadRanges::Backwards { at: 0 }),
        ("1-2,", BadRanges::Number { at: 4 }),
        ("1-2 3-4", BadRanges::Comma { at: 3 }),
        ("a-b", BadRanges::Number { at: 0 }),
        ("0-18446744073709551616", BadRanges::Overflow { at: 2 }),
        ("1-2,3-4,5-6", BadRanges::TooMany { limit: 2 }),
    ] {
        assert_eq!(parse(text.as_bytes(), 2), Err(error), "{text}");
    }
    assert_eq!(
        parse(b"30-40,0-10,10-20", 3).unwrap().to_string(),
        "0-20,30-40"
    );
    assert_eq!(parse(b"7-7", 3).unwrap(), RangeSet::new());
    assert_eq!(parse(b"", 0).unwrap(), RangeSet::new());
}

//! Tables of two copies against the set of the groups that were made to differ.

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;

/// The value of group `number` of a copy.
fn value_of(number: u64, copy: u64) -> Value {
    let of = [number.to_be_bytes(), copy.to_be_bytes()].concat();
    *blake3::hash(&of).as_bytes()
}

/// The table of the groups in this order, those of `bad` with other values than the copy before.
fn table(numbers: impl IntoIterator<Item = u64>, bad: &BTreeSet<u64>, copy: u64) -> Vec<Sum> {
    let mut sums = Sums::of([]);
    for number in numbers {
        let copy = if bad.contains(&number) { copy } else { 0 };
        sums.add(number, &value_of(number, copy));
    }
    sums.to_bytes()
}

/// Says whether two of the groups have the same cells: no table tells one from the other.
fn are_alike(bad: &BTreeSet<u64>) -> bool {
    let all: BTreeSet<_> = bad.iter().map(|number| places(*number)).collect();
    all.len() < bad.len()
}

/// Some `count` of the numbers below `groups`.
fn some(groups: u64, count: usize, seed: u64) -> BTreeSet<u64> {
    let of = |n: u64| {
        let hash = blake3::hash(&[seed.to_be_bytes(), n.to_be_bytes()].concat());
        u64::from_be_bytes(*hash.as_bytes().first_chunk().unwrap()) % groups
    };
    let mut bad = BTreeSet::new();
    for number in (0..).map(of) {
        if bad.len() == count {
            break;
        }
        bad.insert(number);
    }
    bad
}

#[test]
fn seven_hundred_bad_groups_of_the_longest_file_are_named() {
    // Groups with the same values on both ends cancel, so the bad ones alone are the tables.
    const LONGEST: u64 = 1 << 43;
    for (seed, count) in (0..).zip([0, 1, 2, 10, 100, 400, 600, 650, 700]) {
        let bad = some(LONGEST, count, seed);
        let [here, there] = [1, 2].map(|copy| table(bad.iter().copied(), &bad, copy));
        assert_eq!(differing_groups(&here, &there, LONGEST), Some(bad));
    }
}

#[test]
fn more_bad_groups_than_fit_are_not_named() {
    for (seed, count) in (0..).zip([850, 1000, 1024, 2000, 5000]) {
        let bad = some(1 << 20, count, seed);
        let [here, there] = [1, 2].map(|copy| table(bad.iter().copied(), &bad, copy));
        assert_eq!(differing_groups(&here, &there, 1 << 20), None, "{count}");
    }
}

#[test]
fn groups_that_one_copy_lacks_are_named() {
    let none = BTreeSet::new();
    let [here, there] = [5000, 5003].map(|groups| table(0..groups, &none, 0));
    let behind = Some(BTreeSet::from([5000, 5001, 5002]));
    assert_eq!(differing_groups(&here, &there, 5003), behind);
    assert_eq!(differing_groups(&there, &here, 5003), behind);
    assert_eq!(
        differing_groups(&here, &there, 5002),
        None,
        "a number is too high"
    );
    assert_eq!(differing_groups(&here, &here, 5000), Some(none));
}

#[test]
fn tables_of_another_length_name_nothing() {
    let sums = Sums::of([]).to_bytes();
    let some = BTreeSet::new();
    assert_eq!(differing_groups(&sums, &sums, 9), Some(some));
    for other in [&sums[1..], &[], &[&sums[..], &[[0; 16]]].concat()] {
        assert_eq!(differing_groups(&sums, other, 9), None);
        assert_eq!(differing_groups(other, &sums, 9), None);
    }
}

/// A cell says that group 1 differs by one; the others of that group do not.
#[test]
fn a_table_of_no_file_ends() {
    let sums = Sums::of([]).to_bytes();
    for place in places(1) {
        let mut wrong = sums.clone();
        wrong[place] = ((1_u128 << 64) | 1).to_be_bytes();
        assert_eq!(differing_groups(&wrong, &sums, 1 << 43), None);
    }
    let all_ones = vec![[u8::MAX; 16]; SUMS];
    assert_eq!(differing_groups(&all_ones, &sums, 1 << 43), None);
}

#[test]
fn inverses_are_inverse() {
    for number in [1, 2, 3, 59, 1 << 63, P - 2, P - 1] {
        assert_eq!(product(number, inverse(number)), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_bad_groups_are_named_exactly_in_any_order(
        bad in subsequence((0..2000).collect::<Vec<u64>>(), 0..600),
        order in Just((0..2000).collect::<Vec<u64>>()).prop_shuffle(),
    ) {
        let bad: BTreeSet<u64> = bad.into_iter().collect();
        let here = table(0..2000, &bad, 1);
        let there = table(order, &bad, 2);
        let named = differing_groups(&here, &there, 2000);
        let expected = Some(bad).filter(|bad| !are_alike(bad));
        prop_assert_eq!(named, expected);
    }

    #[test]
    fn any_number_of_bad_groups_is_named_exactly_or_not_at_all(
        groups in 1_u64..1 << 40,
        count in 0_usize..1200,
        seed in any::<u64>(),
    ) {
        let bad = some(groups, count.min(usize::try_from(groups / 2).unwrap()), seed);
        let [here, there] = [1, 2].map(|copy| table(bad.iter().copied(), &bad, copy));
        let named = differing_groups(&here, &there, groups);
        prop_assert!(named.is_none_or(|named| named == bad));
    }

    #[test]
    fn what_a_peer_tells_is_survived(
        sums in prop::collection::vec(prop::array::uniform16(any::<u8>()), SUMS),
        groups in any::<u64>(),
    ) {
        let here = Sums::of([]).to_bytes();
        prop_assert_eq!(differing_groups(&here, &sums, groups), None);
    }
}

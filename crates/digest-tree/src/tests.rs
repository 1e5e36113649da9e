//! Trees against BLAKE3 of the whole, over every order, split and defect.

use blake3::hazmat::HasherExt as _;
use proptest::prelude::*;

use super::*;

/// Bytes of a group.
const GROUP_LEN: usize = 1 << 20;

pub(crate) fn file(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let byte = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    byte.take(size).collect()
}

const SIZES: [usize; 14] = [
    0, 1, 1023, 1024, 1025, 2048, 2049, 4096, 100_000, 1_048_575, 1_048_576, 1_048_577, 2_097_152,
    3_200_005,
];

#[test]
fn whole_files_in_order() {
    for size in SIZES {
        let bytes = file(size);
        for step in [1 << 22, 262_144, 65_483, 1000] {
            let mut tree = Tree::new();
            for (number, block) in bytes.chunks(step).enumerate() {
                tree.insert(Piece::of((number * step) as u64, block));
            }
            assert_eq!(
                tree.digest(size as u64),
                Ok(blake3::hash(&bytes)),
                "{size} by {step}"
            );
        }
    }
}

#[test]
fn groups_are_handed_out_once_and_stand_for_their_bytes() {
    let size = 3 * GROUP_LEN + 777;
    let bytes = file(size);
    let mut tree = Tree::with_groups();
    for (number, block) in bytes
        .chunks(100_000)
        .enumerate()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        tree.insert(Piece::of(number as u64 * 100_000, block));
    }
    let mut groups = tree.take_groups();
    groups.sort_unstable();
    assert_eq!(
        groups.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    for ((number, value), group) in groups.iter().zip(bytes.chunks(GROUP_LEN)) {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(number * GROUP);
        hasher.update(group);
        assert_eq!(hasher.finalize_non_root(), *value);
    }
    assert!(tree.take_groups().is_empty());

    let mut resumed = Tree::new();
    for (number, value) in groups {
        resumed.insert_group(number, value);
    }
    assert_eq!(resumed.digest(size as u64), Err(Unknown::Missing));
    resumed.insert(Piece::of(3 * GROUP, &bytes[3 * GROUP_LEN..]));
    assert_eq!(resumed.digest(size as u64), Ok(blake3::hash(&bytes)));
}

#[test]
fn a_long_file_in_order_keeps_few_values() {
    let block = file(GROUP_LEN);
    let mut tree = Tree::new();
    for number in 0..3 * MAX_WAITING as u64 {
        tree.insert_group(number, [u8::try_from(number % 251).unwrap(); 32]);
    }
    tree.insert(Piece::of(3 * MAX_WAITING as u64 * GROUP, &block));
    assert!(tree.digest((3 * MAX_WAITING as u64 + 1) * GROUP).is_ok());
    assert!(tree.digest((3 * MAX_WAITING as u64 + 2) * GROUP).is_err());
}

#[test]
fn defects_lose_the_digest() {
    let bytes = file(10_000);
    let of = |pieces: &[(usize, usize)]| {
        let mut tree = Tree::new();
        for &(start, end) in pieces {
            tree.insert(Piece::of(start as u64, &bytes[start..end]));
        }
        tree.digest(10_000)
    };
    assert_eq!(of(&[(0, 10_000)]), Ok(blake3::hash(&bytes)));
    assert_eq!(of(&[]), Err(Unknown::Missing));
    assert_eq!(of(&[(1, 10_000)]), Err(Unknown::Missing));
    assert_eq!(of(&[(0, 9999)]), Err(Unknown::Missing));
    assert_eq!(of(&[(0, 5000), (5001, 10_000)]), Err(Unknown::Missing));
    assert_eq!(of(&[(0, 5000), (4999, 10_000)]), Err(Unknown::Repeated));
    assert_eq!(of(&[(0, 10_000), (3072, 4096)]), Err(Unknown::Repeated));
    assert_eq!(of(&[(3072, 3073), (0, 10_000)]), Err(Unknown::Repeated));
    assert_eq!(of(&[(0, 10_000), (0, 1)]), Err(Unknown::Repeated));
    let mut longer = Tree::new();
    longer.insert(Piece::of(0, &bytes));
    assert_eq!(longer.digest(9999), Err(Unknown::Longer));
}

#[test]
fn a_peer_cannot_make_it_grow_without_bound() {
    for length in [1, 1024] {
        let mut tree = Tree::new();
        let block = vec![0; length];
        for number in 1..2 * MAX_WAITING as u64 {
            tree.insert(Piece::of(number * 2048, &block));
        }
        assert_eq!(tree.digest(0), Err(Unknown::Scattered));
    }
}

#[test]
fn single_bytes_cost_no_more_memory_than_their_chunk() {
    for (step, holds) in [(1, true), (2, false)] {
        let mut tree = Tree::new();
        for start in (0..1024).step_by(step) {
            tree.insert(Piece::of(5 * 1024 + start, &[7]));
        }
        assert_eq!(tree.is_lost(), !holds, "{step}");
    }
}

#[test]
fn offsets_at_the_end_of_numbers_are_survived() {
    for start in [u64::MAX, u64::MAX - 1023, u64::MAX - 4096] {
        let mut tree = Tree::new();
        tree.insert(Piece::of(start, &[0; 8192]));
        assert!(tree.digest(100_000).is_err());
        tree.insert_group(start, [0; 32]);
        assert!(tree.digest(u64::MAX).is_err());
    }
}

proptest! {
    #[test]
    fn any_order_and_split_gives_the_digest_of_the_whole(
        size in 0_usize..40_000,
        cuts in prop::collection::vec(0_usize..40_000, 0..40),
        seed in any::<u64>(),
    ) {
        let bytes = file(size);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(size)).chain([0, size]).collect();
        cuts.sort_unstable();
        let mut blocks: Vec<(usize, usize)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
        let mut state = seed | 1;
        for last in (1..blocks.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            blocks.swap(last, (state >> 33) as usize % (last + 1));
        }
        let mut tree = Tree::new();
        for (start, end) in blocks {
            tree.insert(Piece::of(start as u64, &bytes[start..end]));
        }
        prop_assert_eq!(tree.digest(size as u64), Ok(blake3::hash(&bytes)));
    }
}

/// A tree of `groups` groups, each with a value of its number but for the first, where that of
/// `other` differs; in pairs, the second of each first.
fn tree_of_groups(groups: u64, other: Option<u64>) -> Tree {
    let mut tree = Tree::new();
    tree.insert(Piece::of(0, &file(GROUP_LEN)));
    let pairs = (0..groups).map(|number| number ^ 1);
    for number in pairs.filter(|number| (1..groups).contains(number)) {
        let mut value = [u8::from(Some(number) == other); 32];
        value[..8].copy_from_slice(&number.to_be_bytes());
        tree.insert_group(number, value);
    }
    if groups % 2 == 1 && groups > 1 {
        let mut value = [u8::from(Some(groups - 1) == other); 32];
        value[..8].copy_from_slice(&(groups - 1).to_be_bytes());
        tree.insert_group(groups - 1, value);
    }
    tree
}

#[test]
fn sections_tell_the_place_of_a_difference() {
    let most = MAX_SECTIONS as u64;
    for (groups, other, length) in [
        (2, 1, 1),
        (most, most - 1, 1),
        (most + 1, most, 2),
        (5 * most + 3, 5 * most + 1, 8),
        (8 * most, 77, 8),
    ] {
        let size = groups * GROUP;
        assert_eq!(section_length(size), length * GROUP);
        let [one, two] = [None, Some(other)].map(|other| tree_of_groups(groups, other));
        assert_ne!(one.digest(size), two.digest(size));
        let [one, two] = [one, two].map(|tree| tree.sections(size).unwrap());
        assert_eq!(one.len() as u64, groups.div_ceil(length));
        let differ = |number: &usize| one[*number] != two[*number];
        let all: Vec<_> = (0..one.len()).filter(differ).collect();
        assert_eq!(all, [usize::try_from(other / length).unwrap()], "{groups}");
    }
}

#[test]
fn sections_are_the_values_of_their_bytes() {
    let size = 3 * GROUP_LEN + 777;
    let bytes = file(size);
    let mut tree = Tree::new();
    tree.insert(Piece::of(5000, &bytes[5000..]));
    assert_eq!(tree.sections(size as u64), Err(Unknown::Missing));
    tree.insert(Piece::of(0, &bytes[..5000]));
    let sections = tree.sections(size as u64).unwrap();
    let value_of = |(number, group): (usize, &[u8])| {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(number as u64 * GROUP);
        hasher.update(group).finalize_non_root()
    };
    let expected: Vec<_> = bytes.chunks(GROUP_LEN).enumerate().map(value_of).collect();
    assert_eq!(sections, expected);
    let mut small = Tree::new();
    small.insert(Piece::of(0, &bytes[..GROUP_LEN]));
    assert_eq!(small.sections(GROUP), Ok(Vec::new()));
}

#[test]
fn sums_name_the_groups_that_differ() {
    let most = MAX_SECTIONS as u64;
    for (groups, bad) in [
        (most + 1, &[0, 1, most][..]),
        (most + 2, &[most]),
        (2 * most + 1, &[3, most + 1, most + 2, 2 * most]),
        (5 * most + 3, &[1, 2, 3, 4, 5, 6, 5 * most + 2]),
    ] {
        let file = file(GROUP_LEN);
        let value = |number: u64, copy: u8| {
            let differs = bad.contains(&number);
            let mut value = [if differs { copy } else { 0 }; 32];
            value[..8].copy_from_slice(&number.to_be_bytes());
            value
        };
        // One end has all groups from a journal, in reverse; the other hashes the first and last one.
        let mut here = Tree::with_groups();
        (0..groups)
            .rev()
            .for_each(|number| here.insert_group(number, value(number, 1)));
        let mut there = Tree::new();
        for number in (1..groups - 1).step_by(2).chain((2..groups - 1).step_by(2)) {
            there.insert_group(number, value(number, 2));
        }
        there.insert(Piece::of((groups - 1) * GROUP, &file));
        there.insert(Piece::of(0, &file));
        let size = groups * GROUP;
        let [here, there] = [here, there].map(|tree| tree.sums(size).unwrap());
        let mut bad: Vec<_> = bad.iter().copied().chain([0, groups - 1]).collect();
        bad.sort_unstable();
        bad.dedup();
        let named = differing_groups(&here, &there, groups).unwrap();
        assert_eq!(named.into_iter().collect::<Vec<_>>(), bad);
    }
}

#[test]
fn sums_count_a_short_last_group_and_only_long_files_have_them() {
    let groups = MAX_SECTIONS as u64;
    let bytes = file(GROUP_LEN);
    let tree = |last: &[u8]| {
        let mut tree = Tree::new();
        tree.insert(Piece::of(0, &bytes));
        (1..groups).for_each(|number| tree.insert_group(number, [1; 32]));
        tree.insert(Piece::of(groups * GROUP, last));
        tree
    };
    assert_eq!(tree(&[]).sums(groups * GROUP), Ok(Vec::new()));
    for length in [1, 1024, 5000, GROUP_LEN / 2, GROUP_LEN - 1] {
        let size = groups * GROUP + length as u64;
        let mut other = bytes[..length].to_vec();
        other[0] ^= 1;
        let [here, there] = [&bytes[..length], &other].map(|last| tree(last).sums(size).unwrap());
        assert_eq!(here.len(), SUMS);
        let named = differing_groups(&here, &there, groups + 1);
        assert_eq!(named, Some([groups].into()), "{length}");
        assert_eq!(tree(&bytes[..length]).sums(size + 1), Err(Unknown::Missing));
    }
}

//! Parts of a file on several hosts, joined: against BLAKE3 of the whole.

use proptest::prelude::*;

use super::*;
use crate::tests::file;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % most
    }
}

/// The next values of a tree, encoded and decoded.
fn passed(tree: &mut Tree) -> Known {
    let bytes = tree.take_known().to_bytes();
    assert!(bytes.len() <= Known::LONGEST);
    Known::from_bytes(&bytes).unwrap()
}

fn pass_all(from: &mut Tree, to: &mut Tree) {
    loop {
        let known = passed(from);
        if known.is_empty() {
            return;
        }
        to.insert_known(known);
    }
}

proptest! {
    #[test]
    fn the_parts_of_any_hosts_have_the_digest_of_the_whole(
        size in prop_oneof![0_usize..5000, 0_usize..4_000_000],
        hosts in 1_usize..5,
        stripe in prop_oneof![1_usize..5000, 4096_usize..2_000_000],
        block in 1_usize..400_000,
        seed in any::<u64>(),
    ) {
        let bytes = file(size);
        let block = block.max(size / 200 + 1);
        let stripe = stripe.max(size / 500 + 1);
        let mut blocks = Vec::new();
        for (number, part) in bytes.chunks(stripe).enumerate() {
            for (within, piece) in part.chunks(block).enumerate() {
                let start = number * stripe + within * block;
                blocks.push((number % hosts, start, piece));
            }
        }
        let mut random = Random(seed | 1);
        for last in (1..blocks.len()).rev() {
            blocks.swap(last, random.below(last + 1));
        }
        let mut parts = vec![Tree::of_part(); hosts];
        let mut whole = Tree::with_groups().of_parts();
        for (host, start, piece) in blocks {
            parts[host].insert(Piece::of(start as u64, piece));
            if random.below(4) == 0 {
                let at = random.below(hosts);
                whole.insert_known(passed(&mut parts[at]));
            }
        }
        parts.iter_mut().for_each(|part| pass_all(part, &mut whole));
        prop_assert_eq!(whole.digest(size as u64), Ok(blake3::hash(&bytes)));
        let mut alone = Tree::with_groups();
        alone.insert(Piece::of(0, &bytes));
        prop_assert_eq!(whole.sections(size as u64), alone.sections(size as u64));
        let [mut joined, mut groups] = [whole, alone].map(|mut tree| tree.take_groups());
        joined.sort_unstable();
        groups.sort_unstable();
        prop_assert_eq!(joined, groups);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(known) = Known::from_bytes(&bytes) {
            prop_assert_eq!(known.to_bytes(), bytes);
            let mut tree = Tree::new().of_parts();
            tree.insert_known(known);
        }
    }
}

/// The blocks of one host of two, which never join there.
#[test]
fn a_part_of_many_blocks_is_handed_out_in_bounded_pieces() {
    const BLOCKS: usize = 5000;
    let bytes = file(2 * BLOCKS * 1024);
    let mut parts = [Tree::of_part(), Tree::of_part()];
    for (number, block) in bytes.chunks(1024).enumerate() {
        parts[number % 2].insert(Piece::of(number as u64 * 1024, block));
    }
    let mut whole = Tree::new().of_parts();
    let mut messages = 0;
    for part in &mut parts {
        while let known = passed(part)
            && !known.is_empty()
        {
            messages += 1;
            whole.insert_known(known);
        }
    }
    assert_eq!(messages, 8);
    assert_eq!(whole.digest(bytes.len() as u64), Ok(blake3::hash(&bytes)));
}

#[test]
fn bytes_of_two_hosts_lose_the_digest() {
    let bytes = file(10_000);
    let mut whole = Tree::new().of_parts();
    for range in [0..6000, 5000..10_000] {
        let mut part = Tree::of_part();
        part.insert(Piece::of(range.start as u64, &bytes[range]));
        pass_all(&mut part, &mut whole);
    }
    assert_eq!(whole.digest(10_000), Err(Unknown::Repeated));
}

#[test]
fn parts_have_bounds() {
    let mut part = Tree::of_part();
    for number in 1..=MAX_WAITING_PARTS as u64 {
        part.insert(Piece::of(number * 2048, &[0; 1024]));
    }
    assert!(!part.is_lost());
    part.insert(Piece::of(1 << 40, &[0; 1024]));
    assert!(part.is_lost());
    assert!(part.take_known().is_empty());
    let mut torn = Tree::of_part();
    for number in 1..=MAX_WAITING as u64 + 1 {
        torn.insert(Piece::of(number * 1024, &[0]));
    }
    assert!(torn.is_lost());
}

#[test]
fn what_no_tree_hands_out_is_refused() {
    let value = |level: u8, start: u64| [&[level][..], &start.to_be_bytes(), &[7; 32]].concat();
    let edge = |start: u64, told: u16, length: usize| {
        let head = [&[0xff][..], &start.to_be_bytes(), &told.to_be_bytes()].concat();
        [head, vec![7; length]].concat()
    };
    let last = (i64::MAX as u64).next_multiple_of(1024) - 1024;
    for bytes in [
        value(11, 0),
        value(0, 1),
        value(10, 1024),
        value(0, last),
        value(10, u64::MAX - 1023),
        value(0, 0)[..40].to_vec(),
        edge(0, 0, 0),
        edge(0, 1025, 1025),
        edge(1000, 25, 25),
        edge(u64::MAX, 1, 1),
        edge(0, 2, 1),
        vec![0; 3],
        vec![7; Known::LONGEST + 1],
    ] {
        assert_eq!(Known::from_bytes(&bytes), None, "{bytes:?}");
    }
    for bytes in [value(10, 0), value(0, 1024), edge(1000, 24, 24), Vec::new()] {
        let known = Known::from_bytes(&bytes).unwrap();
        assert_eq!(known.to_bytes(), bytes);
    }
}

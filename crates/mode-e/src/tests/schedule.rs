//! The sending half: every byte once, every connection ended.

use proptest::prelude::*;

use super::*;

#[test]
fn the_scheduler_ends_every_connection_once_and_each_destination_with_one_count() {
    let what: RangeSet = "0-10,20-23".parse().unwrap();
    let mut scheduler = Scheduler::new(&what, 4, Streams::new(2, 3).unwrap());
    assert_eq!((scheduler.connections(), scheduler.left()), (6, 13));
    let mut offsets = Vec::new();
    let mut ends = Vec::new();
    for connection in (0..6).rev().cycle().take(60) {
        match scheduler.next(connection) {
            Next::Data(header) => offsets.push((header.offset, header.count)),
            Next::End(header) => ends.push((connection, header)),
            Next::Wait => panic!("the source does not grow"),
            Next::Finished => {}
        }
    }
    assert_eq!(offsets, [(0, 4), (4, 4), (8, 2), (20, 3)]);
    assert!(scheduler.is_finished());
    assert_eq!(ends.len(), 6);
    for destination in [0..3, 3..6] {
        let of: Vec<_> = ends
            .iter()
            .filter(|(c, _)| destination.contains(c))
            .map(|(_, h)| *h)
            .collect();
        assert_eq!(of.iter().filter(|h| **h == Header::eof(3)).count(), 1);
        assert_eq!(of.iter().filter(|h| **h == Header::eod()).count(), 2);
    }
    assert_eq!(scheduler.next(99), Next::Finished);
}

#[test]
fn an_empty_file_still_ends_all_streams() {
    let mut scheduler = Scheduler::new(&RangeSet::new(), 4, Streams::new(1, 2).unwrap());
    assert_eq!(scheduler.next(1), Next::End(Header::eof(2)));
    assert_eq!(scheduler.next(1), Next::Finished);
    assert!(!scheduler.is_finished());
    assert_eq!(scheduler.next(0), Next::End(Header::eod()));
    assert!(scheduler.is_finished());
}

#[test]
fn a_connection_that_ends_early_leaves_the_count_to_another() {
    let what = RangeSet::up_to(8);
    let mut scheduler = Scheduler::new(&what, 4, Streams::new(1, 3).unwrap());
    assert!(matches!(scheduler.next(0), Next::Data(_)));
    assert_eq!(scheduler.end_early(2), Some(Header::eod()));
    assert_eq!(scheduler.end_early(2), None, "it has ended");
    assert_eq!(scheduler.next(2), Next::Finished);
    assert_eq!(scheduler.end_early(1), Some(Header::eod()));
    assert_eq!(scheduler.end_early(0), None, "no other has the count");
    assert_eq!(scheduler.end_early(9), None);
    assert!(matches!(scheduler.next(0), Next::Data(_)));
    assert_eq!(scheduler.next(0), Next::End(Header::eof(3)));
    // Behind the count any connection may end.
    let mut scheduler = Scheduler::new(&RangeSet::new(), 4, Streams::new(1, 2).unwrap());
    assert_eq!(scheduler.next(1), Next::End(Header::eof(2)));
    assert_eq!(scheduler.end_early(0), Some(Header::eod()));
    assert!(scheduler.is_finished());
}

#[test]
fn destinations_without_data_get_their_marks() {
    let what = RangeSet::up_to(10);
    let mut scheduler = Scheduler::new(&what, 4, Streams::new(3, 2).unwrap()).with_receivers(1);
    for connection in [4, 2] {
        assert_eq!(scheduler.next(connection), Next::End(Header::eof(2)));
        assert_eq!(scheduler.next(connection + 1), Next::End(Header::eod()));
    }
    let mut dealt = RangeSet::new();
    while let Next::Data(header) = scheduler.next(1) {
        dealt.extend(Range64::from_len(header.offset, header.count));
    }
    assert_eq!(dealt, what);
    assert_eq!(scheduler.next(0), Next::End(Header::eod()));
    assert!(scheduler.is_finished());
}

#[test]
fn a_growing_source_is_waited_for() {
    let mut scheduler = Scheduler::growing(1 << 20, Streams::ONE);
    assert_eq!(scheduler.next(0), Next::Wait);
    scheduler.push(Range64::new(0, 7).unwrap());
    assert_eq!(scheduler.next(0), Next::Data(Header::data(0, 7)));
    assert_eq!(scheduler.next(0), Next::Wait);
    scheduler.close();
    assert_eq!(scheduler.next(0), Next::End(Header::eof(1)));
}

#[test]
fn absurd_numbers_of_streams_are_refused() {
    for (destinations, each) in [(0, 1), (1, 0), (usize::MAX, 2), (1 << 20, 2)] {
        assert_eq!(Streams::new(destinations, each), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_assigned_blocks_are_the_set(
        cuts in prop::collection::btree_set(0u64..10_000, 0..20), block in 1u64..500,
        destinations in 1usize..4, each in 1usize..4, seed: u64,
    ) {
        let cuts: Vec<_> = cuts.into_iter().collect();
        let what: RangeSet = cuts.chunks_exact(2).filter_map(|c| Range64::new(c[0], c[1])).collect();
        let streams = Streams::new(destinations, each).unwrap();
        let mut scheduler = Scheduler::new(&what, block, streams);
        let (mut dealt, mut seed) = (RangeSet::new(), seed);
        while !scheduler.is_finished() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if let Next::Data(h) = scheduler.next((seed >> 33) as usize % streams.connections()) {
                prop_assert!(h.count <= block && h.offset >= dealt.end());
                dealt.extend(Range64::from_len(h.offset, h.count));
            }
        }
        prop_assert_eq!(dealt, what);
    }
}

#[test]
fn a_slow_connection_gets_smaller_blocks() {
    let what: RangeSet = "0-100".parse().unwrap();
    let mut scheduler = Scheduler::new(&what, 40, Streams::new(1, 2).unwrap());
    let mut next = |connection, most| match scheduler.next_within(connection, most) {
        Next::Data(header) => (header.offset, header.count),
        other => panic!("{other:?}"),
    };
    assert_eq!(next(0, u64::MAX), (0, 40));
    assert_eq!(next(1, 7), (40, 7));
    assert_eq!(next(1, 0), (47, 1));
    assert_eq!(next(0, 41), (48, 40));
}

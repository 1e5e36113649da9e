//! One connection: order of steps, refused blocks, permitted ends.

use proptest::prelude::*;

use super::*;

#[test]
fn the_header_is_seventeen_bytes_big_endian() {
    let header = Header::new(Flags::EOD, 0x0102, u64::MAX - 1);
    let bytes = header.to_bytes();
    assert_eq!(
        bytes,
        *b"\x08\0\0\0\0\0\0\x01\x02\xff\xff\xff\xff\xff\xff\xff\xfe"
    );
    assert_eq!(Header::parse(&bytes), header);
    assert_eq!(
        Header::eof(2).to_bytes(),
        *b"\x48\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02"
    );
}

#[test]
fn blocks_marks_and_ignored_bits_come_out_in_order() {
    let wire = [
        block(Header::data(5, 3), b"abc"),
        block(raw(0, 0, 77), b""),
        block(raw(0x80 | 0x20, 2, 1), b"de"),
        block(raw(0x40, 0, 3), b""),
        // Payload and mark in one block: the payload first.
        block(raw(0x08, 2, 100), b"fg"),
        b"next transfer".to_vec(),
    ]
    .concat();
    let expected = vec![
        Seen::Bytes(5, b"abc".to_vec()),
        Seen::Bytes(1, b"de".to_vec()),
        Seen::Eof(3),
        Seen::Bytes(100, b"fg".to_vec()),
        Seen::Eod(false),
    ];
    check(&wire, &Ok(expected));
    check(
        &block(Header::eof(1), b""),
        &Ok(vec![Seen::Eof(1), Seen::Eod(false)]),
    );
    check(&block(raw(0x0c, 0, 0), b""), &Ok(vec![Seen::Eod(true)]));
    check(
        &block(raw(0x4c, 0, 7), b""),
        &Ok(vec![Seen::Eof(7), Seen::Eod(true)]),
    );
}

#[test]
fn impossible_blocks_are_refused_at_the_header() {
    let empty = block(raw(0, 0, 0), b"");
    for (wire, kind) in [
        (
            block(raw(0x01, 0, 0), b""),
            BadBlockKind::ReservedBits { descriptor: 1 },
        ),
        (
            block(raw(0x4a, 0, 1), b""),
            BadBlockKind::ReservedBits { descriptor: 0x4a },
        ),
        (block(raw(0x10, 4, 0), b""), BadBlockKind::RestartMarker),
        (
            block(raw(0x40, 5, 1), b""),
            BadBlockKind::EofWithPayload { count: 5 },
        ),
        (
            block(raw(0x48, 0, 0), b""),
            BadBlockKind::AbsurdCount {
                announced: 0,
                limit: 8,
            },
        ),
        (
            block(raw(0x48, 0, 9), b""),
            BadBlockKind::AbsurdCount {
                announced: 9,
                limit: 8,
            },
        ),
        (
            block(raw(0x48, 0, 1 << 32), b""),
            BadBlockKind::AbsurdCount {
                announced: 1 << 32,
                limit: 8,
            },
        ),
        (
            block(raw(0, 1 << 63, 0), b""),
            BadBlockKind::TooLong {
                count: 1 << 63,
                limit: 1 << 20,
            },
        ),
        (
            block(raw(0, u64::MAX, 0), b""),
            BadBlockKind::TooLong {
                count: u64::MAX,
                limit: 1 << 20,
            },
        ),
        (
            block(raw(0, 2, u64::MAX), b""),
            BadBlockKind::BeyondEnd {
                offset: u64::MAX,
                count: 2,
            },
        ),
        (
            block(raw(0x08, 2, i64::MAX as u64 - 1), b""),
            BadBlockKind::BeyondEnd {
                offset: i64::MAX as u64 - 1,
                count: 2,
            },
        ),
        (block(raw(0x04, 0, 0), b""), BadBlockKind::CloseWithoutEod),
        (block(raw(0x44, 0, 1), b""), BadBlockKind::CloseWithoutEod),
        (empty.repeat(3), BadBlockKind::TooManyEmpty { limit: 2 }),
    ] {
        check(&wire, &Err(kind));
    }
    let at = steps(
        &[&empty[..], &block(raw(1, 0, 0), b"")].concat(),
        &[&empty, &block(raw(1, 0, 0), b"")],
        1,
    );
    assert_eq!(at.unwrap_err().at, 17);
}

#[test]
fn the_last_byte_a_file_can_have_is_taken() {
    let last = i64::MAX as u64 - 1;
    check(
        &block(Header::data(last, 1), b"z"),
        &Ok(vec![Seen::Bytes(last, b"z".to_vec())]),
    );
}

#[test]
fn an_error_stays() {
    let mut deframer = Deframer::new(limits());
    assert_eq!(deframer.feed(&raw(1, 0, 0).to_bytes()), HEADER_LEN);
    let bad = deframer.poll().unwrap_err();
    deframer.next_transfer();
    assert_eq!(deframer.poll(), Err(bad));
    assert_eq!(deframer.at_end(), Err(bad));
    assert_eq!(deframer.feed(b"x"), 0);
}

#[test]
fn a_kept_connection_serves_again_and_may_be_retired() {
    let mut conn = Conn::new(u64::MAX);
    let mut seen = Vec::new();
    let wire = [
        block(Header::data(0, 1), b"a"),
        block(Header::eof(1), b""),
        block(Header::data(9, 1), b"b"),
    ];
    conn.take(&wire.concat(), &mut seen).unwrap();
    assert_eq!(
        seen,
        [
            Seen::Bytes(0, b"a".to_vec()),
            Seen::Eof(1),
            Seen::Eod(false)
        ]
    );
    assert!(conn.deframer.at_end().is_ok());

    conn.next_transfer();
    assert!(!conn.deframer.has_begun());
    seen.clear();
    let later = std::mem::take(&mut conn.later);
    conn.take(&later, &mut seen).unwrap();
    assert_eq!(seen, [Seen::Bytes(9, b"b".to_vec())]);
    conn.take(&block(Header::eod(), b""), &mut seen).unwrap();

    conn.next_transfer();
    seen.clear();
    conn.take(&block(raw(0x04, 0, 0), b""), &mut seen).unwrap();
    assert_eq!(seen, [Seen::Retired]);
    assert!(conn.deframer.at_end().is_ok());
}

#[test]
fn close_on_a_kept_connection_in_mid_transfer_is_an_error() {
    let mut conn = Conn::new(u64::MAX);
    conn.take(&block(Header::eof(1), b""), &mut Vec::new())
        .unwrap();
    conn.next_transfer();
    conn.take(&block(Header::data(0, 1), b"a"), &mut Vec::new())
        .unwrap();
    let bad = conn
        .take(&block(raw(0x04, 0, 0), b""), &mut Vec::new())
        .unwrap_err();
    assert_eq!(bad.kind, BadBlockKind::CloseWithoutEod);
}

#[test]
fn the_end_of_a_connection_is_judged_by_where_it_comes() {
    let wire = [block(Header::data(0, 3), b"abc"), block(Header::eod(), b"")].concat();
    let mut ends = Vec::new();
    for at in 0..=wire.len() {
        let mut conn = Conn::new(u64::MAX);
        conn.take(&wire[..at], &mut Vec::new()).unwrap();
        ends.push(conn.deframer.at_end().map_err(|bad| bad.kind));
    }
    let mut expected = vec![Ok(())];
    expected.extend([Err(BadBlockKind::CutInHeader); 16]);
    expected.extend([3, 2, 1].map(|missing| Err(BadBlockKind::CutInPayload { missing })));
    expected.push(Err(BadBlockKind::CutBeforeEod));
    expected.extend([Err(BadBlockKind::CutInHeader); 16]);
    expected.push(Ok(()));
    assert_eq!(ends, expected);
}

#[test]
fn the_first_header_is_reported_once_a_transfer() {
    let mut deframer = Deframer::new(limits());
    assert!(!deframer.just_begun());
    deframer.feed(&Header::eod().to_bytes());
    assert_eq!(deframer.poll(), Ok(Step::Eod { close: false }));
    assert!(deframer.just_begun() && !deframer.just_begun() && deframer.has_begun());
    // Polled again, it waits for the next transfer, and the connection may end there.
    assert_eq!(deframer.poll(), Ok(Step::Header { need: HEADER_LEN }));
    assert!(deframer.at_end().is_ok());
}

#[test]
#[should_panic(expected = "more payload moved")]
fn moving_more_than_offered_is_a_bug_of_the_caller() {
    let mut deframer = Deframer::new(limits());
    deframer.feed(&Header::data(0, 1).to_bytes());
    deframer.poll().unwrap();
    deframer.moved(2);
}

/// The steps of a connection that expects transfer 7 for these blocks, split at every byte.
fn tagged(blocks: &[Vec<u8>]) -> Result<Vec<Seen>, BadBlockKind> {
    let wire = blocks.concat();
    let run = |cut: usize, bite| {
        let mut conn = Conn::new(bite);
        conn.deframer.expect(Some(7));
        let mut seen = Vec::new();
        let (head, tail) = wire.split_at(cut);
        let taken = conn.take(head, &mut seen);
        let taken = taken.and_then(|()| conn.take(tail, &mut seen));
        taken.map(|()| joined(seen)).map_err(|bad| bad.kind)
    };
    let whole = run(wire.len(), u64::MAX);
    for cut in 0..wire.len() {
        assert_eq!(run(cut, 1), whole, "cut at {cut}");
    }
    whole
}

#[test]
fn only_the_blocks_behind_its_tag_belong_to_a_transfer() {
    let tag = |tag| block(Header::of_tag(tag), b"");
    let (own, end) = (
        block(Header::data(0, 3), b"own"),
        block(Header::eof(1), b""),
    );
    let other = block(Header::data(0, 5), b"other");
    let last = block(raw(0x0c, 4, 1), b"last");
    let expected = Ok(vec![
        Seen::Bytes(0, b"own".to_vec()),
        Seen::Eof(1),
        Seen::Eod(false),
    ]);
    assert_eq!(tagged(&[tag(7), own.clone(), end.clone()]), expected);
    // Blocks of failed transfers are skipped, whatever their end.
    let failed = [
        tag(2),
        other.clone(),
        other,
        end.clone(),
        tag(6),
        end.clone(),
    ];
    let then = [tag(7), own.clone(), end.clone()];
    assert_eq!(tagged(&[&failed[..], &then].concat()), expected);
    assert_eq!(tagged(&[tag(2), last]), Ok(vec![Seen::Retired]));
    let untagged = Err(BadBlockKind::Untagged { wanted: 7 });
    assert_eq!(tagged(std::slice::from_ref(&own)), untagged);
    assert_eq!(tagged(&[tag(2), end.clone(), own]), untagged);
    assert_eq!(tagged(std::slice::from_ref(&end)), untagged);
    let wanted = 7;
    for tag in [6, 7, 8] {
        let wrong = Err(BadBlockKind::OtherTag { tag, wanted });
        let again = block(Header::of_tag(tag), b"");
        assert_eq!(
            tagged(&[block(Header::of_tag(7), b""), again.clone()]),
            wrong
        );
        if tag == 8 {
            assert_eq!(tagged(&[again]), wrong);
        }
    }
    let payload = block(raw(0x01, 1, 7), b"x");
    let descriptor = 1;
    assert_eq!(
        tagged(&[payload]),
        Err(BadBlockKind::ReservedBits { descriptor })
    );
}

#[test]
fn a_tagged_transfer_may_end_with_its_digest() {
    let of: [u8; 32] = std::array::from_fn(|n| 200 - n as u8);
    let digest = Header::of_digest(of).map(|half| block(half, b""));
    let tag = |tag| block(Header::of_tag(tag), b"");
    let (own, end) = (
        block(Header::data(0, 3), b"own"),
        block(Header::eof(1), b""),
    );
    let expected = [
        Seen::Bytes(0, b"own".to_vec()),
        Seen::Digest(of),
        Seen::Eof(1),
        Seen::Eod(false),
    ];
    let with = |before: &[Vec<u8>]| tagged(&[before, &digest, std::slice::from_ref(&end)].concat());
    assert_eq!(with(&[tag(7), own.clone()]), Ok(expected.to_vec()));
    // That of a transfer that failed is skipped with it, whole or in part.
    for stale in [&digest[..], &digest[..1]] {
        let failed = [&[tag(2), own.clone()], stale, std::slice::from_ref(&end)].concat();
        assert_eq!(
            with(&[failed, vec![tag(7), own.clone()]].concat()),
            Ok(expected.to_vec())
        );
    }
    let descriptor = 2;
    let refused = Err(BadBlockKind::ReservedBits { descriptor });
    // More of the kind are hints.
    let value = |number: usize| (number as u128).to_be_bytes();
    let values = [1, 2].map(|number| block(Header::of_hint(value(number)), b""));
    let last = std::slice::from_ref(&end);
    let all = [&[tag(7), own.clone()], &digest[..], &values, last].concat();
    let mut told = expected.to_vec();
    told.splice(2..2, [1, 2].map(|number| Seen::Hint(value(number))));
    assert_eq!(tagged(&all), Ok(told));
    assert_eq!(with(&[]), refused, "without a tag");
    let mut untagged = Conn::new(1);
    let wire = [own, digest.concat()].concat();
    assert!(untagged.take(&wire, &mut Vec::new()).is_err());
}

#[test]
fn a_peer_tells_no_more_hints_than_there_may_be() {
    for (hints, is_taken) in [(MAX_HINTS, true), (MAX_HINTS + 1, false)] {
        let mut conn = Conn::new(u64::MAX);
        conn.deframer.expect(Some(7));
        let digest = Header::of_digest([9; 32]);
        let values = (0..hints).map(|_| Header::of_hint([9; 16]));
        let blocks = [Header::of_tag(7)].into_iter().chain(digest).chain(values);
        let wire: Vec<u8> = blocks.flat_map(Header::to_bytes).collect();
        assert_eq!(conn.take(&wire, &mut Vec::new()).is_ok(), is_taken);
    }
}

#[test]
fn the_rest_of_a_transfer_that_failed_midway_is_skipped() {
    let wire = [
        block(Header::of_tag(1), b""),
        block(Header::data(0, 5), b"first"),
        block(Header::data(5, 4), b"half"),
        block(Header::eof(2), b""),
    ]
    .concat();
    let next = [
        block(Header::of_tag(2), b""),
        block(Header::data(0, 4), b"next"),
        block(Header::eof(1), b""),
    ]
    .concat();
    for cut in 0..wire.len() {
        let mut conn = Conn::new(2);
        conn.deframer.expect(Some(1));
        conn.take(&wire[..cut], &mut Vec::new()).unwrap();
        conn.deframer.expect(Some(2));
        assert!(!conn.deframer.has_begun());
        let mut seen = Vec::new();
        conn.take(&wire[cut..], &mut seen).unwrap();
        assert_eq!(seen, [], "cut at {cut}");
        assert!(conn.deframer.at_end().is_ok());
        conn.take(&next, &mut seen).unwrap();
        let bytes = Seen::Bytes(0, b"next".to_vec());
        assert_eq!(joined(seen), [bytes, Seen::Eof(1), Seen::Eod(false)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic_and_cuts_change_nothing(
        headers in prop::collection::vec((any::<u8>(), 0u64..6, 0u64..12), 0..6), cut in 0usize..160,
    ) {
        let wire: Vec<u8> = headers.iter().flat_map(|(flags, count, offset)| {
            let payload = vec![b'p'; if flags & 0x40 != 0 { 0 } else { *count as usize }];
            block(raw(flags & 0xfc, *count, *offset), &payload)
        }).collect();
        let (a, b) = wire.split_at(cut.min(wire.len()));
        prop_assert_eq!(steps(&wire, &[a, b], 3), steps(&wire, &[&wire], u64::MAX));
    }
}

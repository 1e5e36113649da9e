//! Operations against a pair: it neither panics nor grows nor reads bytes that were not written.
//!
//! The same operations are fuzz targets; both call one function `connection`.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::fuzzing;

fn operation() -> impl Strategy<Value = Vec<u8>> {
    let number = any::<u8>();
    let simple = (0..12_u8, vec(number, 0..2));
    let forged = (12..14_u8, 0..10_u8, vec(number, 8), vec(number, 0..60));
    // Forged packets near the sent ones do more harm than others.
    let near = (
        12..14_u8,
        prop::sample::select(vec![0_u8, 2, 3, 7]),
        0..8_u32,
        vec(0..80_u32, 2),
    );
    prop_oneof![
        2 => near.prop_map(|(op, kind, message, places)| {
            let places = places.iter().map(|place| (0x7fff_fff0 + place) & 0x7fff_ffff);
            let words: Vec<_> = match kind {
                // Data: a sequence number, and one of the four parts of a message.
                0 => places.clone().take(1).chain([message | message << 30, 0, 1]).collect(),
                _ => [0x8000_0000 | u32::from(kind) << 16, message, 0, 1].to_vec(),
            };
            let bytes = words.into_iter().chain(places).flat_map(u32::to_be_bytes);
            fuzzing::encode(op, &bytes.collect::<Vec<_>>())
        }),
        12 => simple.prop_map(|(op, rest)| fuzzing::encode(op, &rest)),
        1 => (14..16_u8, vec(number, 1)).prop_map(|(op, rest)| fuzzing::encode(op, &rest)),
        2 => forged.prop_map(|(op, kind, header, rest)| {
            let packet = [&[0x80, kind, 0, 0][..], &header, &[1; 4], &rest].concat();
            fuzzing::encode(op, &packet)
        }),
    ]
}

/// Completes the handshake, then runs random operations.
fn greeted() -> Vec<u8> {
    let deliver = |end| fuzzing::encode(end, &[15]);
    [
        fuzzing::encode(6, &[0]),
        deliver(1),
        deliver(0),
        deliver(1),
        deliver(0),
    ]
    .concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_pair_survives_any_operations(ops in vec(operation(), 0..200)) {
        fuzzing::connection(&[greeted(), ops.concat()].concat());
    }

    #[test]
    fn and_so_does_a_pair_for_messages(ops in vec(operation(), 0..200)) {
        fuzzing::messages(&[greeted(), ops.concat()].concat());
    }

    #[test]
    fn bytes_alone_are_operations_too(bytes in vec(any::<u8>(), 0..400)) {
        fuzzing::connection(&bytes);
        fuzzing::messages(&bytes);
        fuzzing::packet(&bytes);
    }

    #[test]
    fn any_control_packet_means_the_same_when_written_again(
        kind in 0..10_u8,
        rest in vec(any::<u8>(), 12..80),
    ) {
        fuzzing::packet(&[&[0x80, kind, 0, 0][..], &rest].concat());
    }
}

/// Replays the findings and seeds of fuzzing.
#[test]
fn the_corpora_hold() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus");
    for (target, run) in [
        ("udt_packet", fuzzing::packet as fn(&[u8])),
        ("udt_connection", fuzzing::connection),
        ("udt_messages", fuzzing::messages),
    ] {
        let mut inputs = 0;
        for input in std::fs::read_dir(root.join(target)).unwrap() {
            let bytes = std::fs::read(input.unwrap().path()).unwrap();
            (0..=bytes.len()).for_each(|end| run(&bytes[..end]));
            inputs += 1;
        }
        assert!(inputs >= 5, "{target} has no corpus");
    }
}

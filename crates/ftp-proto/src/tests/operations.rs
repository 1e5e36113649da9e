//! Operations against both machines: whatever comes, they neither panic nor grow nor lose a reply.
//!
//! The same operations are fuzz targets; `run` there and here is one function.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::fuzzing;

/// Lines that reach every part of the server, and some that reach none.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(fuzzing::LINES.to_vec());
    prop_oneof![
        8 => known.prop_map(|line| line.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
    ]
}

fn operation() -> impl Strategy<Value = Vec<u8>> {
    let number = any::<u8>();
    prop_oneof![
        4 => line().prop_map(|line| fuzzing::encode(0, &line)),
        4 => vec(number, 0..6).prop_map(|rest| fuzzing::encode(1, &rest)),
        1 => (2..=255_u8, vec(number, 0..6)).prop_map(|(op, rest)| fuzzing::encode(op, &rest)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_server_survives_any_operations(ops in vec(operation(), 0..200)) {
        fuzzing::server(&ops.concat());
    }

    #[test]
    fn a_logged_in_server_survives_any_operations(ops in vec(operation(), 0..200)) {
        let mut all = fuzzing::encode(0, b"USER a");
        all.extend(fuzzing::encode(0, b"PASS a"));
        all.extend(fuzzing::encode(1, &[1]));
        all.extend(ops.concat());
        fuzzing::server(&all);
    }

    #[test]
    fn the_client_survives_any_operations(ops in vec(operation(), 0..200)) {
        fuzzing::client(&ops.concat());
    }

    #[test]
    fn bytes_alone_are_operations_too(bytes in vec(any::<u8>(), 0..400)) {
        fuzzing::server(&bytes);
        fuzzing::client(&bytes);
    }
}

/// Runs the committed corpora: findings of fuzzing and its seeds.
#[test]
fn the_corpora_hold() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus");
    for (target, run) in [
        ("server_session", fuzzing::server as fn(&[u8])),
        ("client_session", fuzzing::client),
    ] {
        let mut inputs = 0;
        for input in std::fs::read_dir(root.join(target)).unwrap() {
            run(&std::fs::read(input.unwrap().path()).unwrap());
            inputs += 1;
        }
        assert!(inputs >= 5, "{target} has no corpus");
    }
}

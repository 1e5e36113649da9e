//! Any order of writes, records, crashes and restarts ends with the right bytes or an error.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::LazyLock;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{ChecksumAlgorithm, ErrorKind, Finish, Sink};
use gridftp_dsi_posix::FileSink;
use gridftp_dsi_posix::checksum::Hasher;
use proptest::prelude::*;
use support::{RESUME, Tree, UPDATE, WHOLE};

/// Bytes of the file in the property: few enough that ranges touch, and enough that some blocks are
/// withheld and others are not.
const SIZE: u64 = 300_000;

#[derive(Debug, Clone)]
enum Step {
    /// Write from here, so many bytes.
    Write(u64, u64),
    /// Record everything written.
    Record,
    /// Give up without another word, and continue.
    Break,
    /// Give up, and start anew.
    Anew,
    /// Try to publish.
    Finish,
    /// A second writer publishes something else.
    Rival,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..SIZE, 1..150_000_u64).prop_map(|(at, len)| Step::Write(at, len.min(SIZE - at))),
        3 => Just(Step::Record),
        3 => Just(Step::Break),
        1 => Just(Step::Anew),
        2 => Just(Step::Finish),
        1 => Just(Step::Rival),
    ]
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]
}

static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| (0..SIZE).map(byte).collect());

/// Checks the file of the name: none, the right bytes, or those of the rival.
fn check(tree: &Tree) {
    match std::fs::read(tree.real("file")) {
        Ok(bytes) => assert!(
            bytes == *CONTENT || bytes == b"rival",
            "wrong bytes were published"
        ),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}

/// Opens the upload again, and checks the ranges that it holds.
async fn reopen(tree: &Tree, resume: bool) -> (FileSink, RangeSet) {
    if resume {
        let sink = tree.open("/file", RESUME).await.unwrap();
        let held = sink.held();
        return (sink, held);
    }
    (tree.open("/file", WHOLE).await.unwrap(), RangeSet::new())
}

async fn play(steps: Vec<Step>) {
    let tree = Tree::in_memory();
    let content = &*CONTENT;
    let (mut sink, mut held) = reopen(&tree, false).await;
    let mut recorded = RangeSet::new();
    for step in steps {
        match step {
            Step::Write(at, len) => {
                let (from, to) = (
                    usize::try_from(at).unwrap(),
                    usize::try_from(at + len).unwrap(),
                );
                sink.write_at(at, Bytes::copy_from_slice(&content[from..to]))
                    .await
                    .unwrap();
                held.extend(Range64::from_len(at, len));
            }
            Step::Record => {
                sink.checkpoint(&held, false).await.unwrap();
                recorded = held.clone();
            }
            Step::Break => {
                drop(sink);
                (sink, held) = reopen(&tree, true).await;
                assert!(
                    recorded.iter().all(|range| held.covers(range)),
                    "{held} lacks some of {recorded}"
                );
            }
            Step::Anew => {
                drop(sink);
                (sink, held) = reopen(&tree, false).await;
                assert!(sink.held().is_empty());
                recorded = RangeSet::new();
            }
            Step::Finish => {
                let whole = held.first_hole() == SIZE;
                match sink
                    .finish(Finish::whole(SIZE).with_held(held.clone()))
                    .await
                {
                    Ok(_) => {
                        assert!(whole);
                        assert!(std::fs::read(tree.real("file")).unwrap() == *content);
                        recorded = RangeSet::new();
                    }
                    Err(error) => {
                        assert!(!whole && error.kind() == ErrorKind::Incomplete, "{error}")
                    }
                }
                (sink, held) = reopen(&tree, true).await;
            }
            Step::Rival => tree.put("/file", b"rival").await.unwrap(),
        }
        check(&tree);
    }
    drop(sink);
    check(&tree);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_published_file_is_right(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(play(steps));
    }
}

/// `REST` into a longer file: the digest is that of the resulting file.
#[tokio::test]
async fn the_digest_of_an_update_is_that_of_the_whole_file() {
    for size in [1000, 200_000] {
        let tree = Tree::new();
        tree.put("/file", &vec![b'a'; size]).await.unwrap();
        let (from, to) = (size / 4, size / 2);
        let mut expected = vec![b'a'; size];
        expected[from..to].fill(b'b');
        let digest = |bytes: &[u8]| {
            let mut hasher = Hasher::new(ChecksumAlgorithm::Md5).unwrap();
            hasher.update(bytes);
            hasher.finish()
        };
        for (digest, ends) in [(digest(b"other"), false), (digest(&expected), true)] {
            let sink = tree.open("/file", UPDATE).await.unwrap();
            let data = Bytes::copy_from_slice(&expected[from..to]);
            sink.write_at(from as u64, data).await.unwrap();
            let done = Finish::whole(to as u64)
                .with_held(RangeSet::up_to(to as u64))
                .with_checksum(ChecksumAlgorithm::Md5, digest);
            let finished = sink.finish(done).await;
            let kind = finished.err().map(|error| error.kind());
            assert_eq!(kind, (!ends).then_some(ErrorKind::Mismatch), "{size} bytes");
            let found = std::fs::read(tree.real("file")).unwrap();
            assert_eq!(found == expected, ends);
        }
    }
}

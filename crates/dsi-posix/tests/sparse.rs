//! Files without their zeros have the same bytes, and take no space for them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::os::unix::fs::MetadataExt as _;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{Dsi, Finish, Sink};
use support::{RESUME, Tree, WHOLE, path};

const PIECE: usize = 256 * 1024;
const SIZE: u64 = 4 << 20;

fn sparse() -> Tree {
    let mut tree = Tree::new();
    tree.posix = tree.posix.with_sparse(true);
    tree
}

fn zeros() -> Bytes {
    Bytes::from(vec![0; PIECE])
}

/// The size of a file, and the bytes that it takes on the medium.
fn sizes(tree: &Tree, name: &str) -> (u64, u64) {
    let meta = std::fs::metadata(tree.real(name)).unwrap();
    (meta.len(), meta.blocks() * 512)
}

#[tokio::test]
async fn zeros_take_no_space() {
    let tree = sparse();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    assert!(!sink.takes_pipes(), "their bytes would not be seen");
    for at in (0..16).rev().map(|n| n * PIECE as u64) {
        let bytes = match at {
            0x10_0000 => Bytes::from(vec![1; PIECE]),
            _ => zeros(),
        };
        sink.write_at(at, bytes).await.unwrap();
    }
    sink.finish(Finish::whole(SIZE)).await.unwrap();
    let (size, taken) = sizes(&tree, "file");
    assert_eq!(size, SIZE);
    assert!(taken <= 2 * PIECE as u64, "{taken} bytes");
    let read = tree.read("/file").await.unwrap();
    let sum: u64 = read.iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!((read.len() as u64, sum), (SIZE, PIECE as u64));
    assert!(read[0x10_0000..][..PIECE].iter().all(|byte| *byte == 1));
}

#[tokio::test]
async fn an_upload_that_ends_in_a_hole_goes_on_behind_it() {
    let tree = sparse();
    let first = tree.open("/file", WHOLE).await.unwrap();
    first.write_at(0, zeros()).await.unwrap();
    let back = first.read_back(1, PIECE).await.unwrap();
    assert_eq!(back, zeros()[1..]);
    // These bytes are not recorded, and are others in the next attempt.
    let later = Bytes::from(vec![9; PIECE]);
    first.write_at(2 << 20, later).await.unwrap();
    let held = RangeSet::up_to(PIECE as u64);
    first.checkpoint(&held, true).await.unwrap();
    drop(first);
    let second = tree.open("/file", RESUME).await.unwrap();
    assert_eq!(second.held(), held);
    for at in (PIECE as u64..SIZE).step_by(PIECE) {
        second.write_at(at, zeros()).await.unwrap();
    }
    second.finish(Finish::whole(SIZE)).await.unwrap();
    let read = tree.read("/file").await.unwrap();
    assert!(read.len() as u64 == SIZE && read.iter().all(|byte| *byte == 0));
    let (_, taken) = sizes(&tree, "file");
    assert!(taken <= PIECE as u64, "{taken} bytes");
}

#[tokio::test]
async fn missing_bytes_do_not_count_as_zeros() {
    let tree = sparse();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    sink.write_at(0, zeros()).await.unwrap();
    assert!(sink.finish(Finish::whole(SIZE)).await.is_err());
    assert!(std::fs::metadata(tree.real("file")).is_err());
}

#[tokio::test]
async fn the_owner_of_a_shared_upload_sees_which_zeros_arrived() {
    let tree = sparse();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    let token = sink.share(None).await.unwrap();
    let user = &tree.user;
    let other = tree.posix.join(user, &path("/file"), &token).await.unwrap();
    for sink in [&sink, &other] {
        sink.write_at(1 << 20, zeros()).await.unwrap();
    }
    let data = sink.data().await.unwrap().unwrap();
    let arrived = Range64::from_len(1 << 20, PIECE as u64).unwrap();
    assert!(data.covers(arrived) && !data.covers(Range64::new(0, 1).unwrap()));
}

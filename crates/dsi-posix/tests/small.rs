//! Small new files of known size, which have no name until they are complete.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{ChecksumAlgorithm, Create, Dsi as _, ErrorKind, Finish, Sink};
use support::{INDEX, RESUME, Tree, WHOLE, names_in};

const SMALL: Create = Create::Whole { size: Some(5) };

async fn begin(tree: &Tree, bytes: &'static [u8]) -> gridftp_dsi_posix::FileSink {
    let sink = tree.open("/file", SMALL).await.unwrap();
    sink.write_at(0, Bytes::from_static(bytes)).await.unwrap();
    sink
}

#[tokio::test]
async fn a_small_new_file_appears_once_it_is_complete_and_leaves_nothing_before() {
    let tree = Tree::new();
    let sink = begin(&tree, b"hello").await;
    assert!(tree.everything().is_empty());
    drop(sink);
    let mut finish =
        Finish::whole(5).with_checksum(ChecksumAlgorithm::Md5, "5d41402abc4b2a76b9719d911017c592");
    finish.mode = Some(0o640);
    finish.modified = Some((1_000_000_000, 7));
    let stat = begin(&tree, b"hello").await.finish(finish).await.unwrap();
    assert_eq!((stat.size, tree.everything()), (5, vec!["file".to_owned()]));
    assert_eq!(tree.read("/file").await.unwrap(), b"hello");
    let file = std::fs::metadata(tree.real("file")).unwrap();
    assert_eq!(
        (
            file.permissions().mode() & 0o7777,
            file.mtime(),
            file.nlink()
        ),
        (0o640, 1_000_000_000, 1)
    );
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let tree = Tree::new();
    let empty = Create::Whole { size: Some(0) };
    let sink = tree.open("/file", empty).await.unwrap();
    sink.finish(Finish::whole(0)).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), b"");
}

#[tokio::test]
async fn an_incomplete_or_wrong_file_gets_no_name() {
    let tree = Tree::new();
    let short = begin(&tree, b"hell").await.finish(Finish::whole(5)).await;
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Incomplete);
    let other = Finish::whole(5).with_checksum(ChecksumAlgorithm::Crc32c, "00000000");
    let other = begin(&tree, b"hello").await.finish(other).await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Mismatch);
    assert!(tree.everything().is_empty());
}

#[tokio::test]
async fn a_growing_file_continues_under_a_hidden_name() {
    let tree = Tree::new();
    let sink = begin(&tree, b"hello").await;
    sink.write_at(5, Bytes::from(vec![b'!'; 100_000]))
        .await
        .unwrap();
    assert_eq!(tree.everything(), [".file.gridftp-part"]);
    sink.finish(Finish::whole(100_005)).await.unwrap();
    let bytes = tree.read("/file").await.unwrap();
    assert!(bytes.starts_with(b"hello!") && bytes.len() == 100_005);
    assert_eq!(tree.everything(), ["file"]);
}

#[tokio::test]
async fn a_recorded_part_of_a_small_file_can_be_continued() {
    let tree = Tree::new();
    let sink = begin(&tree, b"hel").await;
    sink.checkpoint(&RangeSet::up_to(3), true).await.unwrap();
    drop(sink);
    let sink = tree.open("/file", RESUME).await.unwrap();
    assert_eq!(sink.held(), RangeSet::up_to(3));
    sink.write_at(3, Bytes::from_static(b"lo")).await.unwrap();
    sink.finish(Finish::whole(5)).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), b"hello");
}

#[tokio::test]
async fn a_small_file_replaces_another_without_a_hidden_name() {
    let tree = Tree::new();
    tree.put("/file", b"old").await.unwrap();
    let mode = std::fs::Permissions::from_mode(0o604);
    std::fs::set_permissions(tree.real("file"), mode).unwrap();
    drop(begin(&tree, b"hello").await);
    let sink = begin(&tree, b"hello").await;
    assert_eq!(tree.everything(), ["file"]);
    assert!(tree.indexed().is_empty());
    assert_eq!(tree.read("/file").await.unwrap(), b"old");
    sink.finish(Finish::whole(5)).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), b"hello");
    let file = std::fs::metadata(tree.real("file")).unwrap();
    assert_eq!((file.mode() & 0o7777, file.nlink()), (0o604, 1));
    assert_eq!(tree.everything(), ["file"]);
    assert!(names_in(&tree.real(INDEX)).is_empty());
}

#[tokio::test]
async fn a_small_file_replaces_another_if_the_index_is_on_another_file_system() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("SKIPPED: there is no /dev/shm");
        return;
    };
    let mut tree = Tree::new();
    tree.posix = tree.posix.with_index(elsewhere.path());
    for bytes in [b"first", b"later"] {
        begin(&tree, bytes)
            .await
            .finish(Finish::whole(5))
            .await
            .unwrap();
        assert_eq!(tree.read("/file").await.unwrap(), bytes);
    }
    assert_eq!(tree.everything(), ["file"]);
    assert!(names_in(elsewhere.path()).is_empty());
}

#[tokio::test]
async fn a_complete_file_left_in_the_index_expires() {
    let tree = Tree::new();
    let left = format!("{INDEX}/..0123456789abcdef.gridftp-part");
    std::fs::create_dir(tree.real(INDEX)).unwrap();
    std::fs::write(tree.real(&left), "hello").unwrap();
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(tree.posix.expire(hour).await.unwrap(), 0);
    tree.age(&left);
    assert_eq!(tree.posix.expire(hour).await.unwrap(), 1);
    assert!(names_in(&tree.real(INDEX)).is_empty());
}

#[tokio::test]
async fn a_name_taken_meanwhile_is_replaced_like_any_other() {
    let tree = Tree::new();
    let sink = begin(&tree, b"hello").await;
    tree.put("/file", b"taken meanwhile").await.unwrap();
    sink.finish(Finish::whole(5)).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), b"hello");
    let sink = tree.open("/dir", SMALL).await.unwrap();
    std::fs::create_dir(tree.real("dir")).unwrap();
    let refused = sink.finish(Finish::whole(0)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::IsDirectory);
    assert_eq!(tree.everything(), ["dir", "file"]);
}

#[tokio::test]
async fn an_earlier_partial_file_is_not_continued_behind_a_newer_file() {
    let tree = Tree::new();
    let old = tree.open("/file", WHOLE).await.unwrap();
    old.write_at(0, Bytes::from_static(b"OLD")).await.unwrap();
    old.checkpoint(&RangeSet::up_to(3), true).await.unwrap();
    drop(old);
    let sink = begin(&tree, b"hello").await;
    sink.finish(Finish::whole(5)).await.unwrap();
    assert_eq!(tree.everything(), ["file"]);
    let sink = tree.open("/file", RESUME).await.unwrap();
    assert!(sink.held().is_empty());
}

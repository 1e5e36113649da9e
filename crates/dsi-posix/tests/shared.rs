//! Uploads that several processes write to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::process::{Command, Stdio};

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, Finish, Sink, User};
use gridftp_dsi_posix::Posix;
use support::{Tree, WHOLE, path};
use tokio::sync::Mutex;

/// A child process has our descriptors, and their locks, until it executes its program.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The child of the next test: writes the second half of the upload and dies.
#[tokio::test]
async fn child_that_joins() {
    let (Some(root), Some(token)) = (std::env::var_os("JOIN_IN"), std::env::var("TOKEN").ok())
    else {
        return;
    };
    let posix = Posix::open(root.as_ref()).unwrap();
    let user = User::new("u", DsiPath::root(), true);
    let token: Vec<u8> = token.split(' ').map(|byte| byte.parse().unwrap()).collect();
    let sink = posix.join(&user, &path("/file"), &token).await.unwrap();
    sink.write_at(5, Bytes::from_static(b" world"))
        .await
        .unwrap();
    sink.checkpoint(&RangeSet::up_to(11), true).await.unwrap();
    std::process::abort();
}

#[tokio::test]
async fn another_process_joins_an_upload() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let owner = tree.open("/file", WHOLE).await.unwrap();
    owner
        .write_at(0, Bytes::from_static(b"hello"))
        .await
        .unwrap();
    let token: Vec<String> = owner
        .share(None)
        .await
        .unwrap()
        .iter()
        .map(u8::to_string)
        .collect();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_joins", "--test-threads=1"])
        .env("JOIN_IN", tree.real(""))
        .env("TOKEN", token.join(" "))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert!(
        tree.everything()
            .iter()
            .all(|name| name != ".file.gridftp-held")
    );
    let done = Finish::whole(11).with_held(RangeSet::up_to(11));
    owner.finish(done).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), b"hello world");
    assert_eq!(tree.everything(), ["file"]);
}

#[tokio::test]
async fn a_range_that_was_never_written_is_a_hole() {
    let _alone = ALONE.lock().await;
    // A memory file system has no compression, which could store zeros as holes.
    let tree = Tree::in_memory();
    let owner = tree.open("/file", WHOLE).await.unwrap();
    let token = owner.share(None).await.unwrap();
    let node = tree
        .again()
        .join(&tree.user, &path("/file"), &token)
        .await
        .unwrap();
    for at in [0, 1 << 20] {
        node.write_at(at, Bytes::from(vec![0; 64 << 10]))
            .await
            .unwrap();
    }
    let reported = RangeSet::up_to(2 << 20);
    let there = owner.data().await.unwrap().unwrap();
    let mut missing = RangeSet::new();
    for range in &reported {
        missing.extend(&there.gaps(range));
    }
    let expected: RangeSet = [(64 << 10, 1 << 20), ((1 << 20) + (64 << 10), 2 << 20)]
        .into_iter()
        .filter_map(|(start, end)| Range64::new(start, end))
        .collect();
    assert_eq!(missing, expected);
}

/// A writer that hangs in the kernel has checked its owner before.
#[tokio::test]
async fn a_new_upload_has_another_file_than_an_abandoned_one() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let held = RangeSet::up_to(3);
    let owner = tree.open("/file", WHOLE).await.unwrap();
    owner.write_at(0, Bytes::from_static(b"old")).await.unwrap();
    owner.checkpoint(&held, false).await.unwrap();
    let hanging = std::fs::File::options()
        .write(true)
        .open(tree.real(".file.gridftp-part"))
        .unwrap();
    drop(owner);
    let owner = tree.open("/file", WHOLE).await.unwrap();
    owner.write_at(0, Bytes::from_static(b"new")).await.unwrap();
    owner.checkpoint(&held, false).await.unwrap();
    hanging.write_all_at(b"bad", 0).unwrap();
    owner.finish(Finish::whole(3)).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), b"new");
    assert!(tree.indexed().is_empty());
}

#[tokio::test]
async fn a_token_does_not_lead_out_of_the_tree() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let owner = tree.open("/file", WHOLE).await.unwrap();
    let token = owner.share(None).await.unwrap();
    let part = tree.real(".file.gridftp-part");
    // The inode and the lock are those of the token, but the name leads outside.
    std::fs::rename(&part, tree.all.path().join("elsewhere")).unwrap();
    symlink("../elsewhere", &part).unwrap();
    assert_eq!(
        std::fs::metadata(&part).unwrap().ino(),
        std::fs::metadata(tree.all.path().join("elsewhere"))
            .unwrap()
            .ino()
    );
    let refused = tree.posix.join(&tree.user, &path("/file"), &token).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Outside);
    symlink("..", tree.real("up")).unwrap();
    let refused = tree.posix.join(&tree.user, &path("/up/file"), &token).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Outside);
    for name in ["/.file.gridftp-part", "/../secret"] {
        let refused = tree.posix.join(&tree.user, &path(name), &token).await;
        let kind = refused.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::BadName | ErrorKind::Changed),
            "{kind:?}"
        );
    }
}

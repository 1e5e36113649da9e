//! Killed processes and full disks: tests that need other processes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{Create, Dsi, ErrorKind, Finish, Sink};
use gridftp_dsi_posix::Posix;
use support::{RESUME, Tree, WHOLE, names_in, path};
use tokio::sync::Mutex;

/// A child process has our descriptors, and their locks, until it executes its program: no test
/// here may rely on a lock meanwhile.
static ALONE: Mutex<()> = Mutex::const_new(());

fn set(start: u64, end: u64) -> RangeSet {
    Range64::new(start, end).into_iter().collect()
}

/// The child of the next test: dies between its record and its end.
#[tokio::test]
async fn child_that_dies() {
    let Some(root) = std::env::var_os("DIE_UPLOADING_INTO") else {
        return;
    };
    let posix = Posix::open(root.as_ref()).unwrap();
    let user = gridftp_dsi::User::new("u", gridftp_dsi::DsiPath::root(), true);
    let sink = posix.write(&user, &path("/file"), WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"held back at first, then recorded"))
        .await
        .unwrap();
    sink.checkpoint(&set(0, 33), false).await.unwrap();
    sink.write_at(33, Bytes::from(vec![b'x'; 100_000]))
        .await
        .unwrap();
    std::process::abort();
}

#[tokio::test]
async fn ranges_recorded_by_a_killed_process_are_held() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_dies", "--test-threads=1"])
        .env("DIE_UPLOADING_INTO", tree.real(""))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert_eq!(
        tree.everything(),
        [".file.gridftp-held", ".file.gridftp-part"]
    );
    let sink = tree.open("/file", RESUME).await.unwrap();
    assert_eq!(sink.held(), set(0, 33));
    sink.finish(Finish::whole(33)).await.unwrap();
    assert_eq!(
        tree.read("/file").await.unwrap(),
        b"held back at first, then recorded"
    );
}

/// The child of the next test: uploads for ever, publishes some files and leaves or drops others.
#[tokio::test]
async fn child_that_uploads() {
    let Some(root) = std::env::var_os("UPLOAD_INTO") else {
        return;
    };
    let posix = Posix::open(root.as_ref()).unwrap();
    let user = gridftp_dsi::User::new("u", gridftp_dsi::DsiPath::root(), true);
    let mut told = std::io::stderr();
    for round in 0_u32.. {
        let at = path(&format!("/{}/file", round % 3));
        let how = if round % 5 == 0 { RESUME } else { WHOLE };
        let sink = posix.write(&user, &at, how).await.unwrap();
        sink.write_at(0, Bytes::from(vec![7; 70_000]))
            .await
            .unwrap();
        if round % 2 == 0 {
            sink.checkpoint(&set(0, 70_000), false).await.unwrap();
        }
        if round % 3 == 0 {
            sink.finish(Finish::whole(70_000)).await.unwrap();
        }
        told.write_all(b"!").unwrap();
    }
}

#[tokio::test]
async fn a_killed_process_leaves_no_partial_file_without_an_entry() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    for dir in ["0", "1", "2"] {
        std::fs::create_dir(tree.real(dir)).unwrap();
    }
    for rounds in 1..=25 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child_that_uploads",
                "--test-threads=1",
                "--nocapture",
            ])
            .env("UPLOAD_INTO", tree.real(""))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = vec![0; rounds * 7];
        child.stderr.take().unwrap().read_exact(&mut told).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let indexed = tree.indexed();
        for dir in ["0", "1", "2"] {
            for name in names_in(&tree.real(dir)) {
                let path = format!("{dir}/{name}");
                let named = indexed.contains(&path);
                assert!(named || !name.ends_with("-part"), "{path}: {indexed:?}");
            }
        }
    }
    // Few, although hundreds were begun: a continued upload keeps its entry.
    assert!(tree.indexed().len() < 100, "{:?}", tree.indexed());
    tree.posix.expire(Duration::ZERO).await.unwrap();
    assert!(tree.indexed().is_empty());
    for dir in ["0", "1", "2"] {
        assert!(
            names_in(&tree.real(dir)).iter().all(|name| name == "file"),
            "{:?}",
            names_in(&tree.real(dir))
        );
    }
}

/// A file system of a few bytes in the directory `small` of a tree; needs root.
struct SmallDisk<'a>(&'a Tree);

impl<'a> SmallDisk<'a> {
    #[expect(clippy::print_stdout, reason = "a test that did not run says so")]
    fn mount(tree: &'a Tree, size: &str) -> Option<Self> {
        let small = tree.real("small");
        std::fs::create_dir(&small).unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&small)
            .status();
        let mounted = mounted.is_ok_and(|status| status.success());
        if !mounted {
            println!("SKIPPED a test of full disks: may not mount a small tmpfs");
        }
        mounted.then_some(Self(tree))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg(self.0.real("small"))
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_and_the_name_stays_free() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let Some(disk) = SmallDisk::mount(&tree, "1m") else {
        return;
    };
    let sink = tree.open("/small/file", WHOLE).await.unwrap();
    let block = Bytes::from(vec![7; 256 * 1024]);
    let mut failed = None;
    let mut held = 0;
    while failed.is_none() && held < 8 << 20 {
        match sink.write_at(held, block.clone()).await {
            Ok(()) => held += 256 * 1024,
            Err(error) => failed = Some(error.kind()),
        }
    }
    assert_eq!(failed, Some(ErrorKind::NoSpace));
    // A record needs space as well; bytes that it lacks are not claimed later.
    if let Err(error) = sink.checkpoint(&set(0, held), false).await {
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }
    drop(sink);
    assert!(
        names_in(&tree.real("small")).is_empty(),
        "what has no room takes some"
    );
    assert!(tree.indexed().is_empty());
    drop(disk);
}

#[tokio::test]
async fn without_space_in_the_index_no_upload_begins() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let Some(disk) = SmallDisk::mount(&tree, "1m,nr_inodes=1") else {
        return;
    };
    let posix = tree.again().with_index(&tree.real("small"));
    let refused = posix.write(&tree.user, &path("/file"), WHOLE).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(tree.everything(), ["small"], "a file that no entry names");
    drop((posix, disk));
}

#[tokio::test]
async fn the_blocks_of_a_partial_file_count_as_free() {
    let _alone = ALONE.lock().await;
    let tree = Tree::new();
    let Some(disk) = SmallDisk::mount(&tree, "4m") else {
        return;
    };
    let sink = tree.open("/small/file", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from(vec![7; 2 << 20]))
        .await
        .unwrap();
    sink.checkpoint(&set(0, 2 << 20), false).await.unwrap();
    drop(sink);
    for (size, fits) in [(3 << 20, true), (5 << 20, false)] {
        let size = Some(size);
        let again = tree.open("/small/file", Create::Resume { size }).await;
        assert_eq!(again.is_ok(), fits, "{again:?}");
    }
    drop(disk);
}

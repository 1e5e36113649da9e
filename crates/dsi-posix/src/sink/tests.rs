//! The kind of work of `finish`, and the files left when its future is dropped.

use std::fs::File;
use std::path::Path;

use gridftp_dsi::{ChecksumAlgorithm, Create};

use super::*;
use crate::journal::Origin;

#[tokio::test]
async fn a_small_file_replaces_a_large_one_on_a_blocking_thread() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    for (size, kind) in [(0, Work::Brief), (1 << 30, Work::Long)] {
        File::create(&name).unwrap().set_len(size).unwrap();
        let how = Create::Whole { size: None };
        let sink = FileSink::create(&name, how, false).await.unwrap();
        sink.write_at(0, Bytes::from_static(b"new")).await.unwrap();
        let done = Finish::whole(3);
        assert_eq!(sink.inner.work_of_finish(&done), kind, "{size} bytes");
        sink.finish(done).await.unwrap();
        assert_eq!(std::fs::read(&name).unwrap(), b"new");
    }
}

/// Neither waits for another end, and both take the content of a pipe.
#[tokio::test]
async fn a_device_without_order_is_written_like_a_file() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    let in_place = Create::InPlace { truncate: false };
    let file = FileSink::create(&name, in_place, false).await.unwrap();
    let whole = Create::Whole { size: None };
    let device = FileSink::create(Path::new("/dev/null"), whole, false).await;
    for sink in [file, device.unwrap()] {
        let (from, mut into) = std::io::pipe().unwrap();
        into.write_all(b"bytes").unwrap();
        drop(into);
        let from = Arc::new(OwnedFd::from(from));
        assert_eq!(sink.inner.work_of_write(), Work::Brief, "{sink:?}");
        assert!(sink.takes_pipes(), "{sink:?}");
        sink.take_pipe(Arc::clone(&from), 3, 5).await.unwrap();
        assert_eq!(rustix::io::read(&from, &mut [0; 1]), Ok(0), "{sink:?}");
        sink.finish(Finish::whole(8)).await.unwrap();
    }
    assert_eq!(std::fs::read(&name).unwrap(), b"\0\0\0bytes");

    let (_from, into) = std::io::pipe().unwrap();
    let pipe = FileSink::direct(File::from(OwnedFd::from(into))).unwrap();
    assert_eq!(pipe.inner.work_of_write(), Work::Long);
    assert!(!pipe.takes_pipes());
}

#[tokio::test]
async fn the_kernel_copies_a_range_of_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    std::fs::write(&from, b"0123456789").unwrap();
    let source = crate::FileSource::open(&from).await.unwrap();
    let range = |start, end| byte_ranges::Range64::new(start, end).unwrap();
    let whole = Create::Whole { size: None };
    let sink = FileSink::create(&to, whole, false).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"ab")).await.unwrap();
    sink.take_file(&source, range(4, 8)).await.unwrap();
    let beyond = sink.take_file(&source, range(8, 11)).await.unwrap_err();
    assert!(beyond.is_of_source);
    assert_eq!(beyond.error.kind(), ErrorKind::Changed);
    sink.finish(Finish::whole(10)).await.unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"ab\0\x00456789");

    let (_from, into) = std::io::pipe().unwrap();
    let pipe = FileSink::direct(File::from(OwnedFd::from(into))).unwrap();
    let refused = pipe.take_file(&source, range(0, 1)).await.unwrap_err();
    assert!(!refused.is_of_source);
    assert_eq!(refused.error.kind(), ErrorKind::Unsupported);
}

/// A program that is told to stop ends soon, and must leave no partial file behind.
#[tokio::test]
async fn a_file_is_removed_if_finish_is_dropped_while_it_is_hashed() {
    /// Takes longer to hash than the test waits.
    const SIZE: u64 = 1 << 33;
    const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);
    let piece = Bytes::from_static(b"abc");
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    let begun = std::time::Instant::now();
    for resumed in [false, true] {
        let how = Create::Resume { size: None };
        let mut sink = FileSink::create(&name, how, false).await.unwrap();
        sink.write_at(SIZE - 3, piece.clone()).await.unwrap();
        if resumed {
            let held = RangeSet::up_to(SIZE);
            sink.checkpoint(&held, false).await.unwrap();
            drop(sink);
            sink = FileSink::create(&name, how, false).await.unwrap();
        }
        // In a resumed file, the first block stays in memory until a second one.
        sink.write_at(0, piece.clone()).await.unwrap();
        let done = Finish::whole(SIZE).with_checksum(ChecksumAlgorithm::Sha512, "");
        let hashing = async {
            while !crate::blocking::is_hashing() {
                assert!(begun.elapsed() < LIMIT, "no digest is computed in turns");
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = sink.finish(done) => panic!("it ends too early"),
            () = hashing => {}
        }
        let is_left = || {
            let names = std::fs::read_dir(dir.path()).unwrap().count();
            // A recorded partial file stays for another upload.
            names > if resumed { 2 } else { 0 }
        };
        while crate::blocking::is_hashing() || is_left() {
            assert!(begun.elapsed() < LIMIT, "the file still exists");
            std::thread::yield_now();
        }
    }
}

/// The names of the files in `dir`, in order.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn values_of_groups_outlive_the_sink_and_not_the_bytes() {
    const GROUP: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let open = async |time| {
        let origin = Origin::new(b"ftp://host/file", 4 * GROUP as u64, (time, 0)).unwrap();
        FileSink::resume(&path, origin, false).await.unwrap()
    };
    let values: Vec<GroupValue> = (0..4).map(|number| (number, [7; 32])).collect();
    let all = RangeSet::up_to(4 * GROUP as u64);
    let sink = open(1).await;
    for number in 0..4 {
        let block = Bytes::from(vec![1; GROUP]);
        sink.write_at((number * GROUP) as u64, block).await.unwrap();
    }
    sink.note_groups(values.clone());
    sink.checkpoint(&RangeSet::up_to(3 * GROUP as u64), true)
        .await
        .unwrap();
    drop(sink);
    let sums = ".file.gridftp-sums".to_owned();
    assert!(names(dir.path()).contains(&sums));
    let sink = open(1).await;
    assert_eq!(sink.groups(&all).await.unwrap().unwrap(), values[..3]);
    // The record of the ranges is the older one, as after a kill.
    let other = Bytes::from(vec![2; 100_000]);
    sink.write_at(GROUP as u64 + 9, other).await.unwrap();
    drop(sink);
    let sink = open(1).await;
    assert_eq!(sink.groups(&all).await.unwrap().unwrap(), [values[0]]);
    drop(sink);
    let sink = open(2).await;
    assert!(sink.is_other_removed());
    assert_eq!(sink.groups(&all).await.unwrap().unwrap(), []);
    assert!(!names(dir.path()).contains(&sums));
    sink.write_at(0, Bytes::from_static(b"anew")).await.unwrap();
    sink.finish(Finish::whole(4)).await.unwrap();
    assert_eq!(names(dir.path()), ["file"]);
}

#[tokio::test]
async fn a_small_file_without_groups_gets_no_partial_file() {
    let dir = tempfile::tempdir().unwrap();
    let how = Create::Whole { size: Some(3) };
    let sink = FileSink::create(&dir.path().join("file"), how, false)
        .await
        .unwrap();
    let none = sink.groups(&RangeSet::new()).await.unwrap();
    assert_eq!(none, Some(Vec::new()));
    sink.note_groups(Vec::new());
    assert!(names(dir.path()).is_empty());
    sink.finish(Finish::whole(0)).await.unwrap();
}

/// The record of a file without a hole at its end waits for no write.
#[tokio::test]
async fn holes_before_data_lock_out_no_write() {
    let dir = tempfile::tempdir().unwrap();
    let how = Create::Whole { size: None };
    let sink = FileSink::create(&dir.path().join("file"), how, false)
        .await
        .unwrap();
    sink.leave_holes();
    sink.write_at(0, Bytes::from(vec![0; 1 << 20]))
        .await
        .unwrap();
    sink.write_at(1 << 20, Bytes::from_static(b"end"))
        .await
        .unwrap();
    assert!(sink.inner.leaves_holes().is_some_and(Holes::exist));
    let _write = sink.inner.enter().unwrap();
    let (settled, ended) = std::sync::mpsc::channel();
    let inner = Arc::clone(&sink.inner);
    std::thread::spawn(move || settled.send(inner.settle_holes().is_ok()));
    let ended = ended.recv_timeout(std::time::Duration::from_secs(10));
    assert_eq!(ended, Ok(true));
}

/// A checkpoint goes on when its future is dropped, as that of a transfer that fails meanwhile.
#[tokio::test]
async fn a_late_record_does_not_replace_one_of_fewer_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let how = Create::Whole { size: None };
    let name = dir.path().join("file");
    let sink = FileSink::create(&name, how, false).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"bytes"))
        .await
        .unwrap();
    for (number, held) in [(0, 4), (2, 1), (1, 5)] {
        let held = RangeSet::up_to(held);
        sink.inner.checkpoint(number, &held, false).unwrap();
    }
    drop(sink);
    let how = Create::Resume { size: None };
    let sink = FileSink::create(&name, how, false).await.unwrap();
    assert_eq!(sink.held(), RangeSet::up_to(1));
}

//! The bytes that outlive a restart of the machine, of an upload that waits for no sync.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gridftp_dsi::Create;
use rustix::fs::FlockOperation;
use tokio::time::timeout;

use super::*;
use crate::partial::{LEAST, flush};

const LIMIT: Duration = Duration::from_secs(20);
const ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc32c;

struct Bed {
    dir: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn path(&self, end: &str) -> PathBuf {
        self.dir.path().join(end)
    }

    /// Goes on with the file, with syncs by `flush`.
    async fn open(&self, flush: Flush) -> FileSink {
        let how = Create::Resume { size: None };
        let sink = FileSink::create(&self.path("file"), how, false).await;
        let sink = sink.unwrap();
        sink.sync_beside(flush);
        sink
    }

    /// The ranges that the next upload goes on with that announces a digest.
    async fn held(&self) -> RangeSet {
        let sink = self.open(flush).await;
        sink.will_check(ALGORITHM);
        sink.held()
    }

    /// Leaves an upload with this many bytes on the medium, behind a restart of the machine.
    async fn cut_off(&self, bytes: u64) {
        let sink = self.open(flush).await;
        record_and_sync(&sink, bytes).await;
        drop(sink);
        self.restart();
    }

    /// Leaves the ordinary record as one of an earlier start of the machine.
    fn restart(&self) {
        let path = self.path(".file.gridftp-held");
        change(&path, "lifetime ", "of-another-start");
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap().flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

/// Gives the line `key` of a record another value.
fn change(record: &Path, key: &str, value: &str) {
    let text = std::fs::read_to_string(record).unwrap();
    let (body, _) = text.rsplit_once("crc32c ").unwrap();
    let line = |line: &str| match line.starts_with(key) {
        true => format!("{key}{value}\n"),
        false => format!("{line}\n"),
    };
    let body: String = body.lines().map(line).collect();
    let sum = crc32c::crc32c(body.as_bytes());
    std::fs::write(record, format!("{body}crc32c {sum:08x}\n")).unwrap();
}

/// Writes the last byte before `end`, and records all bytes before it.
async fn record(sink: &FileSink, end: u64) {
    let byte = Bytes::from_static(b"x");
    sink.write_at(end - 1, byte).await.unwrap();
    sink.checkpoint(&RangeSet::up_to(end), false).await.unwrap();
}

fn wait_for(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "it does not happen");
        std::thread::yield_now();
    }
}

/// Whether a sync of the file is in progress, also behind the end of `sink`.
fn running(sink: &FileSink) -> impl Fn() -> bool + use<> {
    let Way::Whole(whole) = &sink.inner.way else {
        panic!("{sink:?}")
    };
    let synced = whole.partial().unwrap().synced();
    move || synced.is_running()
}

async fn record_and_sync(sink: &FileSink, end: u64) {
    record(sink, end).await;
    let is_running = running(sink);
    wait_for(|| !is_running());
}

#[tokio::test]
async fn synced_ranges_outlive_a_restart_of_the_machine() {
    let bed = Bed::new();
    let sink = bed.open(flush).await;
    record(&sink, LEAST - 1).await;
    assert!(!running(&sink)(), "few bytes are not synced");
    record_and_sync(&sink, LEAST).await;
    record_and_sync(&sink, LEAST + 10).await;
    drop(sink);
    assert_eq!(bed.held().await, RangeSet::up_to(LEAST + 10));
    bed.restart();
    assert_eq!(bed.held().await, RangeSet::up_to(LEAST));
    // A file system may leave the names of unsynced files, without their bytes.
    std::fs::write(bed.path(".file.gridftp-held"), "").unwrap();
    let dir = std::fs::File::open(bed.path("")).unwrap().into();
    let (_, listed) = crate::kept::recorded(&dir, b".file.gridftp-part").unwrap();
    assert_eq!(listed.unwrap().held, RangeSet::up_to(LEAST));
    assert_eq!(bed.held().await, RangeSet::up_to(LEAST));
    // The next upload begins with that record.
    let sink = bed.open(flush).await;
    record_and_sync(&sink, 2 * LEAST).await;
    drop(sink);
    bed.restart();
    assert_eq!(bed.held().await, RangeSet::up_to(2 * LEAST));
    // Another file with the same number.
    change(&bed.path(".file.gridftp-sync"), "born ", "1 2");
    assert_eq!(bed.held().await, RangeSet::new());
    assert!(bed.names().is_empty(), "{:?}", bed.names());
}

#[tokio::test]
async fn synced_ranges_are_of_use_with_a_digest_only() {
    let bed = Bed::new();
    bed.cut_off(LEAST).await;
    let digest = {
        let file = std::fs::File::open(bed.path(".file.gridftp-part")).unwrap();
        crate::checksum::of_file(file.as_fd(), ALGORITHM).unwrap()
    };
    let sink = bed.open(flush).await;
    assert_eq!(sink.held(), RangeSet::new());
    sink.will_check(ALGORITHM);
    assert_eq!(sink.held(), RangeSet::up_to(LEAST));
    // The values of groups of a file that has to be read prove nothing.
    assert_eq!(sink.groups(&sink.held()).await.unwrap(), None);
    assert_eq!(sink.groups(&RangeSet::new()).await.unwrap(), None);
    // Its own record, which is valid now, is no proof either.
    sink.checkpoint(&RangeSet::up_to(LEAST), false)
        .await
        .unwrap();
    drop(sink);
    assert_eq!(bed.open(flush).await.held(), RangeSet::new());
    assert_eq!(bed.held().await, RangeSet::up_to(LEAST));
    let sink = bed.open(flush).await;
    let done = Finish::whole(LEAST).with_checksum(ALGORITHM, digest);
    sink.finish(done).await.unwrap();
    assert_eq!(bed.names(), ["file"]);
}

#[tokio::test]
async fn synced_ranges_without_their_digest_are_neither_published_nor_kept() {
    let bed = Bed::new();
    let wrong = Finish::whole(LEAST).with_checksum(ALGORITHM, "00000000");
    for done in [Finish::whole(LEAST), wrong] {
        bed.cut_off(LEAST).await;
        let sink = bed.open(flush).await;
        // Written as by one that takes it for new.
        record(&sink, LEAST).await;
        sink.finish(done).await.unwrap_err();
        assert!(bed.names().is_empty(), "{:?}", bed.names());
    }
}

#[tokio::test]
async fn the_record_names_no_more_than_a_later_one_of_all_ranges() {
    let bed = Bed::new();
    let sink = bed.open(flush).await;
    record_and_sync(&sink, 2 * LEAST).await;
    let some = RangeSet::up_to(LEAST);
    sink.checkpoint(&some, false).await.unwrap();
    let is_running = running(&sink);
    wait_for(|| !is_running());
    drop(sink);
    bed.restart();
    assert_eq!(bed.held().await, some);
}

#[tokio::test]
async fn a_sync_of_ranges_that_are_given_up_leaves_no_record() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static GO_ON: AtomicBool = AtomicBool::new(false);
    fn held_up(_: &OwnedFd) -> std::result::Result<(), Errno> {
        BEGUN.store(true, Ordering::Release);
        wait_for(|| GO_ON.load(Ordering::Acquire));
        Ok(())
    }
    let bed = Bed::new();
    let sink = bed.open(held_up).await;
    record(&sink, LEAST).await;
    wait_for(|| BEGUN.load(Ordering::Acquire));
    sink.checkpoint(&RangeSet::up_to(LEAST - 1), false)
        .await
        .unwrap();
    GO_ON.store(true, Ordering::Release);
    let is_running = running(&sink);
    wait_for(|| !is_running());
    let synced = ".file.gridftp-sync".to_owned();
    assert!(!bed.names().contains(&synced));
    record_and_sync(&sink, LEAST).await;
    assert!(bed.names().contains(&synced));
}

#[tokio::test]
async fn an_end_waits_for_no_sync_and_leaves_no_record() {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    fn hangs(_: &OwnedFd) -> std::result::Result<(), Errno> {
        wait_for(|| GO_ON.load(Ordering::Acquire));
        Ok(())
    }
    let bed = Bed::new();
    let sink = bed.open(hangs).await;
    record(&sink, LEAST).await;
    let first = running(&sink);
    assert!(first());
    // Nor do records and writes, or the next upload behind a break.
    timeout(LIMIT / 2, record(&sink, LEAST + 1)).await.unwrap();
    drop(sink);
    let sink = timeout(LIMIT / 2, bed.open(hangs)).await.unwrap();
    assert_eq!(sink.held(), RangeSet::up_to(LEAST + 1));
    record(&sink, LEAST + 2).await;
    let second = running(&sink);
    assert!(first() && second());
    let done = Finish::whole(LEAST + 2);
    timeout(LIMIT / 2, sink.finish(done))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(bed.names(), ["file"]);
    GO_ON.store(true, Ordering::Release);
    wait_for(|| !first() && !second());
    assert_eq!(bed.names(), ["file"]);
}

#[tokio::test]
async fn a_shared_upload_leaves_the_record_of_another() {
    let bed = Bed::new();
    let sink = bed.open(flush).await;
    record_and_sync(&sink, LEAST).await;
    let how = Create::Whole { size: None };
    let other = FileSink::create(&bed.path("file"), how, false).await;
    let other = other.unwrap();
    other.share(None).await.unwrap();
    drop(other);
    drop(sink);
    bed.restart();
    assert_eq!(bed.held().await, RangeSet::up_to(LEAST));
}

#[tokio::test]
async fn lost_bytes_are_not_continued() {
    static SYNCS: AtomicU64 = AtomicU64::new(0);
    fn fails(_: &OwnedFd) -> std::result::Result<(), Errno> {
        Err(Errno::IO)
    }
    fn fails_later(_: &OwnedFd) -> std::result::Result<(), Errno> {
        match SYNCS.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(Errno::IO),
        }
    }
    let bed = Bed::new();
    for (flush, end, left) in [
        (fails as Flush, LEAST, RangeSet::new()),
        (fails_later as Flush, 2 * LEAST, RangeSet::up_to(LEAST)),
    ] {
        let sink = bed.open(flush).await;
        if !left.is_empty() {
            record_and_sync(&sink, LEAST).await;
        }
        let byte = Bytes::from_static(b"x");
        sink.write_at(end - 1, byte.clone()).await.unwrap();
        // The sync may fail before this ends.
        drop(sink.checkpoint(&RangeSet::up_to(end), false).await);
        let is_running = running(&sink);
        wait_for(|| !is_running());
        sink.write_at(end, byte).await.unwrap_err();
        sink.finish(Finish::whole(end)).await.unwrap_err();
        assert_eq!(bed.names().is_empty(), left.is_empty());
        assert_eq!(bed.held().await, left);
    }
}

#[tokio::test]
async fn an_upload_fails_for_space_as_its_sync_does() {
    fn is_full(_: &OwnedFd) -> std::result::Result<(), Errno> {
        Err(Errno::NOSPC)
    }
    let bed = Bed::new();
    let sink = bed.open(is_full).await;
    let byte = Bytes::from_static(b"x");
    sink.write_at(LEAST - 1, byte.clone()).await.unwrap();
    // The sync may fail before this ends.
    drop(sink.checkpoint(&RangeSet::up_to(LEAST), false).await);
    let is_running = running(&sink);
    wait_for(|| !is_running());
    let error = sink.write_at(LEAST, byte).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    drop(sink);
    assert!(bed.names().is_empty(), "{:?}", bed.names());
}

#[tokio::test]
async fn bytes_that_are_lost_behind_a_break_are_not_continued() {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    fn fails_late(_: &OwnedFd) -> std::result::Result<(), Errno> {
        wait_for(|| GO_ON.load(Ordering::Acquire));
        Err(Errno::IO)
    }
    let bed = Bed::new();
    let sink = bed.open(fails_late).await;
    record(&sink, LEAST).await;
    let is_running = running(&sink);
    drop(sink);
    // As a list of the partial files has it.
    let listed = std::fs::File::open(bed.path(".file.gridftp-part")).unwrap();
    rustix::fs::flock(&listed, FlockOperation::NonBlockingLockShared).unwrap();
    GO_ON.store(true, Ordering::Release);
    wait_for(|| !is_running());
    drop(listed);
    assert_eq!(bed.held().await, RangeSet::new());
}

#[tokio::test]
async fn synced_bytes_that_an_end_cut_off_leave_the_record() {
    let bed = Bed::new();
    let sink = bed.open(flush).await;
    record_and_sync(&sink, 2 * LEAST).await;
    // A directory cannot be replaced.
    std::fs::create_dir(bed.path("file")).unwrap();
    sink.finish(Finish::whole(LEAST)).await.unwrap_err();
    std::fs::remove_dir(bed.path("file")).unwrap();
    let sink = bed.open(flush).await;
    assert_eq!(sink.held(), RangeSet::up_to(LEAST));
    let bytes = Bytes::from(vec![1; 100_000]);
    sink.write_at(3 * LEAST, bytes).await.unwrap();
    drop(sink);
    bed.restart();
    assert_eq!(bed.held().await, RangeSet::new());
}

//! The storage suite over a directory of this machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, SystemTime};

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{
    ChecksumAlgorithm, Create, Dsi, DsiPath, ErrorKind, Finish, Listing as _, Sink as _, User,
};
use gridftp_dsi_object::{Config, Objects};

#[tokio::test]
async fn a_local_directory_is_a_store() {
    // On a memory file system if there is one, since every part is synced.
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mut config = Config::new(
        format!("file://{}", root.display()),
        dir.path().join("index"),
    );
    config.part = Some(64 << 10);
    let store = Objects::open(&config).unwrap();
    let report = xio_testkit::dsi_suite::run(&store).await;
    assert!(report.passed.len() > 20, "{report:?}");
}

/// A store of parts of 64 KiB in a folder.
fn small_parts(dir: &std::path::Path) -> Objects {
    store_of_parts(dir, 64 << 10)
}

/// A store of parts of so many bytes in a folder.
fn store_of_parts(dir: &std::path::Path, part: u64) -> Objects {
    let root = dir.join("root");
    std::fs::create_dir(&root).unwrap();
    let mut config = Config::new(format!("file://{}", root.display()), dir.join("index"));
    config.part = Some(part);
    Objects::open(&config).unwrap()
}

/// The digest of parts is known only after they are published.
#[tokio::test]
async fn a_digest_of_parts_costs_no_older_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_parts(dir.path());
    let user = User::new("ann", DsiPath::root(), true);
    let path = DsiPath::new(b"/f").unwrap();
    let put = async |finish: Finish| {
        let how = Create::Whole {
            size: Some(128 << 10),
        };
        let sink = store.write(&user, &path, how).await.unwrap();
        for part in 0..2 {
            let data = Bytes::from(vec![7; 64 << 10]);
            sink.write_at(part << 16, data).await.unwrap();
        }
        sink.finish(finish).await
    };
    put(Finish::whole(128 << 10)).await.unwrap();
    let wrong = Finish::whole(128 << 10).with_checksum(ChecksumAlgorithm::Sha256, "00");
    let refused = put(wrong).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert_eq!(store.stat(&user, &path).await.unwrap().size, 128 << 10);
}

#[tokio::test]
async fn a_digest_announced_before_the_parts_is_checked_before_they_replace_anything() {
    const PART: usize = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let store = small_parts(dir.path());
    let user = User::new("ann", DsiPath::root(), true);
    let path = DsiPath::new(b"/f").unwrap();
    let put = async |byte: u8, digest: &str| {
        let size = Some(3 * PART as u64);
        let sink = store.write(&user, &path, Create::Whole { size }).await;
        let sink = sink.unwrap();
        sink.will_check(ChecksumAlgorithm::Md5);
        let part = |index: usize| sink.write_at((index * PART) as u64, vec![byte; PART].into());
        let (last, first, middle) = tokio::join!(part(2), part(0), part(1));
        last.and(first).and(middle).unwrap();
        let done = Finish::whole(3 * PART as u64);
        let done = done.with_checksum(ChecksumAlgorithm::Md5, digest);
        sink.finish(done).await
    };
    let digest = |byte: u8| {
        let mut hasher = gridftp_dsi::hasher::Hasher::new(ChecksumAlgorithm::Md5).unwrap();
        hasher.update(&vec![byte; 3 * PART]);
        hasher.finish()
    };
    let published = || std::fs::read(dir.path().join("root/f")).unwrap();
    for byte in [7, 8] {
        put(byte, &digest(byte)).await.unwrap();
        assert!(published() == vec![byte; 3 * PART]);
    }
    let refused = put(9, &digest(7)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch, "{refused}");
    assert!(published() == vec![8; 3 * PART], "the old object is lost");
    let left = |name: &str| dir.path().join(name).read_dir().unwrap().count();
    assert_eq!((left("root"), left("index")), (1, 0), "parts are left");
}

/// A client announces any size; parts of it would take the memory of the server.
#[tokio::test]
async fn a_size_that_no_store_takes_is_refused_before_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_parts(dir.path());
    let user = User::new("ann", DsiPath::root(), true);
    let path = DsiPath::new(b"/f").unwrap();
    let how = Create::Whole {
        size: Some(9 << 60),
    };
    let refused = store.write(&user, &path, how).await;
    assert!(matches!(refused, Err(error) if error.kind() == ErrorKind::TooLarge));
}

/// Names and files that are no objects stand in the directory beside those that are.
#[tokio::test]
async fn what_is_no_object_hides_and_holds_up_none() {
    use std::os::unix::ffi::OsStrExt as _;

    let dir = tempfile::tempdir().unwrap();
    let store = small_parts(dir.path());
    let root = dir.path().join("root");
    for name in [&b"a#b%41"[..], b"line\nfeed", b"\xff", b"part#17"] {
        std::fs::write(root.join(std::ffi::OsStr::from_bytes(name)), "bytes").unwrap();
    }
    std::fs::create_dir(root.join("dir")).unwrap();
    std::os::unix::fs::symlink("nothing", root.join("link")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), fifo, mode, 0).unwrap();
    let user = User::new("ann", DsiPath::root(), true);
    let mut listing = store.list(&user, &DsiPath::root()).await.unwrap();
    let mut names: Vec<_> = listing
        .next()
        .await
        .unwrap()
        .into_iter()
        .map(|stat| stat.name)
        .collect();
    names.sort();
    assert_eq!(names, [&b"a#b%41"[..], b"dir"]);
    let path = DsiPath::new(b"/fifo").unwrap();
    let answers = async {
        let stat = store.stat(&user, &path).await.map(drop);
        let open = store.read(&user, &path).await.map(drop);
        // Nor does it hold up an upload to its name.
        let sink = store
            .write(&user, &path, Create::Whole { size: None })
            .await;
        let sink = sink.unwrap();
        sink.write_at(0, Bytes::from_static(b"new")).await.unwrap();
        let put = sink.finish(Finish::whole(3).exclusive()).await.map(drop);
        [stat, open, put].map(|done| done.unwrap_err().kind())
    };
    let limit = Duration::from_secs(30);
    let answers = tokio::time::timeout(limit, answers).await;
    let [stat, open, put] = answers.expect("a FIFO is waited for");
    assert_eq!([stat, open], [ErrorKind::NotFound; 2]);
    assert_eq!(put, ErrorKind::Exists);
}

/// The only journal of a store.
fn journal(dir: &std::path::Path) -> std::fs::File {
    let mut index = std::fs::read_dir(dir.join("index")).unwrap();
    std::fs::File::open(index.next().unwrap().unwrap().path()).unwrap()
}

fn date_journal(dir: &std::path::Path, time: SystemTime) {
    journal(dir).set_modified(time).unwrap();
}

/// Long enough ago for a process to be frozen.
fn before() -> SystemTime {
    SystemTime::now() - Duration::from_secs(5)
}

/// The first process is frozen, and goes on later. The clock of the runtime stands, or the first sink
/// would touch its journal.
#[tokio::test(start_paused = true)]
async fn an_upload_is_taken_over_from_a_frozen_process() {
    const PART: u64 = 64 << 10;
    for recorded in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let store = small_parts(dir.path());
        let user = User::new("ann", DsiPath::root(), true);
        let path = DsiPath::new(b"/f").unwrap();
        let size = Some(3 * PART);
        let part = |byte: u8| Bytes::from(vec![byte; 64 << 10]);
        let first = store.write(&user, &path, Create::Whole { size }).await;
        let first = first.unwrap();
        first.write_at(0, part(1)).await.unwrap();
        let held: RangeSet = Range64::new(0, recorded * PART).into_iter().collect();
        first.checkpoint(&held, true).await.unwrap();
        let resume = || store.write(&user, &path, Create::Resume { size });
        date_journal(dir.path(), SystemTime::now());
        let busy = resume().await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        date_journal(dir.path(), before());
        let second = resume().await.unwrap();
        assert_eq!(second.held(), held);
        for at in recorded..3 {
            second.write_at(at * PART, part(2)).await.unwrap();
        }
        for at in 1..3 {
            first.write_at(at * PART, part(1)).await.unwrap_err();
        }
        let lost = first.checkpoint(&held, true).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Changed, "{lost}");
        first.finish(Finish::whole(PART)).await.unwrap_err();
        let none = store.stat(&user, &path).await.unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
        second.finish(Finish::whole(3 * PART)).await.unwrap();
        let copied = std::fs::read(dir.path().join("root/f")).unwrap();
        let (kept, fresh) = copied.split_at(usize::try_from(recorded * PART).unwrap());
        assert!(kept.iter().all(|byte| *byte == 1) && fresh.iter().all(|byte| *byte == 2));
        assert_eq!(copied.len() as u64, 3 * PART);
        let index = std::fs::read_dir(dir.path().join("index")).unwrap();
        assert_eq!(index.count(), 0);
    }
}

/// Also one that has just continued it, behind a long time without an owner.
#[tokio::test(start_paused = true)]
async fn an_upload_at_work_is_not_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_parts(dir.path());
    let user = User::new("ann", DsiPath::root(), true);
    let path = DsiPath::new(b"/f").unwrap();
    let size = Some(128 << 10);
    let resume = || store.write(&user, &path, Create::Resume { size });
    let sink = resume().await.unwrap();
    sink.write_at(0, vec![1; 64 << 10].into()).await.unwrap();
    let held: RangeSet = Range64::new(0, 64 << 10).into_iter().collect();
    sink.checkpoint(&held, true).await.unwrap();
    drop(sink);
    date_journal(dir.path(), before());
    let sink = resume().await.unwrap();
    assert_eq!(resume().await.unwrap_err().kind(), ErrorKind::Busy);
    let dated = before();
    date_journal(dir.path(), dated);
    // The clock of the runtime goes on at once, and stands while the heartbeat touches the file.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let touched = journal(dir.path()).metadata().unwrap();
    assert!(touched.modified().unwrap() > dated + Duration::from_secs(1));
    assert_eq!(resume().await.unwrap_err().kind(), ErrorKind::Busy);
    drop(sink);
}

/// The values of the groups of an upload outlive it, and those of parts that are not named are forgotten.
#[tokio::test]
async fn an_upload_that_goes_on_has_the_values_of_its_groups() {
    const PART: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = store_of_parts(dir.path(), PART);
    let user = User::new("ann", DsiPath::root(), true);
    let path = DsiPath::new(b"/f").unwrap();
    let size = Some(4 * PART + 5);
    let value = |number: u8| (u64::from(number), [number; 32]);
    let parts = |parts: &[u64]| -> RangeSet {
        let part = |index: &u64| Range64::from_len(index * PART, PART);
        parts.iter().filter_map(part).collect()
    };
    let none = RangeSet::new();

    let sink = store
        .write(&user, &path, Create::Whole { size })
        .await
        .unwrap();
    assert_eq!(sink.groups(&none).await.unwrap(), Some(Vec::new()));
    for (index, len) in [(0, 2 << 20), (1, 2 << 20), (3, 2 << 20), (4, 5)] {
        let data = Bytes::from(vec![7; len]);
        sink.write_at(index * PART, data).await.unwrap();
    }
    sink.note_groups((0..8).map(value).collect());
    sink.checkpoint(&parts(&[0, 1, 3]), true).await.unwrap();
    // Of the last bytes no value is recorded, so they come again.
    let mut all = parts(&[0, 1, 3]);
    all.extend(Range64::from_len(4 * PART, 5));
    let refused = sink.checkpoint(&all, true).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    assert_eq!(sink.held(), parts(&[0, 1, 3]));
    // A part that differs is taken back.
    sink.checkpoint(&parts(&[0, 3]), true).await.unwrap();
    drop(sink);

    let held = store.held(&user, &path).await.unwrap();
    assert_eq!(held, parts(&[0, 3]));
    let resume = async || {
        store
            .write(&user, &path, Create::Resume { size })
            .await
            .unwrap()
    };
    let sink = resume().await;
    let values = sink.groups(&held).await.unwrap().unwrap();
    assert_eq!(values, [0, 1, 6, 7].map(value));
    // They may be asked for in pages.
    let some = sink.groups(&parts(&[3])).await.unwrap().unwrap();
    assert_eq!(some, [6, 7].map(value));
    drop(sink);
    // Without values, as of an upload that is not tagged, no part is forgotten.
    let sink = resume().await;
    sink.note_groups(Vec::new());
    sink.checkpoint(&parts(&[0]), true).await.unwrap();
    assert_eq!(sink.held(), held);
}

/// Bytes of an earlier part that come again are not stored, and no value of theirs is recorded.
#[tokio::test]
async fn a_part_of_an_earlier_attempt_gets_no_values() {
    const PART: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = store_of_parts(dir.path(), PART);
    let user = User::new("ann", DsiPath::root(), true);
    let path = DsiPath::new(b"/f").unwrap();
    let size = Some(4 * PART);
    let put = async |sink: &gridftp_dsi_object::ObjectSink, index: u64| {
        let data = Bytes::from(vec![7; 2 << 20]);
        sink.write_at(index * PART, data).await.unwrap();
    };
    let sink = store.write(&user, &path, Create::Whole { size }).await;
    let sink = sink.unwrap();
    put(&sink, 0).await;
    let first = RangeSet::up_to(PART);
    sink.checkpoint(&first, true).await.unwrap();
    drop(sink);
    for found in [Vec::new(), vec![(2, [2; 32]), (3, [3; 32])]] {
        let sink = store.write(&user, &path, Create::Resume { size }).await;
        let sink = sink.unwrap();
        let held = sink.held();
        assert_eq!(sink.groups(&held).await.unwrap(), Some(found));
        put(&sink, 1).await;
        let values = (0..4_u8).map(|number| (u64::from(number), [number; 32]));
        sink.note_groups(values.collect());
        sink.checkpoint(&RangeSet::up_to(2 * PART), true)
            .await
            .unwrap();
    }
}

//! Runs one after another that find the finished files of those before, and of no other version.

use super::*;
use crate::partials::OLD;

fn job(name: &str, size: u64) -> FileJob {
    let facts = Facts {
        size: Some(size),
        modified: Some((5, 7)),
        mode: Some(0o644),
    };
    FileJob::new(name.into(), format!("/to/{name}").into()).with_facts(facts)
}

fn there(size: u64, seconds: i64) -> Facts {
    Facts {
        size: Some(size),
        modified: Some((seconds, 0)),
        mode: None,
    }
}

/// Those of files at servers.
const NO_CHANGES: Changes = [None, None];

async fn begin(dir: &Path, key: &str, lasts: bool) -> DoneRecord {
    DoneRecord::begin(dir, key, lasts).await.unwrap()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn the_next_run_knows_the_finished_files_and_no_other_version() {
    let dir = tempfile::tempdir().unwrap();
    let record = begin(dir.path(), "key", true).await;
    record.add(&job("a", 3), &there(3, 9), NO_CHANGES);
    record.keep().await;
    assert!(
        !record.holds(&job("a", 3), &there(3, 9), NO_CHANGES),
        "it is its own"
    );
    drop(record);
    let next = begin(dir.path(), "key", true).await;
    assert!(next.holds(&job("a", 3), &there(3, 9), NO_CHANGES));
    let mut touched = job("a", 3);
    touched.facts.modified = Some((5, 8));
    let mut timeless = job("a", 3);
    timeless.facts.modified = None;
    for (other, there) in [
        (job("b", 3), there(3, 9)),
        (job("a", 4), there(4, 9)),
        (job("a", 3), there(4, 9)),
        (job("a", 3), there(3, 10)),
        (touched, there(3, 9)),
        (timeless, there(3, 9)),
    ] {
        assert!(
            !next.holds(&other, &there, NO_CHANGES),
            "{other:?} {there:?}"
        );
    }
    drop(next);
    let other = begin(dir.path(), "other", true).await;
    assert!(
        !other.holds(&job("a", 3), &there(3, 9), NO_CHANGES),
        "of another copy"
    );
}

#[tokio::test]
async fn a_torn_line_leaves_those_before_it_and_the_next_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let record = begin(dir.path(), "key", true).await;
    record.add(&job("a", 1), &there(1, 9), NO_CHANGES);
    record.add(&job("b", 1), &there(1, 9), NO_CHANGES);
    record.keep().await;
    drop(record);
    let path = files(dir.path()).remove(0);
    let len = std::fs::metadata(&path).unwrap().len();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(len - 5).unwrap();
    drop(file);
    let next = begin(dir.path(), "key", true).await;
    next.add(&job("c", 1), &there(1, 9), NO_CHANGES);
    next.keep().await;
    drop(next);
    let last = begin(dir.path(), "key", true).await;
    let held = ["a", "b", "c"].map(|name| last.holds(&job(name, 1), &there(1, 9), NO_CHANGES));
    assert_eq!(held, [true, false, true]);
    last.remove().await;
    assert!(files(dir.path()).is_empty());
}

#[tokio::test]
async fn what_is_not_synced_counts_in_its_boot_only() {
    let dir = tempfile::tempdir().unwrap();
    let record = begin(dir.path(), "key", false).await;
    record.add(&job("a", 1), &there(1, 9), NO_CHANGES);
    record.keep().await;
    drop(record);
    let same = begin(dir.path(), "key", false).await;
    assert!(same.holds(&job("a", 1), &there(1, 9), NO_CHANGES));
    drop(same);
    let path = files(dir.path()).remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    let boot = file::lifetime(false).unwrap();
    std::fs::write(&path, text.replace(&boot, "another boot")).unwrap();
    let next = begin(dir.path(), "key", false).await;
    assert!(!next.holds(&job("a", 1), &there(1, 9), NO_CHANGES));
}

#[tokio::test]
async fn a_record_is_bounded_and_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let record = begin(dir.path(), "key", true).await;
    lock(&record.shared.waiting).count = MOST - 1;
    for name in ["a", "b"] {
        record.add(&job(name, 1), &there(1, 9), NO_CHANGES);
    }
    record.keep().await;
    let second = begin(dir.path(), "key", true).await;
    assert!(second.earlier.is_empty(), "the first has it locked");
    second.add(&job("c", 1), &there(1, 9), NO_CHANGES);
    second.keep().await;
    second.remove().await;
    drop(record);
    let next = begin(dir.path(), "key", true).await;
    assert_eq!(next.earlier.len(), 1);
}

#[tokio::test]
async fn an_old_record_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let record = begin(dir.path(), "key", true).await;
    record.add(&job("a", 1), &there(1, 9), NO_CHANGES);
    record.keep().await;
    drop(record);
    let path = files(dir.path()).remove(0);
    let old = SystemTime::now() - OLD - Duration::from_secs(60);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(old).unwrap();
    drop(file);
    begin(dir.path(), "other", true).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_was_exchanged_is_not_held() {
    for name in ["from", "to"] {
        let dir = tempfile::tempdir().unwrap();
        let ends = ["from", "to"].map(|name| dir.path().join(name));
        for end in &ends {
            std::fs::write(end, "old").unwrap();
        }
        let [from, to] = ends.map(|end| end.into_os_string().into_encoded_bytes());
        let copied = FileJob::new(from, to).with_facts(job("", 3).facts);
        let notes = dir.path().join("notes");
        let mut shared = CopyState::plain();
        shared.done = Some(Arc::new(begin(&notes, "key", true).await));
        shared.record_done(&copied, Some(there(3, 9)));
        shared.done.take().unwrap().keep().await;
        let next = begin(&notes, "key", true).await;
        let is_held = || next.holds(&copied, &there(3, 9), shared.changes(&copied));
        assert!(is_held());
        // The size and the time that are told stay; the clock of the file system has to go on.
        let before = shared.changes(&copied);
        while shared.changes(&copied) == before {
            std::fs::write(dir.path().join(name), "new").unwrap();
        }
        assert!(!is_held(), "{name}");
    }
}

#[tokio::test]
async fn a_new_source_with_a_coarse_time_is_not_recorded() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_secs()).unwrap();
    for (seconds, nanos, coarse) in [(0, 0, true), (0, 1, false), (3600, 0, false)] {
        let mut job = job("a", 3);
        job.facts.modified = Some((now - seconds, nanos));
        assert_eq!(may_keep_its_time(&job), coarse, "{seconds} {nanos}");
    }
}

#[tokio::test]
async fn files_wait_for_a_server_that_does_not_sync() {
    let dir = tempfile::tempdir().unwrap();
    let record = begin(dir.path(), "key", true).await;
    record.shared.waits.store(true, Ordering::Relaxed);
    record.add(&job("lost", 1), &there(1, 9), NO_CHANGES);
    record.forget_unsynced();
    record.add(&job("a", 1), &there(1, 9), NO_CHANGES);
    let later = Instant::now() + WRITTEN_BACK + EVERY;
    let next = (later, Vec::new());
    lock(&record.shared.waiting).lines.push_back(next);
    record.add(&job("b", 1), &there(1, 9), NO_CHANGES);
    assert_eq!(record.shared.take(), (String::new(), true));
    lock(&record.shared.waiting).newest = Some(later);
    record.keep().await;
    drop(record);
    let next = begin(dir.path(), "key", true).await;
    let held = ["a", "b", "lost"].map(|name| next.holds(&job(name, 1), &there(1, 9), NO_CHANGES));
    assert_eq!(held, [true, false, false]);
}

/// Files that a server may lose in a restart count until it tells another boot.
#[tokio::test]
async fn a_boot_of_the_server_makes_lines_count_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let run = async |servers: &[(bool, Option<u128>)]| {
        let record = begin(dir.path(), "key", true).await;
        for (durable, boot) in servers.iter().copied() {
            let abilities = Abilities {
                durable,
                boot,
                ..Abilities::default()
            };
            record.note_server(&abilities);
        }
        record
    };
    for (name, servers) in [
        ("a", &[(false, Some(0))][..]),
        ("untold", &[(false, None)]),
        ("two", &[(false, Some(0)), (false, Some(8)), (true, None)]),
    ] {
        let record = run(servers).await;
        record.add(&job(name, 1), &there(1, 9), NO_CHANGES);
        record.forget_unsynced();
        record.keep().await;
    }
    for (boot, expected) in [(Some(0), true), (Some(8), false), (None, false)] {
        let next = run(&[(false, boot)]).await;
        let held =
            ["a", "untold", "two"].map(|name| next.holds(&job(name, 1), &there(1, 9), NO_CHANGES));
        assert_eq!(held, [expected, false, false], "{boot:?}");
    }
}

//! The records, restarts and removals of the index of uploads.

use byte_ranges::Range64;

use super::*;

fn upload(key: &str) -> Upload {
    Upload {
        key: Path::parse(key).unwrap(),
        id: format!("id of {key}"),
        part: 10,
    }
}

fn stored(id: &str, len: u64) -> Stored {
    Stored { id: id.into(), len }
}

/// A record of these parts.
fn fresh(parts: &[(usize, &Stored)]) -> Fresh {
    let parts = parts.iter();
    Fresh {
        parts: parts
            .map(|(index, part)| (*index, (*part).clone()))
            .collect(),
        ..Fresh::default()
    }
}

#[test]
fn values_are_those_of_the_last_parts() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), "s3://b").unwrap();
    let upload = Upload {
        part: 2 * GROUP,
        ..upload("a")
    };
    let mut journal = index.create(&upload, None, true).unwrap();
    let part = stored("x", 2 * GROUP);
    let mut first = fresh(&[(0, &part), (1, &part), (3, &part)]);
    first.values = (0..8).map(|n: u8| (u64::from(n), [n; 32])).collect();
    journal.record(&first, true).unwrap();
    let all = RangeSet::up_to(8 * GROUP);
    let numbers = |journal: &Journal, held| {
        let values = journal.values(upload.part, held).unwrap();
        assert!(
            values
                .iter()
                .all(|(n, value)| value.map(u64::from) == [*n; 32])
        );
        values.into_iter().map(|(n, _)| n).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&journal, &all), (0..8).collect::<Vec<_>>());
    let some: RangeSet = [(5, 3 * GROUP), (6 * GROUP, 8 * GROUP - 1)]
        .into_iter()
        .filter_map(|(start, end)| Range64::new(start, end))
        .collect();
    assert_eq!(numbers(&journal, &some), [1, 2, 6]);

    // One part comes again, and another one is taken back.
    let mut second = fresh(&[(1, &stored("y", 2 * GROUP))]);
    second.gone = vec![(3, part)];
    second.values = vec![(2, [2; 32])];
    journal.record(&second, false).unwrap();
    assert_eq!(numbers(&journal, &all), [0, 1, 2, 4, 5]);
    let kept = index.peek(&upload.key).unwrap().unwrap();
    assert_eq!(kept.parts.keys().collect::<Vec<_>>(), [&0, &1]);
    assert_eq!(kept.parts[&1].id, "y");
}

#[test]
fn recorded_parts_are_read_again_and_a_cut_line_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), "s3://b").unwrap();
    let upload = upload("a/é%");
    let mut journal = index.create(&upload, Some(99), true).unwrap();
    let parts = [stored("\"e1\"", 10), stored("<x>", 10)];
    journal
        .record(&fresh(&[(3, &parts[0]), (0, &parts[1])]), true)
        .unwrap();
    journal.file.write_all(b"{\"index\":1,\"id\":\"cu").unwrap();
    let kept = index.peek(&upload.key).unwrap().unwrap();
    assert_eq!((kept.size, &kept.upload), (Some(99), &upload));
    assert_eq!(kept.parts.keys().collect::<Vec<_>>(), [&0, &3]);
    assert_eq!(kept.parts[&3], parts[0]);
    let busy = index.lock(&upload.key).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
    drop(journal);
    let (mut journal, again) = index.lock(&upload.key).unwrap().unwrap();
    assert_eq!(again.as_ref(), Some(&kept));
    let more = fresh(&[(1, &parts[0])]);
    journal.record(&more, false).unwrap();
    let kept = index.peek(&upload.key).unwrap().unwrap();
    assert_eq!(kept.parts.keys().collect::<Vec<_>>(), [&0, &1, &3]);
    journal.remove().unwrap();
    assert!(index.lock(&upload.key).unwrap().is_none());
}

#[test]
fn a_journal_records_nothing_behind_a_failed_write() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), "s3://b").unwrap();
    let upload = upload("a");
    let mut journal = index.create(&upload, None, true).unwrap();
    let parts = fresh(&[(0, &stored("x", 10))]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let file = std::mem::replace(&mut journal.file, full);
    let failed = journal.record(&parts, true).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
    // There is room again, behind a line that may be cut off.
    journal.file = file;
    journal.record(&parts, true).unwrap_err();
    assert!(index.peek(&upload.key).unwrap().unwrap().parts.is_empty());
}

#[test]
fn the_sweep_takes_old_journals_of_its_store_alone() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), "s3://b").unwrap();
    let other = Index::open(dir.path(), "s3://c").unwrap();
    drop(index.create(&upload("a"), None, true).unwrap());
    drop(index.create(&upload("a"), None, false).unwrap());
    drop(other.create(&upload("a"), None, true).unwrap());
    let used = index.create(&upload("b"), None, true).unwrap();
    assert_eq!(index.stale(Duration::from_secs(60)).unwrap().len(), 0);
    assert_eq!(index.stale(Duration::ZERO).unwrap().len(), 2);
    drop(used);
}

#[test]
fn the_sweep_leaves_the_files_of_others_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), "s3://b").unwrap();
    let other = Index::open(dir.path(), "s3://c").unwrap();
    drop(other.create(&upload("a"), None, true).unwrap());
    let foreign = [
        "notes.upload".to_owned(),
        "0123456789abcdef".to_owned(),
        format!("{}.txt", "0".repeat(64)),
    ];
    for name in &foreign {
        std::fs::write(dir.path().join(name), "no end of a line").unwrap();
    }
    let facts = || {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let fact = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            (entry.file_name(), meta.modified().unwrap(), meta.len())
        };
        entries.map(fact).collect::<std::collections::BTreeSet<_>>()
    };
    let before = facts();
    assert!(index.stale(Duration::ZERO).unwrap().is_empty());
    assert_eq!(facts(), before);
}

#[test]
fn a_journal_that_a_crash_cut_anywhere_is_read_or_swept() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), "s3://b").unwrap();
    let upload = upload("a/é%");
    let mut journal = index.create(&upload, Some(99), true).unwrap();
    let part = stored("\"é\"", 10);
    let parts = fresh(&[(0, &part), (1, &part)]);
    journal.record(&parts, true).unwrap();
    let path = journal.path.clone();
    drop(journal);
    let text = std::fs::read(&path).unwrap();
    let ends = |cut: usize| text[..cut].iter().filter(|byte| **byte == b'\n').count();
    for cut in 0..text.len() {
        std::fs::write(&path, &text[..cut]).unwrap();
        let kept = index.peek(&upload.key).unwrap();
        assert_eq!(kept.is_some(), ends(cut) > 0, "{cut}");
        let many = kept.map_or(0, |kept| kept.parts.len());
        assert_eq!(many, ends(cut).saturating_sub(1), "{cut}");
        let stale = index.stale(Duration::ZERO).unwrap();
        assert_eq!(stale, std::slice::from_ref(&path), "{cut}");
        let taken = index.take(path.clone(), Duration::ZERO).unwrap();
        let (mut journal, _) = taken.unwrap();
        if ends(cut) > 0 {
            // The next line begins anew.
            journal.record(&parts, false).unwrap();
            let kept = index.peek(&upload.key).unwrap().unwrap();
            assert_eq!(kept.parts.len(), 2, "{cut}");
        }
    }
}

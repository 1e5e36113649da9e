//! The record of the files that the copy of a tree has finished, which the same copy leaves as they are
//! when it is started again.
//!
//! A line is a digest of the names of a file and of the facts of both ends: another version of either
//! end is not in the record. Behind its first broken line a record is cut off. What a power cut may
//! take from this machine counts until that only: the first line names the boot then.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::time::timeout;

use super::admission::Server;
use super::job::{Facts, FileJob};
use super::state::CopyState;
use super::{lock, notes};
use crate::manner::Target;
use crate::options::{CopyOptions, Resume};
use crate::partials::OLD;
use crate::url::Location;

const TITLE: &str = "gridftp-done 1 ";

/// Start of the names of records.
const PREFIX: &str = "done-";

/// Time from a finished file until its line is written, with those of the files behind it.
const EVERY: Duration = Duration::from_millis(500);

/// Time from which a server is asked for the facts of each file: a short copy is not worth a command
/// more for each, and together with [`EVERY`] a second of files is copied again.
const ASKING: Duration = Duration::from_millis(500);

/// Most lines of a record: the files behind them are copied again. 33 MiB, and 40 MB of memory.
const MOST: usize = 1 << 20;

/// Digits of a line, and its bytes.
const DIGITS: usize = 32;
const LINE: usize = DIGITS + 1;

/// Largest record that is read, in bytes.
const MAX_LEN: u64 = 36 << 20;

/// Longest wait for the file system of the record.
const SETTLING: Duration = Duration::from_secs(10);

/// The record of one copy, of this run and of those before it that did not complete the tree.
#[derive(Debug)]
pub(crate) struct DoneRecord {
    /// Start of this run.
    begun: Instant,
    /// The lines of those runs.
    earlier: HashSet<u128>,
    /// Whether the destination cannot be looked at.
    is_blind: AtomicBool,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// The first line.
    title: String,
    /// Whether the finished files outlive a power cut.
    lasts: bool,
    /// Held while the disk works; `waiting` never is.
    end: Mutex<End>,
    waiting: Mutex<Waiting>,
}

/// The end that is written.
#[derive(Debug)]
enum End {
    /// There is no file yet.
    None,
    Open(File),
    /// It cannot be written, or the tree is complete.
    Closed,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Lines that wait for the next write.
    lines: String,
    /// Lines in all.
    count: usize,
    /// Whether a write is to come.
    is_due: bool,
}

impl DoneRecord {
    /// The record of the copy of a tree; `None` where each run begins anew, compares what is there, or
    /// copies parts.
    pub(super) async fn of_run(
        sources: &[Location],
        destination: &Location,
        options: &CopyOptions,
    ) -> Option<Arc<Self>> {
        let notes = options.notes.as_ref()?;
        let in_part = options.offset.is_some() || options.length.is_some();
        let compares = options.manner.comparison().is_some() || options.no_clobber;
        let is_anew = options.resume == Resume::Never || options.dry_run;
        let is_pattern = |place: &Location| match place {
            Location::Remote(remote) => remote.pattern.is_some(),
            Location::Local(_) | Location::Stdio => false,
        };
        let is_tree = options.recursive || options.choice.names.is_some();
        if !is_tree && sources.len() < 2 && !sources.iter().any(is_pattern) {
            return None;
        }
        if in_part || compares || is_anew || options.connect.disk_stack.is_some() {
            return None;
        }
        let mut key = format!(
            "{} {:?} {:?} {:?} {} {} {}",
            rustix::system::uname().nodename().to_string_lossy(),
            options.links,
            options.verify,
            options.manner.backup_dir,
            options.preserve,
            options.xattrs,
            options.sparse,
        );
        for place in sources.iter().chain([destination]) {
            key.extend(["\n", &lasting(place)?]);
        }
        let is_here = !matches!(destination, Location::Remote(_));
        let lasts = !is_here || options.syncs();
        let begun = timeout(SETTLING, Self::begin(notes, &key, lasts));
        begun.await.ok()?.map(Arc::new)
    }

    /// Begins the record of the copy `key`, with the lines of the runs before; `lasts` says whether
    /// finished files outlive a power cut.
    async fn begin(notes: &Path, key: &str, lasts: bool) -> Option<Self> {
        let path = notes.join(format!("{PREFIX}{:032x}", digest(&[key.as_bytes()])?));
        let notes = notes.to_owned();
        let begun = tokio::task::spawn_blocking(move || {
            let title = format!("{TITLE}{}\n", lifetime(lasts)?);
            expire(&notes);
            let (mut end, mut earlier, mut count) = (End::None, HashSet::new(), 0);
            if let Some(mut file) = notes::open(&path, false) {
                let lines = read(&file, &title).unwrap_or_default();
                count = lines.len();
                earlier.extend(lines);
                start(&mut file, &title, count).ok()?;
                end = End::Open(file);
            }
            let waiting = Waiting {
                count,
                ..Waiting::default()
            };
            let shared = Shared {
                path,
                title,
                lasts,
                end: Mutex::new(end),
                waiting: Mutex::new(waiting),
            };
            Some(Self {
                begun: Instant::now(),
                earlier,
                is_blind: AtomicBool::new(false),
                shared: Arc::new(shared),
            })
        });
        begun.await.ok()?
    }

    /// Records a finished file, of which the destination tells the facts `there`.
    fn add(&self, job: &FileJob, there: &Facts) {
        let Some(line) = line(job, there) else {
            return;
        };
        let mut waiting = lock(&self.shared.waiting);
        if waiting.count >= MOST {
            return;
        }
        waiting.count += 1;
        let line = format!("{line:032x}\n");
        waiting.lines.push_str(&line);
        if !std::mem::replace(&mut waiting.is_due, true) {
            // A run that has ended does not keep its record locked.
            let shared = Arc::downgrade(&self.shared);
            tokio::spawn(async move {
                tokio::time::sleep(EVERY).await;
                if let Some(shared) = shared.upgrade() {
                    drop(tokio::task::spawn_blocking(move || shared.write()));
                }
            });
        }
    }

    /// Says whether a run before has finished this version of a file, and its destination tells the
    /// same facts since.
    fn holds(&self, job: &FileJob, there: &Facts) -> bool {
        line(job, there).is_some_and(|line| self.earlier.contains(&line))
    }

    /// Ends with a run behind which a file is missing.
    pub(super) async fn keep(&self) {
        let shared = Arc::clone(&self.shared);
        let written = tokio::task::spawn_blocking(move || shared.write());
        let _slow = timeout(SETTLING, written).await;
    }

    /// Ends with a run that completed the tree.
    pub(super) async fn remove(&self) {
        let shared = Arc::clone(&self.shared);
        let removed = tokio::task::spawn_blocking(move || shared.remove());
        let _slow = timeout(SETTLING, removed).await;
    }
}

impl Shared {
    /// Writes the lines that wait.
    fn write(&self) {
        let mut end = lock(&self.end);
        let mut waiting = lock(&self.waiting);
        waiting.is_due = false;
        let lines = std::mem::take(&mut waiting.lines);
        drop(waiting);
        if lines.is_empty() {
            return;
        }
        if matches!(*end, End::None) {
            *end = self.create().map_or(End::Closed, End::Open);
        }
        let End::Open(file) = &mut *end else {
            return;
        };
        let written = file.write_all(lines.as_bytes());
        let written = written.and_then(|()| match self.lasts {
            true => file.sync_data(),
            false => Ok(()),
        });
        if let Err(error) = written {
            tracing::debug!(%error, "the finished files are not recorded");
            *end = End::Closed;
        }
    }

    fn create(&self) -> Option<File> {
        std::fs::create_dir_all(self.path.parent()?).ok()?;
        let mut file = notes::open(&self.path, true)?;
        start(&mut file, &self.title, 0).ok()?;
        Some(file)
    }

    fn remove(&self) {
        let mut end = lock(&self.end);
        if matches!(*end, End::Open(_)) {
            let _ = std::fs::remove_file(&self.path);
        }
        *end = End::Closed;
    }
}

impl CopyState {
    /// Says whether a server is asked for the facts of a copy, for the record.
    pub(super) fn asks_of_done(&self) -> bool {
        let done = self.done.as_ref();
        done.is_some_and(|done| done.begun.elapsed() >= ASKING)
    }

    /// Records a finished file where its destination has told the facts `there`.
    pub(super) fn record_done(&self, job: &FileJob, there: Option<Facts>) {
        if let (Some(done), Some(there)) = (&self.done, there) {
            done.add(job, &there);
        }
    }

    /// Says whether a run before has finished a file, and both ends are as they were.
    pub(super) async fn was_done(&self, job: &FileJob, destination: Option<Server<'_>>) -> bool {
        let Some(done) = &self.done else {
            return false;
        };
        // A file that this run has begun to write is its own.
        let is_own = job.begun || job.is_again();
        if is_own || done.earlier.is_empty() || done.is_blind.load(Ordering::Relaxed) {
            return false;
        }
        match self.target(&job.to, destination).await {
            Ok(Target::File(there)) => done.holds(job, &there),
            Ok(Target::Nothing | Target::Link | Target::Other) => false,
            Err(error) => {
                // The copy does not depend on it.
                done.is_blind.store(true, Ordering::Relaxed);
                let what = "files of the run before are copied again";
                self.note(&format!("{what}: {error}"));
                false
            }
        }
    }
}

/// The line of a file with these facts at the destination; `None` where a size or a time is unknown,
/// or the sizes differ.
fn line(job: &FileJob, there: &Facts) -> Option<u128> {
    let size = job.facts.size.filter(|size| there.size == Some(*size))?;
    let (from, to) = (job.facts.modified?, there.modified?);
    let facts = format!("{size} {from:?} {:?} {to:?}", job.facts.mode);
    digest(&[&job.from, &job.to, facts.as_bytes()])
}

fn digest(parts: &[&[u8]]) -> Option<u128> {
    let mut hasher = Hasher::new(ChecksumAlgorithm::Blake3)?;
    for part in parts {
        hasher.update(&part.len().to_le_bytes());
        hasher.update(part);
    }
    u128::from_str_radix(hasher.finish().get(..DIGITS)?, 16).ok()
}

/// The name of a place whatever the working directory, and whether its contents are meant.
fn lasting(place: &Location) -> Option<String> {
    let name = match place {
        Location::Stdio => return None,
        Location::Local(path) => std::path::absolute(path).ok()?.as_os_str().to_owned(),
        Location::Remote(remote) => {
            let user = remote.site.user.as_deref().unwrap_or_default();
            format!("{user} {remote} {:?}", remote.pattern).into()
        }
    };
    Some(format!("{name:?} {}", place.means_contents()))
}

/// The time in which a record counts: for ever where finished files last, else until the machine
/// restarts; `None` where that is unknown.
fn lifetime(lasts: bool) -> Option<String> {
    if lasts {
        return Some("durable".to_owned());
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = boot.trim();
    (!boot.is_empty()).then(|| boot.to_owned())
}

/// Reads the lines before the first broken one; `None` of another lifetime.
fn read(file: &File, title: &str) -> Option<Vec<u128>> {
    let mut bytes = Vec::new();
    file.take(MAX_LEN).read_to_end(&mut bytes).ok()?;
    let lines = bytes.strip_prefix(title.as_bytes())?.chunks_exact(LINE);
    Some(lines.map_while(parse).take(MOST).collect())
}

fn parse(line: &[u8]) -> Option<u128> {
    let digits = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    u128::from_str_radix(digits, 16).ok()
}

/// Has the file end behind its title and `count` lines.
fn start(file: &mut File, title: &str, count: usize) -> std::io::Result<()> {
    if count == 0 {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        return file.write_all(title.as_bytes());
    }
    let end = title.len().saturating_add(count.saturating_mul(LINE));
    let end = u64::try_from(end).map_err(std::io::Error::other)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end)).map(drop)
}

/// Removes the records that nobody has continued for a week.
fn expire(notes: &Path) {
    for entry in std::fs::read_dir(notes).into_iter().flatten().flatten() {
        let modified = || entry.metadata().ok()?.modified().ok();
        let age = || modified()?.elapsed().ok();
        let name = entry.file_name();
        let is_record = name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !is_record || age().is_none_or(|age| age <= OLD) {
            continue;
        }
        let locked = notes::open(&entry.path(), false);
        if locked.is_some() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

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
        record.add(&job("a", 3), &there(3, 9));
        record.keep().await;
        assert!(!record.holds(&job("a", 3), &there(3, 9)), "it is its own");
        drop(record);
        let next = begin(dir.path(), "key", true).await;
        assert!(next.holds(&job("a", 3), &there(3, 9)));
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
            assert!(!next.holds(&other, &there), "{other:?} {there:?}");
        }
        drop(next);
        let other = begin(dir.path(), "other", true).await;
        assert!(!other.holds(&job("a", 3), &there(3, 9)), "of another copy");
    }

    #[tokio::test]
    async fn a_torn_line_leaves_those_before_it_and_the_next_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let record = begin(dir.path(), "key", true).await;
        record.add(&job("a", 1), &there(1, 9));
        record.add(&job("b", 1), &there(1, 9));
        record.keep().await;
        drop(record);
        let path = files(dir.path()).remove(0);
        let len = std::fs::metadata(&path).unwrap().len();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(len - 5).unwrap();
        drop(file);
        let next = begin(dir.path(), "key", true).await;
        next.add(&job("c", 1), &there(1, 9));
        next.keep().await;
        drop(next);
        let last = begin(dir.path(), "key", true).await;
        let held = ["a", "b", "c"].map(|name| last.holds(&job(name, 1), &there(1, 9)));
        assert_eq!(held, [true, false, true]);
        last.remove().await;
        assert!(files(dir.path()).is_empty());
    }

    #[tokio::test]
    async fn what_is_not_synced_counts_in_its_boot_only() {
        let dir = tempfile::tempdir().unwrap();
        let record = begin(dir.path(), "key", false).await;
        record.add(&job("a", 1), &there(1, 9));
        record.keep().await;
        drop(record);
        let same = begin(dir.path(), "key", false).await;
        assert!(same.holds(&job("a", 1), &there(1, 9)));
        drop(same);
        let path = files(dir.path()).remove(0);
        let text = std::fs::read_to_string(&path).unwrap();
        let boot = lifetime(false).unwrap();
        std::fs::write(&path, text.replace(&boot, "another boot")).unwrap();
        let next = begin(dir.path(), "key", false).await;
        assert!(!next.holds(&job("a", 1), &there(1, 9)));
    }

    #[tokio::test]
    async fn a_record_is_bounded_and_has_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let record = begin(dir.path(), "key", true).await;
        lock(&record.shared.waiting).count = MOST - 1;
        for name in ["a", "b"] {
            record.add(&job(name, 1), &there(1, 9));
        }
        record.keep().await;
        let second = begin(dir.path(), "key", true).await;
        assert!(second.earlier.is_empty(), "the first has it locked");
        second.add(&job("c", 1), &there(1, 9));
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
        record.add(&job("a", 1), &there(1, 9));
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
}

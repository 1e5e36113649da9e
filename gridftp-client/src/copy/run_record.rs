//! The record of the hidden names that a run writes at one server, by which a later run removes
//! those of a run that was killed.
//!
//! A line with `+` names a hidden file that begins, one with `-` a file that has its own name or is
//! gone. The process of the run has the record locked. It is not synced: a power cut may leave a
//! hidden file behind.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ftp_wire::path::FtpPath;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::{lock, notes};
use crate::names;

const TITLE: &str = "gridftp-run 1 ";

/// Start of the names of records.
const PREFIX: &str = "run-";

/// Size from which a record is written anew, in bytes; twice its living lines where those are many.
const FULL: u64 = 256 << 10;

/// Largest record that is read, in bytes.
const MAX_LEN: u64 = 4 << 20;

/// Records that one run takes over at most.
const MOST: usize = 64;

/// The record of this run.
#[derive(Debug)]
pub(super) struct RunRecord {
    path: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Held while the disk works; `names` never is, since threads that must not wait take it.
    record: Mutex<Record>,
    names: Mutex<Names>,
}

#[derive(Debug)]
struct Record {
    file: File,
    /// The first line.
    title: String,
    /// Size from which the record is written anew, in bytes.
    full: u64,
}

#[derive(Debug, Default)]
struct Names {
    /// The hidden names that may be at the server, encoded.
    live: BTreeSet<String>,
    /// Lines that wait for the next write.
    waiting: String,
}

impl RunRecord {
    /// Begins the record of the run `id` at the server `site` in the directory `notes`, and takes
    /// over the names of earlier runs there that have ended; gives these too. `None` where none can
    /// be written.
    pub(super) async fn begin(notes: &Path, id: u64, site: &str) -> Option<(Self, Vec<FtpPath>)> {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().escape_debug().to_string();
        // Another host may not see that a run there has its record locked.
        let (notes, title) = (notes.to_owned(), format!("{TITLE}{host} {site}\n"));
        let begun = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(&notes).ok()?;
            let path = notes.join(format!("{PREFIX}{id:016x}"));
            let file = notes::open(&path, true)?;
            let ended = ended(&notes, &title, &path);
            let names = ended.iter().flat_map(|(_, names)| names).cloned();
            let live: BTreeSet<String> = names.collect();
            let left = live.iter().filter_map(|name| decode(name)).collect();
            // Nothing of it is written yet.
            let full = 0;
            let names = Names {
                live,
                ..Names::default()
            };
            let shared = Shared {
                record: Mutex::new(Record { file, title, full }),
                names: Mutex::new(names),
            };
            shared.write().ok()?;
            for (path, _) in ended {
                let _ = std::fs::remove_file(path);
            }
            let shared = Arc::new(shared);
            Some((Self { path, shared }, left))
        });
        begun.await.ok()?
    }

    /// Records that a file begins under the hidden name `at`, before it does.
    pub(super) async fn add(&self, at: &FtpPath) {
        if !lock(&self.shared.names).add(encode(at)) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let written = tokio::task::spawn_blocking(move || shared.write());
        if let Ok(Err(error)) = written.await {
            tracing::debug!(%error, "a hidden name is not recorded");
        }
    }

    /// Records that nothing is under the hidden name `at` any more.
    pub(super) fn remove(&self, at: &FtpPath) {
        lock(&self.shared.names).remove(&encode(at));
    }
}

impl Drop for RunRecord {
    fn drop(&mut self) {
        if lock(&self.shared.names).live.is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Shared {
    /// Writes the lines that wait, or the whole record where it is full.
    fn write(&self) -> std::io::Result<()> {
        let mut record = lock(&self.record);
        if record.file.metadata()?.len() >= record.full {
            let living = lock(&self.names).living();
            return record.write_anew(&living);
        }
        let waiting = std::mem::take(&mut lock(&self.names).waiting);
        let written = record.file.write_all(waiting.as_bytes());
        if written.is_err() {
            // Its last line may be torn.
            record.full = 0;
        }
        written
    }
}

impl Names {
    /// Says whether the name is new.
    fn add(&mut self, name: String) -> bool {
        let is_new = self.live.insert(name.clone());
        if is_new {
            self.waiting.extend(["+", &name, "\n"]);
        }
        is_new
    }

    fn remove(&mut self, name: &str) {
        if self.live.remove(name) {
            self.waiting.extend(["-", name, "\n"]);
        }
    }

    /// The lines of the living names, which say all that waits.
    fn living(&mut self) -> String {
        self.waiting.clear();
        let lines = self.live.iter().flat_map(|name| ["+", name.as_str(), "\n"]);
        lines.collect()
    }
}

impl Record {
    /// Writes the living lines over the start of the record, and cuts off the rest. A kill between
    /// the two leaves later lines of the same names, of which the last says the same.
    fn write_anew(&mut self, living: &str) -> std::io::Result<()> {
        self.full = 0;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(self.title.as_bytes())?;
        self.file.write_all(living.as_bytes())?;
        let end = self.file.stream_position()?;
        self.file.set_len(end)?;
        self.full = end.saturating_mul(2).max(FULL);
        Ok(())
    }
}

/// Says whether a file among the notes is a record of a run.
pub(super) fn is_record(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// The records in `notes` with the same first line whose runs have ended, and their living names;
/// without the record at `own`.
fn ended(notes: &Path, title: &str, own: &Path) -> Vec<(PathBuf, BTreeSet<String>)> {
    let entries = std::fs::read_dir(notes).into_iter().flatten().flatten();
    let records = entries.filter(|entry| is_record(&entry.file_name()) && entry.path() != own);
    let ended = records.filter_map(|entry| {
        let path = entry.path();
        let file = notes::open(&path, false)?;
        let mut text = String::new();
        file.take(MAX_LEN).read_to_string(&mut text).ok()?;
        Some((path, living(text.strip_prefix(title)?)))
    });
    ended.take(MOST).collect()
}

/// The names in the lines of a record that begin and do not end.
fn living(lines: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in lines.split_inclusive('\n') {
        // The last line may be torn.
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        if let Some(name) = line.strip_prefix('+') {
            names.insert(name.to_owned());
        } else if let Some(name) = line.strip_prefix('-') {
            names.remove(name);
        }
    }
    names
}

fn encode(at: &FtpPath) -> String {
    percent_encode(at.as_bytes(), NON_ALPHANUMERIC).to_string()
}

fn decode(name: &str) -> Option<FtpPath> {
    let path: Vec<u8> = percent_decode_str(name).collect();
    is_hidden(names::last(&path)).then_some(())?;
    FtpPath::new(path)
}

/// Says whether a name is one that a run gives to an upload: nothing else is ever removed.
fn is_hidden(name: &[u8]) -> bool {
    let Some((start, run)) = name.split_last_chunk::<8>() else {
        return false;
    };
    name.starts_with(b".") && start.ends_with(b".gridftp-") && run.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "ftp://host/";

    fn at(name: &str) -> FtpPath {
        FtpPath::new(format!("/d/.{name}.gridftp-0123abcd").into_bytes()).unwrap()
    }

    async fn begin(notes: &Path, id: u64) -> (RunRecord, Vec<FtpPath>) {
        RunRecord::begin(notes, id, SITE).await.unwrap()
    }

    #[tokio::test]
    async fn the_next_run_takes_over_the_names_of_one_that_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (first, left) = begin(dir.path(), 1).await;
        assert_eq!(left, []);
        for name in ["a", "b +-%", "c"] {
            first.add(&at(name)).await;
        }
        first.remove(&at("a"));
        first.add(&at("d")).await;

        let (second, left) = begin(dir.path(), 2).await;
        assert_eq!(left, [], "the first run has not ended");
        drop((first, second));
        let other = RunRecord::begin(dir.path(), 3, "ftp://other/").await;
        assert_eq!(other.unwrap().1, [], "they are at another server");

        // It is killed before it removes them.
        let (third, left) = begin(dir.path(), 4).await;
        assert_eq!(left, [at("b +-%"), at("c"), at("d")]);
        drop(third);
        let (fourth, left) = begin(dir.path(), 5).await;
        assert_eq!(left.len(), 3);
        left.iter().for_each(|at| fourth.remove(at));
        drop(fourth);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_record_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let (record, _) = begin(dir.path(), 1).await;
        record.add(&at("first")).await;
        for n in 0..20_000 {
            record.add(&at(&n.to_string())).await;
            record.remove(&at(&n.to_string()));
        }
        let len = std::fs::metadata(&record.path).unwrap().len();
        assert!(len < FULL + 1000, "{len}");
        drop(record);
        let (_record, left) = begin(dir.path(), 2).await;
        assert_eq!(left.len(), 2, "the first and the last: {left:?}");
    }

    #[tokio::test]
    async fn a_record_of_many_names_is_written_anew_when_it_has_doubled() {
        let dir = tempfile::tempdir().unwrap();
        let (record, _) = begin(dir.path(), 1).await;
        let add = async |name: &str| {
            lock(&record.shared.names).add(encode(&at(name)));
            record.shared.write().unwrap();
            lock(&record.shared.record).file.metadata().unwrap().len()
        };
        let mut name = 0;
        let mut next = || {
            name += 1;
            format!("{name:0200}")
        };
        while add(&next()).await <= FULL {}
        let (mut before, mut anew) = (add(&next()).await, 0);
        for _ in 0..1000 {
            let gone = next();
            let now = add(&gone).await;
            record.remove(&at(&gone));
            (before, anew) = (now, anew + u32::from(now < before));
        }
        assert_eq!(anew, 1, "of {before} bytes");
    }

    #[test]
    fn names_end_while_the_disk_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (record, _) = runtime.block_on(begin(dir.path(), 1));
        runtime.block_on(record.add(&at("a")));
        std::thread::scope(|scope| {
            let hangs = lock(&record.shared.record);
            let adding = scope.spawn(|| runtime.block_on(record.add(&at("b"))));
            while lock(&record.shared.names).live.len() < 2 {
                std::thread::yield_now();
            }
            let (told, ended) = std::sync::mpsc::channel();
            let record = &record;
            scope.spawn(move || {
                record.remove(&at("a"));
                told.send(()).unwrap();
            });
            let ended = ended.recv_timeout(std::time::Duration::from_secs(30));
            drop(hangs);
            adding.join().unwrap();
            ended.unwrap();
        });
        drop(record);
        assert_eq!(runtime.block_on(begin(dir.path(), 2)).1, [at("b")]);
    }

    #[test]
    fn a_torn_line_names_nothing() {
        let lines = "+a\n+b\n-a\n+c";
        assert_eq!(living(lines), BTreeSet::from(["b".to_owned()]));
        for (name, hidden) in [
            ("/d/.a.gridftp-0123abcd", true),
            ("/d/.bashrc", false),
            ("/d/a.gridftp-0123abcd", false),
            ("/d/.a.gridftp-0123abc/x", false),
        ] {
            let at = FtpPath::new(name.as_bytes().to_vec()).unwrap();
            assert_eq!(decode(&encode(&at)).is_some(), hidden, "{name}");
        }
        assert_eq!(living("emnant\n+a\n"), BTreeSet::from(["a".to_owned()]));
    }
}

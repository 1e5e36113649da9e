//! The record of the files that the copy of a tree has finished, which the same copy leaves as they are
//! when it is started again.
//!
//! A line is a digest of the names of a file and of the facts of both ends: another version of either
//! end is not in the record. Behind its first broken line a record is cut off. Files of this machine that
//! a power cut may take count until it restarts: the title names the boot then. Lines of a server that
//! does not sync wait until it has written such files back. Where it tells its boot, others that count
//! until it restarts are written at once.

mod file;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::time::timeout;

use self::file::{DIGITS, LINE, MOST, PREFIX};
use super::admission::Server;
use super::job::{Facts, FileJob};
use super::pull::local;
use super::state::CopyState;
use super::{lock, notes};
use crate::abilities::Abilities;
use crate::manner::Target;
use crate::names;
use crate::options::{CopyOptions, Resume};
use crate::url::Location;

/// Time from a finished file until its line is written, with those of the files behind it.
const EVERY: Duration = Duration::from_millis(500);

/// Time from which a server is asked for the facts of each file: a short copy is not worth a command
/// more for each, and together with [`EVERY`] a second of files is copied again.
const ASKING: Duration = Duration::from_millis(500);

/// Time after which a server that does not sync has written a file back: kernels do that within 30 s.
const WRITTEN_BACK: Duration = Duration::from_secs(60);

/// Age from which a source with a time in whole seconds, or minutes, gets another by its next change,
/// the difference of two clocks included.
const COARSE: Duration = Duration::from_secs(120);

/// Longest wait for the file system of the record.
const SETTLING: Duration = Duration::from_secs(10);

/// The record of one copy, of this run and of those before it that did not complete the tree.
#[derive(Debug)]
pub(crate) struct DoneRecord {
    /// Start of this run.
    begun: Instant,
    /// The lines of those runs, sorted.
    earlier: Vec<u128>,
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
    /// Whether the server of the destination may not sync them.
    waits: AtomicBool,
    /// The boots that the sessions with the server of the destination have told.
    boots: Mutex<BTreeSet<Option<u128>>>,
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
    /// Lines that count for a boot of the server, to be written next.
    of_boot: Vec<u128>,
    /// Lines that wait to be written, of the files finished within [`EVERY`] of the time.
    lines: VecDeque<(Instant, Vec<u128>)>,
    /// Time at which the last file was finished.
    newest: Option<Instant>,
    /// Lines in all.
    count: usize,
    /// Whether a write is to come.
    is_due: bool,
}

/// The times of the last change to the file objects of a source and of its copy, of those on this
/// machine: no program sets them, as it does the times of modification.
type Changes = [Option<(i64, u32)>; 2];

impl DoneRecord {
    /// The record of the copy of a tree; `None` where each run begins anew, compares the files, or
    /// copies parts.
    pub(super) async fn of_run(
        sources: &[Location],
        destination: &Location,
        options: &CopyOptions,
    ) -> Option<Arc<Self>> {
        let notes = options.notes.as_ref()?;
        let in_part = options.offset.is_some() || options.length.is_some();
        let compares = options.manner.comparison().is_some() || options.no_clobber;
        let is_anew = options.resume == Resume::Never;
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
            "{} {} {:?} {:?} {:?} {} {} {}",
            rustix::process::geteuid().as_raw(),
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
            let title = file::title(lasts)?;
            file::expire(&notes);
            let (mut end, mut earlier) = (End::None, Vec::new());
            if let Some(mut file) = notes::open(&path, false) {
                earlier = file::read(&file, &title).unwrap_or_default();
                file::start(&mut file, &title, earlier.len()).ok()?;
                earlier.sort_unstable();
                end = End::Open(file);
            }
            let waiting = Waiting {
                count: earlier.len(),
                ..Waiting::default()
            };
            let shared = Shared {
                path,
                title,
                lasts,
                waits: AtomicBool::new(false),
                boots: Mutex::default(),
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

    /// Has lines wait where the server of the destination, of a new session, may not sync finished
    /// files.
    pub(super) fn note_server(&self, abilities: &Abilities) {
        if !abilities.durable {
            self.shared.waits.store(true, Ordering::Relaxed);
            lock(&self.shared.boots).insert(abilities.boot);
        }
    }

    /// Forgets the files that a server may have lost in an outage.
    pub(super) fn forget_unsynced(&self) {
        if self.shared.waits.load(Ordering::Relaxed) {
            let mut waiting = lock(&self.shared.waiting);
            let lines = waiting.lines.drain(..).map(|(_, lines)| lines.len());
            let lost: usize = lines.sum();
            waiting.count = waiting.count.saturating_sub(lost);
        }
    }

    /// Records a finished file, of which the destination tells the facts `there`.
    fn add(&self, job: &FileJob, there: &Facts, changes: Changes) {
        let Some(line) = line(job, there, changes).filter(|_| !may_keep_its_time(job)) else {
            return;
        };
        let mut waiting = lock(&self.shared.waiting);
        if waiting.count >= MOST {
            return;
        }
        waiting.count += 1;
        if let Some(line) = self.shared.of_boot(line) {
            waiting.count += 1;
            waiting.of_boot.push(line);
        }
        let now = Instant::now();
        waiting.newest = Some(now);
        match waiting.lines.back_mut() {
            Some((begun, lines)) if now.duration_since(*begun) < EVERY => lines.push(line),
            _ => waiting.lines.push_back((now, vec![line])),
        }
        if !std::mem::replace(&mut waiting.is_due, true) {
            tokio::spawn(write_on(Arc::downgrade(&self.shared)));
        }
    }

    /// Says whether a run before has finished this version of a file, and its destination tells the
    /// same facts since.
    fn holds(&self, job: &FileJob, there: &Facts, changes: Changes) -> bool {
        let Some(line) = line(job, there, changes) else {
            return false;
        };
        let mut lines = [Some(line), self.shared.of_boot(line)]
            .into_iter()
            .flatten();
        lines.any(|line| self.earlier.binary_search(&line).is_ok())
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
    /// The line that stands for `line` until the server of the destination restarts; `None` where it
    /// tells no boot, or its sessions of this run told several.
    fn of_boot(&self, line: u128) -> Option<u128> {
        let boots = lock(&self.boots);
        let only = boots.first().filter(|_| boots.len() == 1);
        let boot = only.copied().flatten()?;
        drop(boots);
        digest(&[&line.to_le_bytes(), &boot.to_le_bytes()])
    }

    /// Writes the lines that wait and may be written; says whether others wait.
    fn write(&self) -> bool {
        let mut end = lock(&self.end);
        let (lines, is_due) = self.take();
        if lines.is_empty() {
            return is_due;
        }
        if matches!(*end, End::None) {
            *end = self.create().map_or(End::Closed, End::Open);
        }
        let End::Open(file) = &mut *end else {
            return is_due;
        };
        let written = file.write_all(lines.as_bytes());
        let written = written.and_then(|()| match self.lasts {
            true => file.sync_data(),
            false => Ok(()),
        });
        if let Err(error) = written {
            tracing::debug!(%error, "the finished files are not recorded");
            // Nothing goes behind a torn line.
            lock(&self.waiting).count = MOST;
        }
        is_due
    }

    /// Takes the lines that may be written; says whether others wait.
    fn take(&self) -> (String, bool) {
        let age = match self.waits.load(Ordering::Relaxed) {
            true => WRITTEN_BACK + EVERY,
            false => Duration::ZERO,
        };
        let mut waiting = lock(&self.waiting);
        // The server was there when the last one was finished; since then it may have restarted.
        let newest = waiting.newest;
        let is_old = |at: &Instant| newest.is_some_and(|newest| newest.duration_since(*at) >= age);
        let ready = waiting.lines.partition_point(|(at, _)| is_old(at));
        let mut text = String::new();
        let of_boot = std::mem::take(&mut waiting.of_boot);
        let ready = waiting.lines.drain(..ready).map(|(_, lines)| lines);
        for lines in ready.chain([of_boot]) {
            text.reserve(lines.len().saturating_mul(LINE));
            for line in lines {
                let _ = writeln!(text, "{line:032x}");
            }
        }
        waiting.is_due = !waiting.lines.is_empty();
        (text, waiting.is_due)
    }

    fn create(&self) -> Option<File> {
        std::fs::create_dir_all(self.path.parent()?).ok()?;
        let mut file = notes::open(&self.path, true)?;
        file::start(&mut file, &self.title, 0).ok()?;
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
    pub(super) fn asks_of_done(&self, (_, abilities): Server<'_>) -> bool {
        let done = self.done.as_ref();
        done.is_some_and(|done| abilities.mlst && done.begun.elapsed() >= ASKING)
    }

    /// Records a finished file where its destination has told the facts `there`.
    pub(super) fn record_done(&self, job: &FileJob, there: Option<Facts>) {
        if let (Some(done), Some(there)) = (&self.done, there) {
            done.add(job, &there, self.changes(job));
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
        // Without times no line is of it, and with a link among its parents the copy fails.
        let parents = self.check_parents(names::parent(&job.to), destination);
        if job.facts.modified.is_none() || parents.await.is_err() {
            return false;
        }
        match self.target(&job.to, destination).await {
            Ok(Target::File(there)) => done.holds(job, &there, self.changes(job)),
            Ok(_) => false,
            Err(error) => {
                // The copy does not depend on it.
                done.is_blind.store(true, Ordering::Relaxed);
                let what = "the finished files of the last run are copied again";
                self.note(&format!("{what}: {error}"));
                false
            }
        }
    }

    fn changes(&self, job: &FileJob) -> Changes {
        let nanos = |meta: &Metadata| u32::try_from(meta.ctime_nsec()).unwrap_or(0);
        let time = |meta: Metadata| (meta.ctime(), nanos(&meta));
        let look = || local(&job.from).metadata().ok().map(time);
        let source = || job.source_changed.or_else(look);
        // A link that has replaced the copy is another object.
        let copy = || local(&job.to).symlink_metadata().ok().map(time);
        let source = self.source.is_none().then(source).flatten();
        [source, self.destination.is_none().then(copy).flatten()]
    }
}

/// Writes lines until none waits. A run that has ended does not keep its record locked.
async fn write_on(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let written = tokio::task::spawn_blocking(move || shared.write());
        if !written.await.unwrap_or(false) {
            return;
        }
    }
}

/// Says whether a source may have changed since it was read and tell the same time: of one that was
/// new and tells no part of a second.
fn may_keep_its_time(job: &FileJob) -> bool {
    let Some((seconds, 0)) = job.facts.modified else {
        return false;
    };
    let read = job.started.map(|at| at.elapsed()).unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let border = now.unwrap_or_default().saturating_sub(read + COARSE);
    i64::try_from(border.as_secs()).is_ok_and(|border| seconds >= border)
}

/// The line of a file with these facts at the destination; `None` where a size or a time is unknown,
/// or the sizes differ.
fn line(job: &FileJob, there: &Facts, changes: Changes) -> Option<u128> {
    let size = job.facts.size.filter(|size| there.size == Some(*size))?;
    let (from, to) = (job.facts.modified?, there.modified?);
    let facts = format!("{size} {from:?} {:?} {to:?} {changes:?}", job.facts.mode);
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

#[cfg(test)]
mod tests;

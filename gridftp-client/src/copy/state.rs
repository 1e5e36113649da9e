//! `CopyState`: the state that the connections of one copy share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::attributes::Unkept;
use super::digests::Undigested;
use super::done_record::DoneRecord;
use super::hidden::HiddenNames;
use super::inventory::Inventory;
use super::job::{DirJob, Facts, FileJob, Item};
use super::known::Known;
use super::links::LinkState;
use super::lock;
use super::outage::Outage;
use super::plan::PlannedDirs;
use super::queue::Queue;
use super::reach::Reach;
use super::source_roots::SourceRoots;
use super::surplus::is_below;
use super::targets::Targets;
use super::third::Sharers;
use super::third_party::ThirdParty;
use super::tuning::Tuning;
use crate::error::{Class, TransferError};
use crate::names::trim_slashes;
use crate::options::CopyOptions;
use crate::progress::{Event, Observer, Totals};
use crate::text::bytes;
use crate::url::{Site, encode_pattern, show};

/// Connections at most when the caller does not say.
const CONNECTIONS: u32 = 4;

/// Most directories that a run rids of what is kept of old copies.
const MOST_SWEPT: usize = 1 << 16;

/// State that the connections of a copy share.
pub(crate) struct CopyState {
    pub(crate) options: CopyOptions,
    pub(crate) queue: Queue,
    pub(crate) totals: Arc<Totals>,
    pub(crate) observer: Arc<dyn Observer>,
    /// The server of the sources, if they are on one.
    pub(crate) source: Option<Site>,
    /// The server of the destination, if it is on one.
    pub(crate) destination: Option<Site>,
    /// The directory that relative names of the copy are below at the destination.
    pub(crate) root: Vec<u8>,
    /// The sources that nothing is written into.
    pub(super) roots: Arc<SourceRoots>,
    /// The directories at the destination that a dry run has looked at.
    pub(super) planned_dirs: Arc<PlannedDirs>,
    /// The files at the destination, once they are asked for.
    inventory: OnceLock<Option<Inventory>>,
    /// Cancelled when no more files are to be copied.
    pub(crate) stopped: CancellationToken,
    /// Destinations of other sources, where there are any.
    targets: Option<Arc<Targets>>,
    /// The source directories, where the others at the destination are to go.
    pairs: Mutex<Vec<Pair>>,
    made: Mutex<Known>,
    pub(super) worst: Mutex<Option<Class>>,
    dirs: Mutex<Vec<DirJob>>,
    pub(super) reach: Mutex<Reach>,
    pub(super) third_party: Mutex<ThirdParty>,
    /// Sessions of servers that share the bound of the copy.
    pub(super) sharers: Sharers,
    pub(super) undigested: Undigested,
    pub(super) unkept: Unkept,
    /// Whether it was told that files have no time to be chosen by.
    ageless: AtomicBool,
    /// Consecutive commands for many small files that a server refuses, or that store none.
    pub(super) packs_refused: AtomicU32,
    /// While a server is gone and waited for.
    gone: Mutex<Option<Outage>>,
    pub(crate) hiding: HiddenNames,
    pub(super) links: LinkState,
    pub(crate) tuning: Tuning,
    /// Directories from which what is kept of old copies is removed at the end.
    pub(crate) swept: Mutex<HashSet<Vec<u8>>>,
    /// The record of finished files, where the copy has one.
    pub(super) done: Option<Arc<DoneRecord>>,
}

/// A source directory, and the directory at the destination that takes its entries.
#[derive(Debug)]
pub(super) struct Pair {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Whether it has an entry.
    filled: bool,
}

impl CopyState {
    /// Connections at most.
    pub(crate) fn connections(&self) -> u32 {
        let connections = self.options.concurrency.unwrap_or(CONNECTIONS);
        self.options.hold_files(connections)
    }

    /// As many files at once, or as many as the caller allows; an explanation then names that bound.
    pub(crate) fn hold_files(&self, files: u32) -> u32 {
        let CopyOptions {
            concurrency,
            max_concurrency,
            ..
        } = self.options;
        if concurrency.is_none() && max_concurrency.is_some_and(|most| files >= most.get()) {
            self.totals.samples.reach([false, true]);
        }
        self.options.hold_files(files)
    }

    pub(crate) fn new(
        options: CopyOptions,
        observer: Arc<dyn Observer>,
        totals: Arc<Totals>,
        source: Option<Site>,
        destination: Option<Site>,
        targets: Option<Arc<Targets>>,
    ) -> Self {
        Self {
            options,
            root: Vec::new(),
            roots: Arc::default(),
            planned_dirs: Arc::default(),
            inventory: OnceLock::new(),
            stopped: CancellationToken::new(),
            targets,
            queue: Queue::default(),
            totals,
            observer,
            source,
            destination,
            pairs: Mutex::default(),
            made: Mutex::default(),
            worst: Mutex::default(),
            dirs: Mutex::default(),
            reach: Mutex::default(),
            third_party: Mutex::default(),
            sharers: Sharers::default(),
            undigested: Undigested::default(),
            unkept: Unkept::default(),
            ageless: AtomicBool::new(false),
            packs_refused: AtomicU32::new(0),
            gone: Mutex::default(),
            hiding: HiddenNames::default(),
            links: LinkState::default(),
            tuning: Tuning::default(),
            swept: Mutex::default(),
            done: None,
        }
    }

    /// The files at the destination, where that is at a server.
    pub(super) fn inventory(&self) -> Option<&Inventory> {
        self.inventory
            .get_or_init(|| self.start_inventory())
            .as_ref()
    }

    /// Says whether both ends are on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.source.is_none() && self.destination.is_none()
    }

    /// Says whether the sources are at a web server.
    pub(crate) fn is_of_web(&self) -> bool {
        self.source
            .as_ref()
            .is_some_and(|site| site.scheme.is_web())
    }

    pub(crate) fn note(&self, text: &str) {
        self.observer.event(&Event::Note(text));
    }

    pub(crate) fn warn(&self, text: &str) {
        self.observer.event(&Event::Warning(text));
    }

    /// Tells, from time to time until it is back, that a server is gone and is waited for.
    pub(crate) fn note_gone(&self, error: &TransferError) {
        if let Some(done) = &self.done {
            done.forget_unsynced();
        }
        let within = self.options.retry_for;
        let waits = error.is_gone() && !within.is_zero();
        let left = waits.then(|| {
            let (mut gone, now) = (lock(&self.gone), Instant::now());
            gone.get_or_insert_with(|| Outage::new(now))
                .tell(now, within)
        });
        match left.flatten() {
            Some(within) => self.observer.event(&Event::Gone { error, within }),
            None => self.note(&format!("connecting again: {error}")),
        }
    }

    /// Notes that a connection is there again.
    pub(crate) fn note_back(&self) {
        *lock(&self.gone) = None;
    }

    /// Says whether servers read and write their files through layers: then the size that they tell
    /// is not the number of bytes that come, and nothing can begin but at the start.
    pub(crate) fn through_layers(&self) -> bool {
        self.options.connect.disk_stack.is_some()
    }

    /// Notes a source directory.
    pub(super) fn note_root(&self, from: &[u8], to: &[u8]) {
        if self.options.manner.delete {
            lock(&self.pairs).push(Pair {
                from: trim_slashes(from).to_vec(),
                to: trim_slashes(to).to_vec(),
                filled: false,
            });
        }
    }

    /// Notes a name in a source directory.
    fn note_entry(&self, from: &[u8]) {
        if !self.options.manner.delete {
            return;
        }
        let holds = |pair: &&mut Pair| from != pair.from && is_below(from, &pair.from);
        let mut pairs = lock(&self.pairs);
        for pair in pairs.iter_mut().filter(|pair| !pair.filled).filter(holds) {
            pair.filled = true;
        }
    }

    /// Notes a directory in a source directory, and tells it.
    pub(super) fn note_dir_entry(&self, from: &[u8], to: &[u8]) {
        self.observer.event(&Event::Directory {
            source: &self.describe_source(from),
            destination: &self.describe_destination(to),
        });
        if let (true, Some(targets)) = (self.options.manner.delete, &self.targets) {
            targets.take(trim_slashes(to));
            targets.fold(trim_slashes(to));
            self.note_entry(from);
        }
    }

    /// Says whether a source has the name of `path` at the destination.
    pub(super) fn is_sourced(&self, path: &[u8]) -> bool {
        self.targets
            .as_ref()
            .is_some_and(|all| all.has(path) || all.has_folded(path))
    }

    /// The directories at the destination that took those of the sources; an empty source has failed,
    /// since it may be a file system that is not mounted.
    pub(super) fn take_roots(&self) -> Vec<Vec<u8>> {
        let pairs = std::mem::take(&mut *lock(&self.pairs));
        let root = |pair: Pair| {
            if !pair.filled {
                let from = self.describe_source(&pair.from);
                let what = "it has nothing to copy, and --delete would empty its destination";
                let error = TransferError::source(from.clone(), what, "see that it is mounted");
                self.give_up_found(&from, b"", &error);
            }
            pair.to
        };
        pairs.into_iter().map(root).collect()
    }

    /// Notes that a source is copied to `to`; tells it, and gives false, where another is already.
    pub(super) fn claim(&self, from: &[u8], to: &[u8]) -> bool {
        self.note_entry(from);
        if let (true, Some(targets)) = (self.options.manner.delete, &self.targets) {
            targets.fold(to);
        }
        let free = self.targets.as_ref().is_none_or(|all| all.take(to));
        if !free {
            let what = format!("another source is copied to {} already", show(to));
            let error = TransferError::source(show(from), what, "copy it elsewhere");
            self.give_up_found(&self.describe_source(from), self.below(from, to), &error);
        }
        free
    }

    /// Adds a file to the work.
    pub(crate) fn found(&self, mut job: FileJob) {
        if !self.claim(&job.from, &job.to) {
            return;
        }
        if self.through_layers() && self.source.is_some() {
            job.facts.size = None;
        }
        let Facts { size, modified, .. } = job.facts;
        if let Some(why) = self.options.choice.refusal(size, modified) {
            return self.leave_out(&self.name_source(&job), why);
        }
        if self.options.choice.lacks_time(modified) && !self.ageless.swap(true, Ordering::Relaxed) {
            self.warn(&format!(
                "{}: the listing has no time of it; --max-age leaves out no such file",
                self.name_source(&job)
            ));
        }
        let offset = self.options.offset.unwrap_or(0);
        if let Some(size) = job.facts.size.filter(|size| offset > *size) {
            let name = self.name_source(&job);
            let below = self.below(&job.from, &job.to);
            return self.give_up_found(&name, below, &beyond(&name, offset, size));
        }
        let size = self.expected(&job);
        job.found = size.unwrap_or(0);
        self.totals.found(size);
        self.queue.push(Item::File(Box::new(job)));
    }

    /// Bytes that will be copied of a file.
    pub(crate) fn expected(&self, job: &FileJob) -> Option<u64> {
        let size = job.facts.size?;
        let rest = size.saturating_sub(self.options.offset.unwrap_or(0));
        Some(self.options.length.map_or(rest, |length| rest.min(length)))
    }

    /// Says whether only a part of each file is copied.
    pub(crate) fn is_partial(&self) -> bool {
        self.options.offset.is_some() || self.options.length.is_some()
    }

    /// The part of a file that is copied, where it is not all of it: its offset and its length.
    pub(crate) fn region(&self, job: &FileJob) -> Option<(u64, Option<u64>)> {
        self.is_partial().then(|| {
            let length = self.expected(job).or(self.options.length);
            (self.options.offset.unwrap_or(0), length)
        })
    }

    /// Says whether copies get the times and modes of their sources; a part of a file has none.
    pub(crate) fn preserves(&self) -> bool {
        self.options.preserve && !self.is_partial()
    }

    /// Says whether copies get the times of their sources.
    pub(crate) fn keeps_times(&self) -> bool {
        let compares = self.options.manner.comparison().is_some();
        (self.options.preserve || compares) && !self.is_partial()
    }

    /// Notes the facts that a server tells of a source `now`; others stay.
    pub(crate) fn update(&self, job: &mut FileJob, now: Option<Facts>) {
        let Some(now) = now else { return };
        job.facts = Facts {
            size: now.size.filter(|_| !self.through_layers()),
            modified: now.modified.or(job.facts.modified),
            mode: now.mode.or(job.facts.mode),
        };
    }

    /// Has a directory rid of what is kept of old copies at the end of the run: at most [`MOST_SWEPT`]
    /// of them.
    pub(crate) fn sweep_later(&self, dir: &[u8]) {
        let mut swept = lock(&self.swept);
        if swept.len() < MOST_SWEPT && !swept.contains(dir) {
            swept.insert(dir.to_vec());
        }
    }

    /// Says whether `dir` is known to be at the destination.
    pub(crate) fn is_made(&self, dir: &[u8]) -> bool {
        lock(&self.made).contains(dir)
    }

    /// Notes that `dir` is at the destination.
    pub(crate) fn note_made(&self, dir: &[u8]) {
        lock(&self.made).insert(dir);
    }

    /// Tells that a file's copying begins.
    pub(crate) fn start(&self, job: &mut FileJob) {
        if job.started.is_some() {
            return;
        }
        job.start(Instant::now());
        let (source, destination) = (self.name_source(job), self.name_destination(job));
        let size = self.expected(job);
        self.observer.event(&Event::Started {
            source: &source,
            destination: &destination,
            size,
        });
    }

    pub(crate) fn name_source(&self, job: &FileJob) -> String {
        self.describe(self.source.as_ref(), &job.from)
    }

    pub(crate) fn name_item(&self, item: &Item) -> String {
        match item {
            Item::File(job) => self.name_source(job),
            Item::Dir(job) => match &job.pattern {
                Some(pattern) => self.describe_pattern(&job.from, pattern),
                None => self.describe_source(&job.from),
            },
        }
    }

    pub(crate) fn name_destination(&self, job: &FileJob) -> String {
        self.describe(self.destination.as_ref(), &job.to)
    }

    pub(crate) fn describe(&self, site: Option<&Site>, path: &[u8]) -> String {
        match site {
            Some(site) => site.url(path),
            None => show(path),
        }
    }

    /// The names in `dir` of the source that were to match `pattern`.
    pub(crate) fn describe_pattern(&self, dir: &[u8], pattern: &[u8]) -> String {
        let dir = self.describe_source(dir);
        let slash = if dir.ends_with('/') { "" } else { "/" };
        format!("{dir}{slash}{}", encode_pattern(pattern))
    }

    /// The failure of a source that has become smaller.
    pub(crate) fn shrunk(&self, job: &FileJob, now: &Facts) -> TransferError {
        TransferError::Shrunk {
            path: self.name_source(job),
            before: job.facts.size.unwrap_or(0),
            now: now.size.unwrap_or(0),
        }
    }

    pub(super) fn describe_destination(&self, path: &[u8]) -> String {
        self.describe(self.destination.as_ref(), path)
    }

    pub(crate) fn describe_source(&self, path: &[u8]) -> String {
        self.describe(self.source.as_ref(), path)
    }

    /// Notes a directory that is done, for its attributes, time and mode at the end.
    pub(crate) fn note_dir(&self, job: DirJob) {
        let settles = self.options.preserve || self.carries_attributes();
        if settles && !self.options.dry_run && job.is_made() {
            lock(&self.dirs).push(job);
        }
    }

    /// Takes back the note of a directory that is not done after all.
    pub(crate) fn forget_dir(&self, to: &[u8]) -> Option<DirJob> {
        let mut dirs = lock(&self.dirs);
        let at = dirs.iter().rposition(|job| trim_slashes(&job.to) == to)?;
        Some(dirs.swap_remove(at))
    }

    /// The directories that were noted, the deepest first.
    pub(crate) fn take_dirs(&self) -> Vec<DirJob> {
        let mut dirs = std::mem::take(&mut *lock(&self.dirs));
        dirs.sort_by_key(|job| std::cmp::Reverse(job.to.len()));
        dirs
    }
}

/// The failure of a part that is not there.
pub(super) fn beyond(path: &str, offset: u64, size: u64) -> TransferError {
    let size = bytes(&size);
    let what = format!("source: {path}: --offset {offset} is beyond its end; it has {size}");
    TransferError::request(what, "")
}

#[cfg(test)]
mod tests;

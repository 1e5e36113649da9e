//! Turns a listing, as it arrives, into work: every name checked, loops and floods cut off.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet};
use gridftp_data::Consumer;
use gridftp_dsi::{Error as StorageError, ErrorKind};

use super::job::{Above, DirJob, Facts, FileJob, Item};
use super::queue::{ENOUGH, Taken};
use super::same::{Unique, within};
use super::spool::{Line, SpoolReader, SpoolWriter};
use super::state::CopyState;
use crate::error::TransferError;
use crate::filter::Verdict;
use crate::names;
use crate::url::{show, show_text};

/// The longest line of a listing, in bytes.
const LINE: usize = 64 * 1024;
/// The operation that fails when a listing cannot wait in a file.
const KEEP: &str = "keep a file of the names in";
/// The largest listing of one directory, in bytes: some ten million names.
const LISTING: u64 = 2 << 30;

/// Takes the lines of an `MLSD` listing.
pub(crate) struct Lines<F> {
    line: Vec<u8>,
    seen: u64,
    each: F,
}

impl<F: FnMut(&[u8]) + Send> Lines<F> {
    /// Calls `each` with every line, without its end.
    pub(crate) fn new(each: F) -> Self {
        Self {
            line: Vec::new(),
            seen: 0,
            each,
        }
    }

    /// Takes the last line, if it has no end.
    pub(crate) fn finish(mut self) {
        self.emit();
    }

    fn emit(&mut self) {
        // Blanks at the end are the name's (RFC 3659 §7.2).
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            (self.each)(line);
        }
        self.line.clear();
    }
}

impl<F: FnMut(&[u8]) + Send> Consumer for Lines<F> {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.seen = self.seen.saturating_add(bytes.len() as u64);
        if self.seen > LISTING {
            return Err(
                StorageError::new(ErrorKind::TooLarge, "list").because("more than 2 GiB of names")
            );
        }
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            if self.line.len() + piece.len() > LINE {
                return Err(StorageError::new(ErrorKind::BadName, "list")
                    .because("a line of more than 64 KiB"));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.emit();
            }
        }
        Ok(())
    }
}

/// Makes jobs of the lines of one directory.
///
/// Names beyond those that the queue has room for wait in a file, so that no directory costs more
/// memory for its size.
pub(crate) struct Sorter<'a> {
    shared: &'a CopyState,
    dir: &'a DirJob,
    above: Option<Arc<Above>>,
    looped: bool,
    hasher: RandomState,
    /// Hashes of the names that a listing which broke off brought.
    before: HashSet<u64>,
    /// Hashes of the names that this one brings, and the facts `Unique` of their objects.
    seen: HashMap<u64, Option<(u64, u64)>>,
    /// The lines that wait.
    spool: Option<SpoolWriter>,
    /// Whether no more may wait, since these have waited.
    waited: bool,
    /// The reason of the failure.
    failed: Option<std::io::Error>,
    /// The facts of the directory itself.
    own: Option<Facts>,
    /// Whether a name is there that is not copied.
    refused: Cell<bool>,
}

/// The result of a listing.
pub(crate) struct Listed {
    /// The facts of the directory itself.
    pub(crate) own: Option<Facts>,
    /// Hashes of the names that were taken.
    pub(crate) seen: HashSet<u64>,
    /// The names that wait.
    pub(crate) rest: Option<SpoolReader>,
    /// The fault of a listing that came to its end.
    pub(crate) error: Option<TransferError>,
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(shared: &'a CopyState, dir: &'a DirJob, before: HashSet<u64>) -> Self {
        Self {
            shared,
            dir,
            above: None,
            looped: false,
            own: None,
            refused: Cell::new(false),
            hasher: dir.hasher.clone(),
            before,
            seen: HashMap::new(),
            spool: None,
            waited: false,
            failed: None,
        }
    }

    /// Gives the result; `whole` says that the listing came to its end.
    ///
    /// # Cancel safety
    /// As [`SpoolWriter::end`].
    pub(crate) async fn end(mut self, whole: bool) -> Listed {
        let mut rest = None;
        if let (Some(spool), true) = (self.spool.take(), whole) {
            match spool.end(self.above.clone()).await {
                Ok(lines) => rest = Some(lines),
                Err(error) => self.failed = Some(error),
            }
        }
        let nothing = self.before.is_empty() && self.seen.is_empty() && !self.refused.get();
        let error = match (self.failed, &self.dir.pattern) {
            (Some(error), _) => Some(TransferError::local(KEEP, &self.dir.from, error)),
            (None, Some(pattern)) if nothing && whole => {
                let pattern = self.shared.describe_pattern(&self.dir.from, pattern);
                Some(TransferError::no_match(pattern))
            }
            _ => None,
        };
        let mut seen = self.before;
        seen.extend(self.seen.into_keys());
        Listed {
            own: self.own,
            seen,
            rest,
            error,
        }
    }

    /// Takes one line.
    pub(crate) fn line(&mut self, line: &[u8]) {
        let (entry, known) = match Entry::parse(line) {
            Ok(parsed) => parsed,
            Err(error) => {
                let what = format!("listing has a line without facts: {error}");
                let error = TransferError::source(show(&self.dir.from), what, "");
                return self.refuse(line, &error);
            }
        };
        if entry.kind == EntryKind::Cdir || entry.name == b"." {
            return self.own(&entry, known);
        }
        if entry.kind == EntryKind::Pdir || entry.name == b".." {
            return;
        }
        if let Some(pattern) = &self.dir.pattern
            && !ftp_wire::glob::matches(pattern, &entry.name)
        {
            return;
        }
        let Some(hollow) = self.chosen(&entry) else {
            return self.refused.set(true);
        };
        if let Some(why) = &entry.error {
            return self.refuse(&entry.name, &unnamed(&entry.name, why));
        }
        if let Err(error) = names::check(&entry.name) {
            return self.refuse(&entry.name, &error);
        }
        let hash = self.hasher.hash_one(&entry.name);
        // After a listing that broke off, its names are not taken twice.
        if self.before.contains(&hash) {
            return;
        }
        let unique = known.contains(Fact::Unique).then_some(entry.unique);
        if let Some(twin) = self.seen.get(&hash) {
            // A directory that changes while it is read may have a name twice.
            if unique.is_none() || unique != *twin {
                self.refuse(&entry.name, &twice(&entry.name));
            }
            return;
        }
        if self.keep(line, hash, unique) {
            return;
        }
        self.seen.insert(hash, unique);
        self.take(&entry, known, unique, hollow);
    }

    /// Says whether the choice takes a name, and of a directory whether it is hollow.
    fn chosen(&self, entry: &Entry) -> Option<bool> {
        let choice = &self.shared.options.choice;
        let relative = names::join(&self.dir.relative, &entry.name);
        if entry.kind != EntryKind::Dir || self.shared.is_link(entry) {
            return choice.takes_file(&relative).then_some(false);
        }
        match choice.dir(&relative) {
            Verdict::Take => Some(false),
            Verdict::Enter => Some(true),
            Verdict::Leave => None,
        }
    }

    /// Refuses a line with the name of another object.
    fn twin(&self, line: &[u8]) {
        if let Ok((entry, _)) = Entry::parse(line) {
            self.refuse(&entry.name, &twice(&entry.name));
        }
    }

    /// Has a line wait, where too many have been taken; false when it is to be taken now.
    fn keep(&mut self, line: &[u8], name: u64, unique: Option<(u64, u64)>) -> bool {
        let many = self.seen.len() >= ENOUGH || self.shared.queue.is_crowded();
        if self.waited || !(many || self.spool.is_some()) {
            return false;
        }
        if self.spool.is_none() {
            // Where there is no room for a file, memory has to do.
            self.spool = SpoolWriter::new().ok();
        }
        let Some(spool) = &mut self.spool else {
            return false;
        };
        let object = unique.map(|unique| self.hasher.hash_one(unique));
        if let Err(error) = spool.add(line, name, object) {
            self.failed.get_or_insert(error);
        }
        true
    }

    /// Makes a job of an entry.
    fn take(&mut self, entry: &Entry, known: FactSet, unique: Option<Unique>, hollow: bool) {
        let from = names::join(&self.dir.from, &entry.name);
        let to = names::join(&self.dir.to, &entry.name);
        let facts = Facts::of_entry(entry, known);
        match entry.kind {
            _ if self.looped => {}
            _ if self.shared.is_link(entry) => {
                let relative = names::join(&self.dir.relative, &entry.name);
                self.shared
                    .link((from, to), &relative, entry.target.clone());
            }
            EntryKind::File => self.shared.found(FileJob::new(from, to).with_facts(facts)),
            EntryKind::Dir if !self.shared.options.recursive => {
                let remedy = "add --recursive to copy it";
                let path = self.shared.describe_source(&from);
                let error = TransferError::source(path, "is a directory", remedy);
                self.refuse(&entry.name, &error);
            }
            EntryKind::Dir => {
                self.shared.note_dir_entry(&from, &to);
                let above = self.above();
                let job = DirJob {
                    facts,
                    above,
                    hollow,
                    relative: names::join(&self.dir.relative, &entry.name),
                    avoid: self.dir.avoid,
                    ..DirJob::new(from, to)
                };
                if unique.is_some() && unique == job.avoid {
                    self.refuse(&entry.name, &within(&job.from));
                } else if job.descend(unique).is_some() {
                    self.shared.queue.push(Item::Dir(Box::new(job)));
                } else {
                    self.refuse(&entry.name, &looped(&job.from));
                }
            }
            _ => {
                let error = TransferError::BadName {
                    name: show(&from),
                    why: "it is neither a file nor a directory",
                };
                self.refuse(&entry.name, &error);
            }
        }
    }

    /// Takes the facts of the directory itself.
    fn own(&mut self, entry: &Entry, known: FactSet) {
        let unique = known.contains(Fact::Unique).then_some(entry.unique);
        self.own = Some(Facts::of_entry(entry, known));
        self.above = self.dir.descend(unique);
        if self.above.is_none() {
            self.looped = true;
            self.refuse(b".", &looped(&self.dir.from));
        }
    }

    fn above(&mut self) -> Option<Arc<Above>> {
        if self.above.is_none() {
            self.above = self.dir.descend(None);
        }
        self.above.clone()
    }

    fn refuse(&self, name: &[u8], error: &TransferError) {
        self.refused.set(true);
        let path = names::join(&self.dir.from, name);
        let path = self.shared.describe_source(&path);
        let to = names::join(&self.dir.to, name);
        self.shared
            .give_up_found(&path, self.shared.below_root(&to), error);
    }
}

/// Takes the next names that wait in `taken`, where it is a directory of which some do; gives back
/// anything else.
pub(crate) fn go_on(shared: &CopyState, mut taken: Taken) -> Option<Taken> {
    let Item::Dir(job) = taken.item_mut() else {
        return Some(taken);
    };
    let Some(rest) = &mut job.rest else {
        return Some(taken);
    };
    let (lines, above) = (rest.next(ENOUGH), rest.above.clone());
    let dir = DirJob {
        avoid: job.avoid,
        relative: job.relative.clone(),
        above: job.above.clone(),
        ..DirJob::new(job.from.clone(), job.to.clone())
    };
    let lines = match lines {
        Ok(lines) if !lines.is_empty() => lines,
        Ok(_) => {
            taken.done(|item| {
                if let Item::Dir(job) = item {
                    shared.note_dir(*job);
                }
            });
            return None;
        }
        Err(error) => {
            let error = TransferError::local(KEEP, &dir.from, error);
            shared.fail(taken, &error);
            return None;
        }
    };
    // It goes back before its names do, so that they are taken before its next.
    let _open = shared.queue.producer();
    drop(taken);
    let mut sorter = Sorter {
        above,
        waited: true,
        ..Sorter::new(shared, &dir, HashSet::new())
    };
    for line in &lines {
        match line {
            Line::First(line) => sorter.line(line),
            Line::Twin(line) => sorter.twin(line),
        }
    }
    None
}

fn unnamed(name: &[u8], why: &str) -> TransferError {
    if why == "InvalidName" {
        let what = "its name holds NUL, CR or LF, which FTP cannot carry";
        return TransferError::source(show(name), what, "rename it there");
    }
    let what = format!("the server cannot list it: {}", show_text(why.as_bytes()));
    TransferError::source(show(name), what, "")
}

fn twice(name: &[u8]) -> TransferError {
    let what = "the listing names two objects so; one name has bytes that the server cannot list";
    TransferError::source(show(name), what, "rename it there")
}

/// The failure of a directory that was reached through a link.
pub(super) fn looped(path: &[u8]) -> TransferError {
    let what = "leads back to a directory that it is in; it is not copied again";
    TransferError::source(show(path), what, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `count` lines to a sorter, and takes all jobs; the most that ever waited, and their
    /// names.
    async fn run(count: usize) -> (usize, Vec<Vec<u8>>) {
        let shared = CopyState::plain();
        let mut dir = DirJob::new(b"/d".to_vec(), b"to".to_vec());
        let mut sorter = Sorter::new(&shared, &dir, HashSet::new());
        for n in 0..count {
            sorter.line(format!("type=file;size=1; {n} ").as_bytes());
        }
        let listed = sorter.end(true).await;
        assert!(listed.error.is_none());
        let mut most = shared.queue.waiting();
        dir.rest = listed.rest;
        shared.queue.push(Item::Dir(Box::new(dir)));
        let mut names = Vec::new();
        while let Some(taken) = shared.queue.next(|_| true).await {
            most = most.max(shared.queue.waiting());
            if let Some(taken) = go_on(&shared, taken) {
                taken.done(|item| match item {
                    Item::File(job) => names.push(job.from),
                    Item::Dir(_) => {}
                });
            }
        }
        (most, names)
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_directory_is_taken_whole_in_bounded_memory() {
        for count in [10, ENOUGH, ENOUGH + 1, 10 * ENOUGH + 3] {
            let (most, mut names) = run(count).await;
            assert!(most <= 2 * ENOUGH + 1, "{most} of {count} waited");
            names.sort();
            let mut want: Vec<_> = (0..count)
                .map(|n| format!("/d/{n} ").into_bytes())
                .collect();
            want.sort();
            assert!(names == want, "{} of {count} names came", names.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_objects_of_one_name_are_told_however_far_apart() {
        let shared = CopyState::plain();
        let mut dir = DirJob::new(b"/d".to_vec(), b"to".to_vec());
        let mut sorter = Sorter::new(&shared, &dir, HashSet::new());
        let mut line = |name: usize, unique: usize| {
            sorter.line(format!("type=file;size=1;unique=1-{unique}; {name}").as_bytes());
        };
        (0..4 * ENOUGH).for_each(|n| line(n, n));
        // One of each batch: another object, and the same once more.
        for n in [1, ENOUGH + 1, 3 * ENOUGH] {
            line(n, 5 * ENOUGH);
            line(n, n);
        }
        dir.rest = sorter.end(true).await.rest;
        shared.queue.push(Item::Dir(Box::new(dir)));
        let mut files = 0;
        while let Some(taken) = shared.queue.next(|_| true).await {
            if let Some(taken) = go_on(&shared, taken) {
                files += taken.done(|item| usize::from(matches!(item, Item::File(_))));
            }
        }
        let counts = shared.totals.counts();
        assert_eq!((files, counts.files_failed), (4 * ENOUGH, 3));
    }

    #[tokio::test]
    async fn names_are_taken_as_they_are() {
        let shared = CopyState::plain();
        let dir = DirJob::new(b"/d".to_vec(), b"to".to_vec());
        let mut sorter = Sorter::new(&shared, &dir, HashSet::new());
        for line in [
            &b"type=file;  a "[..],
            b"type=file; b\t",
            b"type=file;error=InvalidName; c\xef\xbf\xbd",
            b"type=file;unique=1-1; twice",
            b"type=file;unique=1-1; twice",
            b"type=file;unique=1-2; twice",
        ] {
            sorter.line(line);
        }
        let listed = sorter.end(true).await;
        assert_eq!(listed.seen.len(), 3);
        let counts = shared.totals.counts();
        assert_eq!((counts.files_found, counts.files_failed), (5, 2));
    }
}

//! Turns a listing, as it arrives, into work: every name checked, loops and floods cut off.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet};
use gridftp_data::Consumer;
use gridftp_dsi::{Error as StorageError, ErrorKind};

use super::job::{Above, DirJob, Facts, FileJob, Item};
use super::shared::Shared;
use crate::error::TransferError;
use crate::names;
use crate::url::show;

/// The longest line of a listing, in bytes.
const LINE: usize = 64 * 1024;
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
        let line = self.line.trim_ascii_end();
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
pub(crate) struct Sorter<'a> {
    shared: &'a Shared,
    dir: &'a DirJob,
    above: Option<Arc<Above>>,
    looped: bool,
    hasher: RandomState,
    /// Hashes of the names that were taken.
    pub(crate) seen: HashSet<u64>,
    /// What the listing says of the directory itself.
    pub(crate) own: Option<Facts>,
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(shared: &'a Shared, dir: &'a DirJob, seen: HashSet<u64>) -> Self {
        Self {
            shared,
            dir,
            above: None,
            looped: false,
            own: None,
            hasher: dir.hasher.clone(),
            seen,
        }
    }

    /// Takes one line.
    pub(crate) fn line(&mut self, line: &[u8]) {
        let (entry, known) = match Entry::parse(line) {
            Ok(parsed) => parsed,
            Err(error) => {
                let what = format!("listing has a line without facts: {error}");
                let path = show(&self.dir.from);
                return self.refuse(line, &TransferError::Source { path, what });
            }
        };
        if entry.kind == EntryKind::Cdir || entry.name == b"." {
            return self.own(&entry, known);
        }
        if entry.kind == EntryKind::Pdir || entry.name == b".." {
            return;
        }
        if let Err(error) = names::check(&entry.name) {
            return self.refuse(&entry.name, &error);
        }
        // After a listing that broke off, what it brought is not taken twice.
        if !self.seen.insert(self.hasher.hash_one(&entry.name)) {
            return;
        }
        let from = names::join(&self.dir.from, &entry.name);
        let to = names::join(&self.dir.to, &entry.name);
        let facts = Facts::of_entry(&entry, known);
        match entry.kind {
            _ if self.looped => {}
            EntryKind::File => self.shared.found(FileJob::new(from, to).with_facts(facts)),
            EntryKind::Dir => {
                let unique = known.contains(Fact::Unique).then_some(entry.unique);
                let above = self.above();
                let job = DirJob {
                    facts,
                    above,
                    ..DirJob::new(from, to)
                };
                // A directory that is one of those it is in was reached through a link.
                if job.descend(unique).is_some() {
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

    /// Takes what the listing says of the directory itself.
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
        self.shared.totals.found(None);
        let name = format!(
            "{}/{}",
            show(names::trim_slashes(&self.dir.from)),
            show(name)
        );
        self.shared.give_up(&name, error);
    }
}

fn looped(path: &[u8]) -> TransferError {
    TransferError::Source {
        path: show(path),
        what: "leads back to a directory that it is in; it is not copied again".to_owned(),
    }
}

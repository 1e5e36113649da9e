//! `Synced`: the record of the bytes of a partial file that are on the medium, kept by syncs beside
//! the upload, which waits for none of them.
//!
//! The record names the ranges that were held when a sync began, once that has ended well. It is a
//! file of its own, synced before it gets its name: the ordinary one is replaced unsynced each
//! second, and a power cut may leave such a file empty. It counts behind a crash of the machine, and
//! may be wrong there: the file may be one that was published and changed since, where the medium
//! has not taken the new name, or have the number of a removed one; and bytes may have been written
//! again. So an upload that goes on with these ranges is published with a digest of the whole file
//! only, read from it, and its ordinary record says so: the values of groups that were recorded
//! before the crash prove nothing. Nothing waits for the removal of the record to reach the medium,
//! for the same reason. Nothing is written once the upload has ended, since another one may have the
//! name then. Updates, shared uploads and files written in place have no such record.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use byte_ranges::RangeSet;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::record::read_synced;
use super::{is_at, lock};
use crate::blocking::run_beside;
use crate::journal::{self, Record};
use crate::names::Names;
use crate::uninterrupted::fdatasync;

/// Fewest bytes that are worth a sync.
pub(crate) const LEAST: u64 = 64 << 20;

/// Syncs the data of a file to the medium.
pub(crate) type Flush = fn(&OwnedFd) -> Result<(), Errno>;

/// The [`Flush`] of the kernel.
pub(crate) fn flush(file: &OwnedFd) -> Result<(), Errno> {
    fdatasync(file)
}

/// The record of one partial file.
#[derive(Debug)]
pub(crate) struct Synced {
    dir: Arc<OwnedFd>,
    name: Vec<u8>,
    names: Names,
    stat: Stat,
    /// Never locked across a sync.
    state: Mutex<State>,
    /// The descriptor for syncs, which does not share the lock of the writer: an upload may end before
    /// its sync does.
    file: OnceLock<OwnedFd>,
    /// The error of the first sync that failed: the medium lost bytes that were written.
    failed: OnceLock<Errno>,
}

#[derive(Debug, Default)]
struct State {
    /// The ranges that the record names.
    named: RangeSet,
    /// The ranges of the sync in progress; `None` once it is to end without a record.
    pending: Option<RangeSet>,
    /// Whether a sync is in progress.
    is_running: bool,
    /// Whether the upload has ended.
    has_ended: bool,
}

impl Synced {
    pub(super) fn of(dir: &Arc<OwnedFd>, name: &[u8], stat: &Stat) -> Self {
        Self {
            dir: Arc::clone(dir),
            name: name.to_vec(),
            names: Names::of(name),
            stat: *stat,
            state: Mutex::default(),
            file: OnceLock::new(),
            failed: OnceLock::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Goes on with the record that an earlier upload left, which held the ranges `held`.
    pub(super) fn open(&self, held: &RangeSet) {
        if held.total() >= LEAST {
            // A sync of that upload may still run, and take an error that a descriptor which is
            // opened later does not get.
            let _ = self.file();
        }
        let file = (self.name.as_slice(), self.stat.st_ino);
        if let Some(record) = read_synced(self.dir(), &self.names, file) {
            self.state().named = record.held;
        }
        // An end that failed may have cut the file.
        self.keep_to(held);
    }

    /// The error by which the medium lost bytes, if it did.
    pub(super) fn lost_by(&self) -> Option<Errno> {
        self.failed.get().copied()
    }

    /// Whether the medium lost bytes, and no record tells which ones it has.
    pub(super) fn is_all_lost(&self) -> bool {
        self.lost_by().is_some() && self.state().named.is_empty()
    }

    /// Fails once the medium has lost bytes; an ordinary record that was just written is removed.
    pub(super) fn must_be_sound(&self) -> Result<(), Errno> {
        let Some(errno) = self.lost_by() else {
            return Ok(());
        };
        self.forget_held();
        Err(errno)
    }

    /// Removes the ordinary record, which names bytes that are lost. Behind the end of the upload that
    /// takes the lock of the partial file: another upload that goes on with the bytes has it, and
    /// learns of them by its own syncs.
    fn forget_held(&self) {
        let state = self.state();
        if !state.has_ended {
            return self.unlink_held();
        }
        drop(state);
        let Some(file) = self.file.get() else {
            return;
        };
        // Shared: a list has the same lock for a moment, and NFS grants a read-only descriptor no
        // other.
        if lock(file.as_fd(), FlockOperation::NonBlockingLockShared).is_ok() {
            self.unlink_held();
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
        }
    }

    fn unlink_held(&self) {
        // A published file has no record, and another file may have the hidden name.
        if is_at(self.dir(), &self.names.partial, &self.stat)
            && let Err(error) = journal::remove(self.dir(), std::slice::from_ref(&self.names.held))
        {
            tracing::warn!(%error, "the record of lost bytes could not be removed");
        }
    }

    /// Has the record name no bytes but those in `held`: of others it is known that they are wrong, or
    /// to be sent again.
    pub(super) fn keep_to(&self, held: &RangeSet) {
        let is_within = |set: &RangeSet| set.iter().all(|range| held.covers(range));
        let mut state = self.state();
        state.pending.take_if(|pending| !is_within(pending));
        if !is_within(&state.named) {
            // The next sync writes another one.
            state.named.clear();
            self.unlink(&self.names.sync);
        }
    }

    /// Removes the record for good.
    pub(super) fn remove(&self) {
        self.end();
        self.state().named.clear();
        self.unlink(&self.names.sync);
    }

    /// Best effort: without a digest nothing goes on with a leftover, and another upload or the expiry
    /// removes it.
    fn unlink(&self, name: &Vec<u8>) {
        if let Err(error) = journal::remove(self.dir(), std::slice::from_ref(name)) {
            tracing::debug!(%error, "a record of synced bytes could not be removed");
        }
    }

    /// Writes no record from now on; a sync in progress ends without one.
    pub(super) fn end(&self) {
        let mut state = self.state();
        let had_ended = std::mem::replace(&mut state.has_ended, true);
        state.pending = None;
        if state.is_running && !had_ended {
            self.unlink(&self.names.sync_next);
        }
    }

    /// Begins a sync of the ranges `held` by `flush`, unless one is in progress, or few of them are
    /// unsynced. `facts` is a record without ranges.
    pub(super) fn start(
        self: &Arc<Self>,
        held: &RangeSet,
        facts: impl FnOnce() -> Record,
        flush: Flush,
    ) {
        {
            let mut state = self.state();
            let unsynced = held.total().saturating_sub(state.named.total());
            if state.is_running || state.has_ended || unsynced < LEAST {
                return;
            }
            state.is_running = true;
            state.pending = Some(held.clone());
        }
        let (facts, synced) = (facts(), Arc::clone(self));
        if !run_beside(move || synced.run(facts, flush)) {
            let mut state = self.state();
            (state.is_running, state.pending) = (false, None);
        }
    }

    fn run(&self, facts: Record, flush: Flush) {
        let done = self.sync(facts, flush);
        let mut state = self.state();
        state.pending = None;
        // No other begins where the file system syncs nothing.
        state.is_running = done == Err(Errno::OPNOTSUPP);
        if let Err(error) = done {
            tracing::debug!(%error, "no record of the synced bytes of an upload");
        }
    }

    fn sync(&self, mut record: Record, flush: Flush) -> Result<(), Errno> {
        match flush(self.file()?) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return Err(Errno::OPNOTSUPP),
            Err(errno) => {
                self.failed.get_or_init(|| errno);
                self.forget_held();
                return Err(errno);
            }
            Ok(()) => {}
        }
        let (dir, next) = (self.dir(), self.names.sync_next.as_slice());
        let file = {
            // The end of the upload takes `pending`, and removes the file from then on.
            let state = self.state();
            let Some(pending) = state.pending.clone() else {
                return Ok(());
            };
            record.held = pending;
            journal::create(dir, next)?
        };
        let owner = (self.name.as_slice(), self.stat.st_ino);
        let filled = journal::fill(file.as_fd(), owner, &record, true);
        {
            let mut state = self.state();
            if state.has_ended {
                return Ok(());
            }
            if filled.is_err() || state.pending.is_none() {
                self.unlink(&self.names.sync_next);
                return filled;
            }
            rustix::fs::renameat(dir, next, dir, self.names.sync.as_slice())?;
            state.named = record.held;
        }
        journal::sync_dir(dir)
    }

    /// The file, while it is the partial file.
    fn file(&self) -> Result<&OwnedFd, Errno> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        // Read-only: some file systems write everything back when a writable one is closed.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let partial = self.names.partial.as_slice();
        let file = rustix::fs::openat(self.dir(), partial, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if (stat.st_dev, stat.st_ino) != (self.stat.st_dev, self.stat.st_ino) {
            return Err(Errno::STALE);
        }
        Ok(self.file.get_or_init(|| file))
    }

    /// Whether a sync is in progress.
    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        self.state().is_running
    }
}

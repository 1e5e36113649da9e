//! `Synced`: the record of the bytes of a partial file that are on the medium, kept by syncs beside
//! the upload, which waits for none of them.
//!
//! After a power cut the record names only bytes that were written before a snapshot of the held
//! ranges, that a sync has then put on the medium, and that no write has touched since the
//! snapshot. Each write tells its range before it begins: one in progress at the snapshot is taken
//! out of that; one that begins during the sync, over ranges of the snapshot, ends the sync without
//! a record; one over recorded ranges first has the record on the medium end before them. The
//! values of groups alone would not do: the medium may take the new value of a group before its new
//! bytes, and the old bytes would pass for right ones. As the slot of a value is cleared on the
//! medium before its bytes change, a recorded group has its own value there or none. The record is
//! a file of its own, synced before it gets its name: the ordinary one is replaced unsynced each
//! second, and a power cut may leave such a file empty. Both tell the time at which the partial
//! file was created; a server that does not know this line refuses the ordinary record and begins
//! with another file, which the other record does not fit. Nothing is written once the upload has
//! ended, since another one may have the name then. Updates, shared uploads and files written in
//! place have no such record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use byte_ranges::{Range64, RangeSet};
use digest_tree::GROUP;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::is_at;
use super::record::read;
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
    /// Locked while the record is replaced, before the state.
    writing: Mutex<()>,
    /// Never locked across a sync.
    state: Mutex<State>,
    /// The file as opened for syncs: it does not share the lock of the writer, who may end earlier.
    file: OnceLock<OwnedFd>,
    /// Whether the medium lost bytes that were written.
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// All ranges that a record on the medium may name.
    named: RangeSet,
    /// The ranges of the sync in progress; `None` once one of them changes.
    pending: Option<RangeSet>,
    /// Whether a sync is in progress.
    is_running: bool,
    /// The writes in progress.
    writes: Vec<Range64>,
    /// Whether the upload has ended.
    has_ended: bool,
}

/// A write in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    synced: &'a Synced,
    range: Option<Range64>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.synced.state();
        let at = state.writes.iter().position(|it| Some(*it) == self.range);
        if let Some(at) = at {
            state.writes.swap_remove(at);
        }
    }
}

impl Synced {
    pub(super) fn of(dir: &Arc<OwnedFd>, name: &[u8], stat: &Stat) -> Self {
        Self {
            dir: Arc::clone(dir),
            name: name.to_vec(),
            names: Names::of(name),
            stat: *stat,
            writing: Mutex::new(()),
            state: Mutex::default(),
            file: OnceLock::new(),
            failed: AtomicBool::new(false),
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
        if let Some(record) = read(self.dir(), &self.names, &self.names.sync, file) {
            self.state().named = record.held;
        }
    }

    /// Whether a record may be on the medium, now or soon.
    pub(super) fn is_there(&self) -> bool {
        let state = self.state();
        state.is_running || !state.named.is_empty()
    }

    /// Whether the medium lost bytes.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether the medium lost bytes, and no record tells which ones it has.
    pub(super) fn is_all_lost(&self) -> bool {
        self.has_failed() && self.state().named.is_empty()
    }

    /// Fails once the medium has lost bytes; an ordinary record that was just written is removed.
    pub(super) fn must_be_sound(&self) -> Result<(), Errno> {
        if !self.has_failed() {
            return Ok(());
        }
        self.forget_held();
        Err(Errno::IO)
    }

    /// Removes the ordinary record, which names bytes that are lost; another upload that goes on with
    /// them has it, and learns of them by its own syncs.
    fn forget_held(&self) {
        let state = self.state();
        let file = self.file.get().filter(|_| state.has_ended);
        let lock = |how| file.map_or(Ok(()), |file| rustix::fs::flock(file, how));
        if lock(FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        // A published file has no record, and another file may have the hidden name.
        if is_at(self.dir(), &self.names.partial, &self.stat)
            && let Err(error) = journal::remove(self.dir(), std::slice::from_ref(&self.names.held))
        {
            tracing::warn!(%error, "the record of lost bytes could not be removed");
        }
        let _ = lock(FlockOperation::Unlock);
    }

    /// Notes that a write of `range` begins; no record on the medium names any of it when this
    /// returns. `facts` is a record without ranges.
    pub(super) fn change(
        &self,
        range: Option<Range64>,
        facts: impl Fn() -> Record,
    ) -> Result<Writing<'_>, Errno> {
        let writing = Writing {
            synced: self,
            range,
        };
        let Some(range) = range else {
            return Ok(writing);
        };
        let is_named = {
            let mut state = self.state();
            state.writes.push(range);
            state.pending.take_if(|pending| overlaps(pending, range));
            overlaps(&state.named, range)
        };
        if is_named {
            // Who sends bytes again goes on with the next ones: one sync for all of them.
            let begin = range.start() / GROUP * GROUP;
            let before = Range64::new(0, begin);
            let left = |named: &RangeSet| before.map_or_else(RangeSet::new, |all| named.clip(all));
            self.reduce(left, facts)?;
        }
        Ok(writing)
    }

    /// Has the record name no bytes but some of `held`.
    pub(super) fn keep_to(&self, held: &RangeSet, facts: impl Fn() -> Record) -> Result<(), Errno> {
        let is_within = |set: &RangeSet| set.iter().all(|range| held.covers(range));
        let is_named_within = {
            let mut state = self.state();
            state.pending.take_if(|pending| !is_within(pending));
            is_within(&state.named)
        };
        match is_named_within {
            true => Ok(()),
            false => self.reduce(|named| named.intersect(held), facts),
        }
    }

    /// Has the record name the ranges that `left` leaves of it, on the medium when this returns.
    fn reduce(
        &self,
        left: impl Fn(&RangeSet) -> RangeSet,
        facts: impl Fn() -> Record,
    ) -> Result<(), Errno> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (named, left) = {
            let named = &self.state().named;
            (named.total(), left(named))
        };
        // Another write may have reduced it meanwhile.
        if left.total() == named {
            return Ok(());
        }
        let mut record = facts();
        record.held = left;
        match self.replace(&record, |_| true) {
            Ok(true) => self.state().named = record.held,
            Ok(false) | Err(_) => {
                // A medium without room for another record, or an upload that could not be shared.
                self.remove_record()?;
                self.state().named.clear();
            }
        }
        Ok(())
    }

    /// Writes the record and syncs it; gives it its name if the upload goes on and `agree` says so.
    fn replace(
        &self,
        record: &Record,
        agree: impl FnOnce(&mut State) -> bool,
    ) -> Result<bool, Errno> {
        let next = self.names.sync_next.as_slice();
        let file = {
            let state = self.state();
            if state.has_ended {
                return Ok(false);
            }
            journal::create(self.dir(), next)?
        };
        let owner = (self.name.as_slice(), self.stat.st_ino);
        let filled = journal::fill(file.as_fd(), owner, record, true);
        {
            let mut state = self.state();
            // Its end has removed the file, of which another upload may have the name now.
            if state.has_ended {
                return Ok(false);
            }
            if filled.is_err() || !agree(&mut state) {
                rustix::fs::unlinkat(self.dir(), next, AtFlags::empty())?;
                return filled.map(|()| false);
            }
            rustix::fs::renameat(self.dir(), next, self.dir(), self.names.sync.as_slice())?;
        }
        journal::sync_dir(self.dir())?;
        Ok(true)
    }

    fn remove_record(&self) -> Result<(), Errno> {
        let records = [self.names.sync.clone(), self.names.sync_next.clone()];
        journal::remove(self.dir(), &records)?;
        journal::sync_dir(self.dir())
    }

    /// Removes the record for good, from the medium too.
    pub(super) fn remove(&self) -> Result<(), Errno> {
        let is_there = self.is_there();
        self.end();
        if is_there {
            self.remove_record()?;
            self.state().named.clear();
        }
        Ok(())
    }

    /// Has the medium forget the record, which was removed with the name of the file, while nobody
    /// waits: until then a crash of the machine would bring both back, where another upload may
    /// have the name.
    pub(super) fn forget_beside(&self) {
        if self.state().named.is_empty() {
            return;
        }
        let dir = Arc::clone(&self.dir);
        run_beside(move || {
            if let Err(error) = journal::sync_dir(dir.as_fd()) {
                tracing::debug!(%error, "the removal of a record is not synced");
            }
        });
    }

    /// Writes no record from now on; a sync in progress ends without one.
    pub(super) fn end(&self) {
        let mut state = self.state();
        let had_ended = std::mem::replace(&mut state.has_ended, true);
        state.pending = None;
        if state.is_running && !had_ended {
            // Best effort: the next upload or the expiry removes a leftover.
            let next = std::slice::from_ref(&self.names.sync_next);
            let _ = journal::remove(self.dir(), next);
        }
    }

    /// Begins a sync of the ranges `held` by `flush`, unless one is in progress, or few of them are
    /// unsynced. `facts` is a record without ranges, and the file with the values of groups.
    pub(super) fn start(
        self: &Arc<Self>,
        held: &RangeSet,
        facts: impl Fn() -> (Record, Option<Arc<OwnedFd>>),
        flush: Flush,
    ) {
        {
            let mut state = self.state();
            let unsynced = held.total().saturating_sub(state.named.total());
            if state.is_running || state.has_ended || unsynced < LEAST {
                return;
            }
            let mut snapshot = held.clone();
            for range in &state.writes {
                snapshot.remove(*range);
            }
            state.is_running = true;
            state.pending = Some(snapshot);
        }
        let ((facts, sums), synced) = (facts(), Arc::clone(self));
        if !run_beside(move || synced.run(facts, sums.as_deref(), flush)) {
            let mut state = self.state();
            (state.is_running, state.pending) = (false, None);
        }
    }

    fn run(&self, facts: Record, sums: Option<&OwnedFd>, flush: Flush) {
        let done = self.sync(facts, sums, flush);
        let mut state = self.state();
        state.pending = None;
        // No other begins where the file system syncs nothing.
        state.is_running = done == Err(Errno::OPNOTSUPP);
        if let Err(error) = done {
            tracing::debug!(%error, "no record of the synced bytes of an upload");
        }
    }

    fn sync(&self, mut record: Record, sums: Option<&OwnedFd>, flush: Flush) -> Result<(), Errno> {
        match flush(self.file()?) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return Err(Errno::OPNOTSUPP),
            Err(errno) => {
                self.failed.store(true, Ordering::Release);
                self.forget_held();
                return Err(errno);
            }
            Ok(()) => {}
        }
        // Groups without values are read again.
        if let Some(Err(error)) = sums.map(fdatasync) {
            tracing::debug!(%error, "the values of groups are not synced");
        }
        let Some(pending) = self.state().pending.clone() else {
            return Ok(());
        };
        record.held = pending;
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.replace(&record, |state| {
            let State { named, pending, .. } = state;
            if let Some(pending) = &*pending {
                named.extend(pending);
            }
            pending.is_some()
        })
        .map(drop)
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

fn overlaps(set: &RangeSet, range: Range64) -> bool {
    !set.clip(range).is_empty()
}

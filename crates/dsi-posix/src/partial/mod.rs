//! `PartialFile`: an upload under a hidden name, with one writer at a time, published by rename.
//!
//! The rules, for a target `NAME`:
//!
//! - The bytes are in `.NAME.gridftp-part`, which its writer locks.
//! - `.NAME.gridftp-held` records the ranges held. It names the inode of the partial file, is
//!   always replaced as a whole, and is removed before that file is removed or published, so that
//!   it never applies to other bytes.
//! - `.NAME.gridftp-sums` has the [values of its groups](crate::sums), and is removed with the record.
//! - `.NAME.gridftp-sync` is a [second record](synced), of the ranges on the medium. It counts where
//!   the first does not, as after a restart of the machine, for an upload that proves the whole file
//!   by a digest, and is removed with it.
//! - A partial file without a record has no value: a new upload replaces it, an update is refused.
//!   It gets no other bytes, since a process that shared the earlier upload may still write to it.
//! - A second writer that starts anew gets a unique name, without a record, which is never
//!   continued; the last to finish gets the target's name. A second writer that wants to continue
//!   gets `Busy`.
//! - An update begins with a copy of the published file, and replaces it only while that file still
//!   has the name.
//! - In a served tree, the index has an entry for each partial file as long as that exists.

mod publish;
mod record;
mod synced;

pub(crate) use self::record::recorded;
#[cfg(test)]
pub(crate) use self::synced::LEAST;
pub(crate) use self::synced::{Flush, flush};

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byte_ranges::RangeSet;
use gridftp_dsi::ErrorKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::copy;
use crate::error::{Fault, Outcome};
use crate::index::{Entry, Index};
use crate::journal::{self, Origin, Over};
use crate::names::Names;
use crate::root::{NOT_REGULAR, Target, is_regular, must_be_file};
use crate::shared::Place;
use crate::stat::touch;
use crate::sums::Sums;
use record::is_current;
use synced::Synced;

/// Most attempts to open a file that another writer renames between opening and locking.
pub(crate) const ATTEMPTS: u32 = 64;

/// Tries to lock a partial file, and the time between two.
const LOCKS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(5);

/// Smallest upload, in bytes, for which the free space is checked.
const LARGE: u64 = 1 << 20;

/// The initial content of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Nothing.
    Anew,
    /// The partial file of an earlier attempt.
    Resume,
    /// A copy of the published file.
    Update,
}

/// An upload in progress.
#[derive(Debug)]
pub(crate) struct PartialFile {
    dir: Arc<OwnedFd>,
    name: Vec<u8>,
    names: Names,
    /// Its present name: `names.partial`, or a unique one.
    temp: Vec<u8>,
    file: OwnedFd,
    /// Facts of the file at opening: its inode and owner stay.
    stat: rustix::fs::Stat,
    /// Size of the file that had the target's name at the beginning, which publishing frees.
    replaces: u64,
    /// The number that makes `temp` unique; such a file is never continued.
    once: Option<u64>,
    /// The published file that this is an update of.
    over: Option<Over>,
    /// The source of the bytes, where one was told.
    origin: Option<Origin>,
    /// Bytes of the whole file, where the upload told them.
    size: Option<u64>,
    /// Whether a partial file with another origin had its name.
    other_removed: bool,
    /// Its entry in the index of the tree, if any.
    entry: Option<Entry>,
    sums: Sums,
    synced: Arc<Synced>,
    /// Whether it goes on with bytes that only a digest of the whole file proves.
    unproven: bool,
    /// Whether the medium has no space for it, so that the partial file is removed.
    no_space: AtomicBool,
    /// Whether a record on disk makes the partial file worth keeping.
    recorded: AtomicBool,
    /// Whether the last record holds no bytes, so that the partial file is removed.
    empty: AtomicBool,
    /// Whether the file was published or removed.
    gone: AtomicBool,
}

impl PartialFile {
    /// Begins or continues an upload to `target`; returns it with the ranges that it holds.
    ///
    /// The copy for an update ends once `stop` is set.
    pub(crate) fn begin(
        target: Target,
        how: Begin,
        size: Option<u64>,
        stop: &AtomicBool,
    ) -> Outcome<(Self, RangeSet)> {
        let replaces = target.old_size();
        let Target {
            dir,
            name,
            old,
            index,
            origin,
        } = target;
        if old.as_ref().is_some_and(|old| !is_regular(old)) {
            return Err(NOT_REGULAR);
        }
        let (dir, names) = (Arc::new(dir), Names::of(&name));
        enough_space(dir.as_fd(), &names.partial, size)?;
        // The replacement of a private file is not public during the upload; the owner can write.
        let mode = Mode::from_raw_mode(old.map_or(0o666, |old| old.st_mode & 0o666 | 0o600));
        let (mut once, mut other_removed) = (None, false);
        for _ in 0..ATTEMPTS {
            let (temp, flags) = match once {
                Some(number) => (Names::once(&name, number), OFlags::EXCL),
                None => (names.partial.clone(), OFlags::empty()),
            };
            // The entry precedes the file, so that a killed process leaves no unlisted file.
            let entry = match &index {
                Some(index) => index.add(dir.as_fd(), &temp)?,
                None => None,
            };
            let file = match create(dir.as_fd(), &temp, flags, mode) {
                Err(Errno::EXIST) => {
                    once = Some(random());
                    continue;
                }
                done => done?,
            };
            match lock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if how != Begin::Anew => {
                    return Err(Fault::Rule(
                        ErrorKind::Busy,
                        "another upload to this name is in progress",
                    ));
                }
                Err(Errno::WOULDBLOCK) => {
                    once = Some(random());
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            }
            let (file, stat) = must_be_file(file)?;
            // Between opening and locking, its last writer may have published or removed it.
            if !is_at(dir.as_fd(), &temp, &stat) {
                continue;
            }
            let mut partial = Self {
                dir: Arc::clone(&dir),
                name: name.clone(),
                names: names.clone(),
                temp,
                file,
                stat,
                replaces,
                once,
                over: None,
                origin: origin.as_deref().cloned(),
                size,
                other_removed,
                entry,
                sums: Sums::default(),
                synced: Arc::new(Synced::of(&dir, &name, &stat)),
                unproven: false,
                no_space: AtomicBool::new(false),
                recorded: AtomicBool::new(false),
                empty: AtomicBool::new(false),
                gone: AtomicBool::new(false),
            };
            if let Some(held) = partial.take_over(index.as_ref(), how, stop)? {
                return Ok((partial, held));
            }
            other_removed = partial.other_removed;
        }
        Err(Errno::BUSY.into())
    }

    /// The ranges that an upload to `target` would continue from; changes nothing.
    pub(crate) fn look(target: &Target) -> Outcome<RangeSet> {
        let (dir, names) = (target.dir.as_fd(), Names::of(&target.name));
        match rustix::fs::statat(dir, names.partial.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(partial) => Ok(recorded(dir, &names, &target.name, &partial)
                .filter(|record| record.origin == target.origin.as_deref().cloned())
                .filter(|record| is_current(dir, &target.name, record))
                .map_or_else(RangeSet::new, |record| record.held)),
            Err(Errno::NOENT) => Ok(RangeSet::new()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the ranges held by the partial file; removes one that is not continued, since
    /// another process may still write to it, and then returns `None`.
    fn take_over(
        &mut self,
        index: Option<&Arc<Index>>,
        how: Begin,
        stop: &AtomicBool,
    ) -> Outcome<Option<RangeSet>> {
        let dir = self.dir.as_fd();
        if self.once.is_none() {
            let record = recorded(dir, &self.names, &self.name, &self.stat);
            // A partial file keeps its one entry when it is continued.
            if let (Some(index), Some(id)) = (index, record.as_ref().and_then(|r| r.entry.as_ref()))
                && let Some(entry) = index.adopt(id, dir, &self.temp)
            {
                self.entry = Some(entry);
            }
            if how == Begin::Resume
                && let Some(record) = &record
                && record.origin == self.origin
                && is_current(dir, &self.name, record)
            {
                self.recorded.store(true, Ordering::Relaxed);
                // Though no byte may come, it is not to expire.
                touch(self.file.as_fd());
                self.over = record.over;
                self.size = self.size.or(record.size);
                self.unproven = record.unproven;
                self.synced.open(&record.held);
                if self.unproven {
                    self.drop_sums()?;
                } else {
                    let reopened = self.sums.reopen(dir, &self.names.sums, &record.held);
                    self.without_sums(reopened)?;
                }
                return Ok(Some(record.held.clone()));
            }
            let origin = record.as_ref().and_then(|record| record.origin.as_ref());
            self.other_removed |=
                how == Begin::Resume && origin.is_some_and(|it| Some(it) != self.origin.as_ref());
            // Without a record, as after a crash, it is unknown which of its bytes are on the disk.
            let of_new = record.map_or(self.stat.st_size > 0, |record| record.over.is_none());
            if how == Begin::Update && of_new {
                self.recorded.store(true, Ordering::Relaxed);
                return Err(Fault::Rule(
                    ErrorKind::Incomplete,
                    "an interrupted upload to this name is kept: continue or remove it first",
                ));
            }
            journal::remove(dir, &self.names.records())?;
            if self.stat.st_size > 0 {
                rustix::fs::unlinkat(dir, self.temp.as_slice(), AtFlags::empty())?;
                return Ok(None);
            }
        }
        Ok(Some(match how {
            Begin::Update => self.copy_published(stop)?,
            Begin::Anew | Begin::Resume => RangeSet::new(),
        }))
    }

    /// Fills the partial file with a copy of the published file, if there is one.
    fn copy_published(&mut self, stop: &AtomicBool) -> Outcome<RangeSet> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let (old, stat) =
            match rustix::fs::openat(&self.dir, self.name.as_slice(), flags, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(RangeSet::new()),
                done => must_be_file(done?)?,
            };
        let over = Over::of(&stat);
        copy::copy(old.as_fd(), self.file.as_fd(), over.size, stop)?;
        self.over = Some(over);
        Ok(RangeSet::up_to(over.size))
    }

    /// Says whether a partial file of another source, or of another version of it, was removed.
    pub(crate) fn is_other_removed(&self) -> bool {
        self.other_removed
    }

    /// The source of the bytes, where one was told.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Says whether the partial file stays after this value.
    pub(crate) fn keeps(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.recorded)
            && !is_set(&self.empty)
            && !is_set(&self.no_space)
            && !self.synced.is_all_lost()
    }

    /// Marks the partial file for removal, also if it has a record.
    pub(crate) fn give_up(&self) {
        self.no_space.store(true, Ordering::Relaxed);
    }

    /// Size of the file that had the target's name at the beginning.
    pub(crate) fn replaces(&self) -> u64 {
        self.replaces
    }

    /// Size of the published file that this is an update of.
    pub(crate) fn updates(&self) -> Option<u64> {
        self.over.map(|over| over.size)
    }

    /// The place of its file.
    pub(crate) fn place(&self) -> Place {
        self.once.map_or(Place::Partial, Place::Once)
    }

    /// The open partial file.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Refuses a record of a file that is never continued: one with a unique name, or without space.
    pub(crate) fn must_be_recordable(&self) -> Outcome<()> {
        // A file with a unique name is never continued: a client that got a marker for it would
        // continue behind the bytes of the other upload.
        if self.once.is_some() {
            return Err(Fault::Rule(
                ErrorKind::Busy,
                "only another upload to this name can be continued",
            ));
        }
        if self.no_space.load(Ordering::Relaxed) {
            return Err(Fault::Rule(
                ErrorKind::NoSpace,
                "there is no space for the whole file, so its partial file is removed",
            ));
        }
        Ok(())
    }

    /// Removes the partial file and its records.
    fn discard(&self) {
        if self.gone.swap(true, Ordering::Relaxed) {
            return;
        }
        self.synced.end();
        let dir = self.dir.as_fd();
        // Best effort: the expiry removes a leftover.
        // The record may have failed behind the values.
        if (self.recorded.swap(false, Ordering::Relaxed) || self.sums.is_there())
            && journal::remove(dir, &self.names.records()).is_err()
        {
            return self.leave();
        }
        if is_at(dir, &self.temp, &self.stat)
            && rustix::fs::unlinkat(dir, self.temp.as_slice(), AtFlags::empty()).is_err()
        {
            self.leave();
        }
    }

    /// Keeps the entry in the index, as the partial file stays.
    fn leave(&self) {
        if let Some(entry) = &self.entry {
            entry.keep();
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.keeps() {
            self.discard();
            return;
        }
        // Another upload may continue the file from now on.
        self.synced.end();
        if !self.gone.load(Ordering::Relaxed) {
            self.leave();
        }
    }
}

fn create(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let always = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::openat(dir, name, always | careful | flags, mode)
}

/// Locks a partial file by `how`, which does not block. A list of the partial files has each locked for
/// a moment, which is waited out.
fn lock(file: BorrowedFd<'_>, how: FlockOperation) -> Result<(), Errno> {
    let mut tries = LOCKS;
    loop {
        let locked = rustix::fs::flock(file, how);
        tries -= 1;
        if locked != Err(Errno::WOULDBLOCK) || tries == 0 {
            return locked;
        }
        std::thread::sleep(MOMENT);
    }
}

/// Whether the entry `name` of `dir` is the file that `stat` describes.
pub(crate) fn is_at(dir: BorrowedFd<'_>, name: &[u8], stat: &rustix::fs::Stat) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino))
}

/// Refuses an upload that cannot fit, counting the blocks of the partial file `partial` as free.
fn enough_space(dir: BorrowedFd<'_>, partial: &[u8], size: Option<u64>) -> Outcome<()> {
    if let Some(size) = size.filter(|size| *size >= LARGE) {
        let room = rustix::fs::fstatvfs(dir)?;
        let taken = rustix::fs::statat(dir, partial, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(0, |partial| u64::try_from(partial.st_blocks).unwrap_or(0));
        let room = room.f_bavail.saturating_mul(room.f_frsize);
        if size > room.saturating_add(taken.saturating_mul(512)) {
            return Err(Errno::NOSPC.into());
        }
    }
    Ok(())
}

/// A random number; `O_EXCL` detects a collision.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

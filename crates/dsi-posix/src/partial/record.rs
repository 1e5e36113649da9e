//! The records of a `PartialFile`: its ranges, and the values of its groups.

use std::sync::atomic::Ordering;

use byte_ranges::{Range64, RangeSet};
use gridftp_dsi::GroupValue;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{Flush, LEAST, PartialFile, Writing};
use crate::error::Outcome;
use crate::journal::{self, Born, Over, Record};
use crate::names::Names;

impl PartialFile {
    /// Records that `held` is written; with `durable` the bytes are on the medium, and then the
    /// record as well.
    pub(crate) fn checkpoint(&self, held: &RangeSet, durable: bool) -> Outcome<()> {
        self.must_be_recordable()?;
        self.synced.keep_to(held, || self.facts())?;
        let place = (self.dir.as_fd(), &*self.names.sums, self.stat.st_ino);
        self.without_sums(self.sums.record(place, held, durable))?;
        let mut record = self.facts();
        // Also where the sync that begins behind this record is the first one.
        let is_alone = (durable || held.total() < LEAST) && !self.synced.is_there();
        record.born = record.born.filter(|_| !is_alone);
        record.held = held.clone();
        journal::write(
            self.dir.as_fd(),
            &self.names,
            &self.name,
            self.stat.st_ino,
            &record,
            durable,
        )?;
        self.recorded.store(true, Ordering::Relaxed);
        self.empty.store(held.is_empty(), Ordering::Relaxed);
        Ok(self.synced.must_be_sound()?)
    }

    /// A record without ranges.
    fn facts(&self) -> Record {
        let born = self
            .born
            .get_or_init(|| journal::born(self.file.as_fd(), b""));
        Record {
            held: RangeSet::new(),
            over: self.over,
            entry: self.entry.as_ref().map(|entry| entry.id().to_owned()),
            origin: self.origin.clone(),
            size: self.size,
            born: Some(*born),
        }
    }

    /// Begins to sync the recorded ranges `held` by `flush`, beside the upload, where that is
    /// worthwhile and no sync is in progress. The unwritten bytes of an update are those of another
    /// file, so that it is not synced.
    pub(crate) fn sync_beside(&self, held: &RangeSet, flush: Flush) {
        if self.over.is_none() {
            self.synced
                .start(held, || (self.facts(), self.sums.file()), flush);
        }
    }

    /// Whether a sync beside the upload found that bytes are lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.synced.has_failed()
    }

    /// Goes on without the values of groups where they cannot be kept: the bytes are read again.
    pub(super) fn without_sums(&self, kept: Result<(), Errno>) -> Result<(), Errno> {
        let Err(error) = kept else {
            return Ok(());
        };
        tracing::debug!(%error, "the values of groups are not kept");
        self.drop_sums()
    }

    fn drop_sums(&self) -> Result<(), Errno> {
        self.sums.close();
        if self.once.is_some() {
            return Ok(());
        }
        journal::remove(self.dir.as_fd(), std::slice::from_ref(&self.names.sums))
    }

    /// Has others write to the partial file as well: their writes neither clear the values of the
    /// bytes that they change, nor take these from the record of bytes on the medium.
    pub(crate) fn share(&self) -> Result<(), Errno> {
        self.drop_sums()?;
        self.synced.remove()
    }

    /// Has the next record include these values of groups.
    pub(crate) fn note_groups(&self, values: Vec<GroupValue>) {
        if self.once.is_none() {
            self.sums.note(values);
        }
    }

    /// The values of groups in `held`.
    pub(crate) fn groups(&self, held: &RangeSet) -> Result<Vec<GroupValue>, Errno> {
        self.sums.values(self.stat.st_ino, held)
    }

    /// Forgets the records on the medium of bytes that a write is about to change; the value is
    /// dropped behind the write.
    pub(crate) fn changes(&self, offset: u64, length: usize) -> Result<Writing<'_>, Errno> {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let range = Range64::from_len(offset, length);
        let writing = self.synced.change(range, || self.facts())?;
        self.without_sums(self.sums.forget(offset, length))?;
        Ok(writing)
    }

    /// The record of the syncs beside the upload, which may end later than this value.
    #[cfg(test)]
    pub(crate) fn synced(&self) -> std::sync::Arc<super::Synced> {
        std::sync::Arc::clone(&self.synced)
    }
}

/// The record of the partial file `partial`, with its ranges clipped to the size of that file: that
/// of the ranges written, or where it does not count, that of those on the medium.
pub(crate) fn recorded(
    dir: BorrowedFd<'_>,
    names: &Names,
    name: &[u8],
    partial: &rustix::fs::Stat,
) -> Option<Record> {
    let read = |from: &[u8]| read(dir, names, from, (name, partial.st_ino));
    let mut record = read(&names.held).or_else(|| read(&names.sync))?;
    let size = u64::try_from(partial.st_size).unwrap_or(0);
    record.held = Range64::new(0, size).map_or_else(RangeSet::new, |all| record.held.clip(all));
    Some(record)
}

/// The record `from`, if it is of this very file.
pub(super) fn read(
    dir: BorrowedFd<'_>,
    names: &Names,
    from: &[u8],
    (name, inode): (&[u8], u64),
) -> Option<Record> {
    let record = journal::read(dir, from, name, inode)?;
    let is_of_it = |born: Born| born == journal::born(dir, &names.partial);
    record.born.is_none_or(is_of_it).then_some(record)
}

/// Whether the published file `name` is still the one that an update began with.
pub(super) fn is_current(dir: BorrowedFd<'_>, name: &[u8], record: &Record) -> bool {
    record.over.is_none_or(|over| {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|there| Over::of(&there) == over)
    })
}

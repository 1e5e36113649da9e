//! The records of a `PartialFile`: its ranges, and the values of its groups.

use std::sync::atomic::Ordering;

use byte_ranges::{Range64, RangeSet};
use gridftp_dsi::GroupValue;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{Flush, PartialFile};
use crate::error::Outcome;
use crate::journal::{self, Over, Record};
use crate::names::Names;

impl PartialFile {
    /// Records that `held` is written; with `durable` the bytes are on the medium, and then the
    /// record as well.
    pub(crate) fn checkpoint(&self, held: &RangeSet, durable: bool) -> Outcome<()> {
        self.must_be_recordable()?;
        self.synced.keep_to(held);
        let place = (self.dir.as_fd(), &*self.names.sums, self.stat.st_ino);
        self.without_sums(self.sums.record(place, held, durable))?;
        let mut record = self.facts();
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
        Record {
            held: RangeSet::new(),
            over: self.over,
            entry: self.entry.as_ref().map(|entry| entry.id().to_owned()),
            origin: self.origin.clone(),
            size: self.size,
            born: None,
            unproven: self.unproven,
        }
    }

    /// Begins to sync the recorded ranges `held` by `flush`, beside the upload, where that is
    /// worthwhile and no sync is in progress. The unwritten bytes of an update are those of another
    /// file, so that it is not synced.
    pub(crate) fn sync_beside(&self, held: &RangeSet, flush: Flush) {
        if self.over.is_none() {
            let facts = || Record {
                born: Some(journal::born(self.file.as_fd(), b"")),
                ..self.facts()
            };
            self.synced.start(held, facts, flush);
        }
    }

    /// The error of a sync beside the upload, by which bytes are lost.
    pub(crate) fn lost_by(&self) -> Option<Errno> {
        self.synced.lost_by()
    }

    /// Goes on without the values of groups where they cannot be kept: the bytes are read again.
    pub(super) fn without_sums(&self, kept: Result<(), Errno>) -> Result<(), Errno> {
        let Err(error) = kept else {
            return Ok(());
        };
        tracing::debug!(%error, "the values of groups are not kept");
        self.drop_sums()
    }

    /// Keeps no values of groups: others write to the partial file as well, or they are of bytes that
    /// only a digest of the whole file proves.
    pub(super) fn drop_sums(&self) -> Result<(), Errno> {
        self.sums.close();
        if self.once.is_some() {
            return Ok(());
        }
        journal::remove(self.dir.as_fd(), std::slice::from_ref(&self.names.sums))
    }

    /// Has others write to the partial file as well: their writes neither clear the values of the
    /// bytes that they change, nor reach the medium by the syncs of this machine. Values are kept where
    /// they write outside of the ranges `kept` alone.
    pub(crate) fn share(&self, kept: Option<&RangeSet>) -> Result<(), Errno> {
        // Beside a file with a unique name the records are those of another upload.
        if self.once.is_none() {
            self.synced.remove();
        }
        match kept {
            Some(kept) => self.without_sums(self.sums.keep_to(kept)),
            None => self.drop_sums(),
        }
    }

    /// Whether the file is published with a digest of all its bytes only.
    pub(crate) fn is_unproven(&self) -> bool {
        self.unproven
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

    /// Forgets the values of groups of which a write changes bytes.
    pub(crate) fn changes(&self, offset: u64, length: usize) -> Result<(), Errno> {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.without_sums(self.sums.forget(offset, length))
    }

    /// The record of the syncs beside the upload, which may end later than this value.
    #[cfg(test)]
    pub(crate) fn synced(&self) -> std::sync::Arc<super::Synced> {
        std::sync::Arc::clone(&self.synced)
    }
}

/// The record of the partial file `partial`, with its ranges clipped to the size of that file: that
/// of the ranges written, or where it does not count, that of those on the medium, which are to be
/// proven.
pub(crate) fn recorded(
    dir: BorrowedFd<'_>,
    names: &Names,
    name: &[u8],
    partial: &rustix::fs::Stat,
) -> Option<Record> {
    let owner = (name, partial.st_ino);
    let mut record = match journal::read(dir, &names.held, name, partial.st_ino) {
        Some(record) => record,
        None => Record {
            unproven: true,
            ..read_synced(dir, names, owner)?
        },
    };
    let size = u64::try_from(partial.st_size).unwrap_or(0);
    record.held = Range64::new(0, size).map_or_else(RangeSet::new, |all| record.held.clip(all));
    Some(record)
}

/// The record of the ranges on the medium, if it is of this very file.
pub(super) fn read_synced(
    dir: BorrowedFd<'_>,
    names: &Names,
    (name, inode): (&[u8], u64),
) -> Option<Record> {
    let record = journal::read(dir, &names.sync, name, inode)?;
    (record.born? == journal::born(dir, &names.partial)).then_some(record)
}

/// Whether the published file `name` is still the one that an update began with.
pub(super) fn is_current(dir: BorrowedFd<'_>, name: &[u8], record: &Record) -> bool {
    record.over.is_none_or(|over| {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|there| Over::of(&there) == over)
    })
}

//! The records of a `PartialFile`: its ranges, and the values of its groups.

use std::sync::atomic::Ordering;

use byte_ranges::{Range64, RangeSet};
use gridftp_dsi::GroupValue;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::PartialFile;
use crate::error::Outcome;
use crate::journal::{self, Over, Record};
use crate::names::Names;

impl PartialFile {
    /// Records that `held` is written; with `durable` the bytes are on the medium, and then the
    /// record as well.
    pub(crate) fn checkpoint(&self, held: &RangeSet, durable: bool) -> Outcome<()> {
        self.must_be_recordable()?;
        let place = (self.dir.as_fd(), &*self.names.sums, self.stat.st_ino);
        self.without_sums(self.sums.record(place, held, durable))?;
        let record = Record {
            held: held.clone(),
            over: self.over,
            entry: self.entry.as_ref().map(|entry| entry.id().to_owned()),
            origin: self.origin.clone(),
            size: self.size,
        };
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
        Ok(())
    }

    /// Goes on without the values of groups where they cannot be kept: the bytes are read again.
    pub(super) fn without_sums(&self, kept: Result<(), Errno>) -> Result<(), Errno> {
        let Err(error) = kept else {
            return Ok(());
        };
        tracing::debug!(%error, "the values of groups are not kept");
        self.drop_sums()
    }

    /// Drops the values of groups, as others write to the partial file as well.
    pub(crate) fn drop_sums(&self) -> Result<(), Errno> {
        self.sums.close();
        if self.once.is_some() {
            return Ok(());
        }
        journal::remove(self.dir.as_fd(), std::slice::from_ref(&self.names.sums))
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
}

/// The record of the partial file `partial`, with its ranges clipped to the size of that file.
pub(super) fn recorded(
    dir: BorrowedFd<'_>,
    names: &Names,
    name: &[u8],
    partial: &rustix::fs::Stat,
) -> Option<Record> {
    let mut record = journal::read(dir, names, name, partial.st_ino)?;
    let size = u64::try_from(partial.st_size).unwrap_or(0);
    record.held = Range64::new(0, size).map_or_else(RangeSet::new, |all| record.held.clip(all));
    Some(record)
}

/// Whether the published file `name` is still the one that an update began with.
pub(super) fn is_current(dir: BorrowedFd<'_>, name: &[u8], record: &Record) -> bool {
    record.over.is_none_or(|over| {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|there| Over::of(&there) == over)
    })
}

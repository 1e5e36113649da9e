//! The publication of a `PartialFile`: the last checks, and its new name.

use std::sync::atomic::Ordering;

use byte_ranges::RangeSet;
use gridftp_dsi::{ErrorKind, Finish, Stat};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::{PartialFile, is_at};
use crate::complete::{copy_metadata, settle_size, verify};
use crate::error::{Fault, Outcome};
use crate::journal::{self, Over};
use crate::late;
use crate::new_name;
use crate::root::NOT_REGULAR;
use crate::stat::stat_of;

/// The error of an exclusive upload to a name that exists.
const TAKEN: Fault = Fault::Rule(ErrorKind::Exists, "the upload was to replace nothing");

impl PartialFile {
    /// Checks the file and gives it the target's name; with `sync`, syncs both to the medium.
    pub(crate) fn publish(&self, done: &Finish, sync: bool) -> Outcome<Stat> {
        let dir = self.dir.as_fd();
        let len = settle_size(self.file(), done)?;
        if let Err(fault) = verify(self.file(), done) {
            if matches!(fault, Fault::Rule(ErrorKind::Mismatch, _)) {
                self.discard();
            }
            return Err(fault);
        }
        let old = self.replaceable(done.exclusive)?;
        copy_metadata(self.file(), old.as_ref(), done)?;
        if let Err(errno) = late::settle(self.file(), sync) {
            // It is unknown which of the bytes are lost.
            self.discard();
            return Err(errno.into());
        }
        if !is_at(dir, &self.temp, &self.stat) {
            self.gone.store(true, Ordering::Relaxed);
            return Err(Fault::Rule(
                ErrorKind::Changed,
                "the partial file was removed during the upload",
            ));
        }
        self.rename(done.exclusive, len)?;
        if sync {
            journal::sync_dir(dir)?;
        }
        Ok(stat_of(
            self.name.as_slice(),
            &rustix::fs::fstat(&self.file)?,
        ))
    }

    /// The file that has the target's name, if it may be replaced.
    fn replaceable(&self, exclusive: bool) -> Outcome<Option<rustix::fs::Stat>> {
        let name = self.name.as_slice();
        let old = match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => Some(old),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        if exclusive && old.is_some() {
            self.discard();
            return Err(TAKEN);
        }
        match old.as_ref().map(|old| FileType::from_raw_mode(old.st_mode)) {
            None | Some(FileType::RegularFile) => {}
            Some(FileType::Directory) => return Err(Errno::ISDIR.into()),
            Some(_) => return Err(NOT_REGULAR),
        }
        if self.over.is_some() && self.over != old.as_ref().map(Over::of) {
            self.discard();
            return Err(Fault::Rule(
                ErrorKind::Changed,
                "the file was changed or replaced while a copy of it was updated",
            ));
        }
        Ok(old)
    }

    /// Gives the file of `len` bytes the target's name.
    fn rename(&self, exclusive: bool, len: u64) -> Outcome<()> {
        let dir = self.dir.as_fd();
        self.synced.end();
        // Remove the record first: a leftover record could apply to another file.
        let recorded = self.recorded.swap(false, Ordering::Relaxed);
        if recorded || self.sums.is_there() {
            journal::remove(dir, &self.names.records())?;
        }
        let (temp, name) = (self.temp.as_slice(), self.name.as_slice());
        let named = match exclusive {
            true => new_name::rename(dir, temp, name),
            false => rustix::fs::renameat(dir, temp, dir, name),
        };
        if let Err(errno) = named {
            if exclusive && errno == Errno::EXIST {
                self.discard();
                return Err(TAKEN);
            }
            if recorded {
                // Best effort: the rename has failed, and the upload with it.
                let _ = self.checkpoint(&RangeSet::up_to(len), false);
            }
            return Err(errno.into());
        }
        self.gone.store(true, Ordering::Relaxed);
        Ok(())
    }
}

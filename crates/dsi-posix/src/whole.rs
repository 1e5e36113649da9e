//! `Whole`: an upload that gets its name once it is complete, without a hidden name if it is small.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError};

use byte_ranges::RangeSet;
use gridftp_dsi::{Finish, Stat};
use rustix::fd::AsFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::complete::{copy_metadata, settle_size, verify};
use crate::copy::write_all;
use crate::error::Outcome;
use crate::journal::{self, Origin};
use crate::late;
use crate::names::Names;
use crate::partial::{Begin, PartialFile};
use crate::root::{Target, is_regular};
use crate::stat::stat_of;
use crate::unnamed;

/// Longest first block that is held in memory until the next operation, so that a small file is
/// written and published in one blocking call.
pub(crate) const SMALL: usize = 64 * 1024;

/// An upload that `publish` gives its name.
///
/// A file announced as small begins without a name: its bytes stay in memory, and the kernel names
/// the whole file in one step, so that a killed process leaves nothing. Any other operation turns
/// it into a [`PartialFile`], as all other uploads are from the start.
#[derive(Debug)]
pub(crate) struct Whole {
    partial: OnceLock<Box<PartialFile>>,
    /// The target of an upload that began without a name.
    target: Mutex<Option<Target>>,
}

impl Whole {
    /// Begins or continues an upload to `target`; returns it with the ranges that it holds.
    ///
    /// The copy for an update ends once `stop` is set.
    pub(crate) fn begin(
        target: Target,
        how: Begin,
        size: Option<u64>,
        stop: &AtomicBool,
    ) -> Outcome<(Self, RangeSet)> {
        let small = size.is_some_and(|size| size <= SMALL as u64);
        // A partial file of an earlier upload could otherwise be continued behind these bytes.
        let nameless = match &target.old {
            None => true,
            // The replacement needs a name in the index.
            Some(old) => is_regular(old) && target.index.is_some(),
        };
        if small && how == Begin::Anew && nameless && is_new(&target) {
            let target = Mutex::new(Some(target));
            let partial = OnceLock::new();
            return Ok((Self { partial, target }, RangeSet::new()));
        }
        let (partial, held) = PartialFile::begin(target, how, size, stop)?;
        let partial = OnceLock::from(Box::new(partial));
        let target = Mutex::new(None);
        Ok((Self { partial, target }, held))
    }

    /// Size of the file that had the target's name at the beginning.
    pub(crate) fn replaces(&self) -> u64 {
        if let Some(partial) = self.partial.get() {
            return partial.replaces();
        }
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.as_ref().map_or(0, Target::old_size)
    }

    /// Size of the published file that this is an update of.
    pub(crate) fn updates(&self) -> Option<u64> {
        self.partial.get()?.updates()
    }

    /// Says whether a partial file of another source, or of another version of it, was removed.
    pub(crate) fn is_other_removed(&self) -> bool {
        self.partial
            .get()
            .is_some_and(|partial| partial.is_other_removed())
    }

    /// The source of the bytes, where one was told.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.partial.get()?.origin()
    }

    /// Says whether the partial file outlives this value.
    pub(crate) fn keeps(&self) -> bool {
        self.partial.get().is_some_and(|partial| partial.keeps())
    }

    /// The error of a sync beside the upload, by which bytes are lost.
    pub(crate) fn lost_by(&self) -> Option<Errno> {
        self.partial.get()?.lost_by()
    }

    /// Whether it is published with a digest of all its bytes only.
    pub(crate) fn is_unproven(&self) -> bool {
        self.partial
            .get()
            .is_some_and(|partial| partial.is_unproven())
    }

    /// Marks the partial file for removal.
    pub(crate) fn give_up(&self) {
        if let Some(partial) = self.partial.get() {
            partial.give_up();
        }
    }

    /// The partial file, which is created now if there is none.
    pub(crate) fn partial(&self) -> Outcome<&PartialFile> {
        if let Some(partial) = self.partial.get() {
            return Ok(partial);
        }
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if self.partial.get().is_none()
            && let Some(target) = &*target
        {
            // A copy, so that a failed call can be repeated.
            let target = Target {
                dir: target.dir.try_clone().map_err(|_| Errno::MFILE)?,
                name: target.name.clone(),
                old: target.old,
                index: target.index.clone(),
                origin: target.origin.clone(),
            };
            let (partial, _) =
                PartialFile::begin(target, Begin::Anew, None, &AtomicBool::new(false))?;
            let _ = self.partial.set(Box::new(partial));
        }
        let partial = self.partial.get();
        Ok(partial.expect("there is a target or a partial, and the one has just become the other"))
    }

    /// Creates and names a file with `data` at `offset` as its only content; `None` if it must be
    /// published as a [`PartialFile`], which also reports a fault of its target.
    pub(crate) fn publish_at_once(
        &self,
        offset: u64,
        data: &[u8],
        done: &Finish,
        sync: bool,
    ) -> Outcome<Option<Stat>> {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = target.as_ref().filter(|_| self.partial.get().is_none()) else {
            return Ok(None);
        };
        let (dir, name) = (target.dir.as_fd(), target.name.as_slice());
        let Some(file) = unnamed::create(dir) else {
            return Ok(None);
        };
        let file = file.as_fd();
        write_all(file, data, offset)?;
        settle_size(file, done)?;
        verify(file, done)?;
        let old = match target.old {
            // Its mode and owner may have changed since.
            Some(_) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok(),
            None => None,
        };
        if old.as_ref().is_some_and(|old| !is_regular(old)) {
            return Ok(None);
        }
        copy_metadata(file, old.as_ref(), done)?;
        late::settle(file, sync)?;
        let named = match (&target.index, old) {
            (_, Some(_)) if done.exclusive => return Ok(None),
            (_, None) => unnamed::link(file, dir, name),
            (Some(index), Some(_)) => index.replace(file, dir, name),
            (None, Some(_)) => return Ok(None),
        };
        if named.is_err() {
            return Ok(None);
        }
        if sync {
            journal::sync_dir(dir)?;
        }
        Ok(Some(stat_of(name, &rustix::fs::fstat(file)?)))
    }
}

/// Whether there is no partial file of an earlier upload.
fn is_new(target: &Target) -> bool {
    let partial = Names::of(&target.name).partial;
    let there = rustix::fs::statat(&target.dir, partial.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
    matches!(there, Err(Errno::NOENT))
}

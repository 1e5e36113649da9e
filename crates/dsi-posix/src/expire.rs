//! Removes abandoned partial files: old ones, the one of a name, and those in a removed directory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gridftp_dsi::ErrorKind;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Fault, Outcome};
use crate::journal;
use crate::names::{self, Names};
use crate::partial::{is_at, recorded};
use crate::remove::OPEN_DIR;
use crate::root::{Root, Target};
use crate::stat::modified;

/// Age at which a partial file without a record is removed: long enough for a writer that has just
/// created it.
const UNRECORDED: Duration = Duration::from_secs(3600);

/// The time of a file: seconds since 1970 and nanoseconds.
type Time = (i64, u32);

/// The times before which partial files are old.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cutoff {
    /// Latest modification of an old partial file.
    recorded: Time,
    /// The same for one that cannot be continued.
    unrecorded: Time,
}

impl Cutoff {
    /// The cutoff for `age`; `None` if that is before 1970.
    pub(crate) fn of(age: Duration) -> Option<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let time = |ago: Duration| {
            let then = now.checked_sub(ago)?;
            let seconds = i64::try_from(then.as_secs()).unwrap_or(i64::MAX);
            Some((seconds, then.subsec_nanos()))
        };
        Some(Self {
            recorded: time(age)?,
            unrecorded: time(age.min(UNRECORDED))?,
        })
    }

    /// Says whether a partial file that was modified then is old.
    pub(crate) fn is_old(self, modified: Time, recorded: bool) -> bool {
        modified
            <= match recorded {
                true => self.recorded,
                false => self.unrecorded,
            }
    }
}

/// The result of the removal of a partial file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Removed,
    Missing,
    /// A writer has it locked.
    Busy,
    Recent,
}

/// Removes the hidden file `name` of `dir`, with its records, unless a writer has it locked or it
/// is too young.
pub(crate) fn abandoned(
    dir: BorrowedFd<'_>,
    name: &[u8],
    before: Option<Cutoff>,
) -> Outcome<Removal> {
    let flags =
        OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Removal::Missing),
        done => done?,
    };
    if !names::is_partial(name) {
        return record(dir, name, &rustix::fs::fstat(&file)?, before);
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(Removal::Busy),
        done => done?,
    }
    // Its last writer may have written to it or published it before; with the lock it cannot
    // change.
    let stat = rustix::fs::fstat(&file)?;
    let records = names::records_of(name);
    let [held, _, _, sync, _] = &records;
    let is_there =
        |record: &[u8]| rustix::fs::statat(dir, record, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if let Some(before) = before
        && !before.is_old(modified(&stat), is_there(held) || is_there(sync))
    {
        return Ok(Removal::Recent);
    }
    if !is_at(dir, name, &stat) {
        return Ok(Removal::Missing);
    }
    journal::remove(dir, &records)?;
    rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    Ok(Removal::Removed)
}

/// Removes a record without its partial file, which is useless.
fn record(
    dir: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    before: Option<Cutoff>,
) -> Outcome<Removal> {
    if before.is_some_and(|before| modified(stat) > before.unrecorded) {
        return Ok(Removal::Recent);
    }
    let partial = names::partial_of(name);
    match rustix::fs::statat(dir, partial.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {
            journal::remove(dir, &[name.to_vec()])?;
            Ok(Removal::Removed)
        }
        done => Ok(done.map(|_| Removal::Recent)?),
    }
}

/// Removes the partial file of an upload to `target`.
pub(crate) fn held(target: &Target) -> Outcome<()> {
    let (dir, names) = (target.dir.as_fd(), Names::of(&target.name));
    let entry = rustix::fs::statat(dir, names.partial.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
        .ok()
        .and_then(|partial| recorded(dir, &names, &target.name, &partial)?.entry);
    match abandoned(dir, &names.partial, None)? {
        Removal::Removed => {
            if let (Some(index), Some(entry)) = (&target.index, entry) {
                index.remove(&entry);
            }
            Ok(())
        }
        Removal::Busy => Err(Fault::Rule(
            ErrorKind::Busy,
            "an upload to this name is in progress",
        )),
        Removal::Missing | Removal::Recent => Err(Fault::Rule(
            ErrorKind::NotFound,
            "there is no partial file of an upload to this name",
        )),
    }
}

/// Removes the partial files that were not written to for `age`, until `stop` is set; returns their
/// number.
///
/// One that cannot be read or removed is left.
pub(crate) fn expire(root: &Root, age: Duration, stop: &AtomicBool) -> Outcome<u64> {
    let Some(before) = Cutoff::of(age) else {
        return Ok(0);
    };
    let mut count = 0;
    root.index().each(|index, id, path| {
        let removal = look(root, path, before);
        let ends = match removal {
            Ok(Removal::Removed) => true,
            // Its directory may not be mounted now, or the file may be created soon.
            Ok(Removal::Missing) => is_old(index, id, before.recorded),
            Ok(Removal::Busy | Removal::Recent) | Err(_) => false,
        };
        count += u64::from(matches!(removal, Ok(Removal::Removed)));
        if ends {
            // If this fails, the next run tries again.
            let _ = rustix::fs::unlinkat(index, id, AtFlags::empty());
        }
        !stop.load(Ordering::Relaxed)
    })?;
    // Complete files of killed processes that were not renamed to their targets.
    root.index().each_name(|index, name| {
        if names::is_partial(name) {
            let removal = abandoned(index, name, Some(before));
            count += u64::from(matches!(removal, Ok(Removal::Removed)));
        }
        !stop.load(Ordering::Relaxed)
    })?;
    Ok(count)
}

/// Removes the partial file at `path` beneath the root if it is old.
fn look(root: &Root, path: &[u8], before: Cutoff) -> Outcome<Removal> {
    let cut = path.iter().rposition(|b| *b == b'/');
    let (up, name) = match cut {
        Some(cut) => (
            path.get(..cut).unwrap_or_default(),
            path.get(cut + 1..).unwrap_or_default(),
        ),
        None => (&[][..], path),
    };
    // Another writer of the index must not get other files removed.
    if !names::is_partial(name) {
        return Ok(Removal::Missing);
    }
    let dir = match root.resolve(up, OPEN_DIR, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Removal::Missing),
        done => done?,
    };
    let removal = abandoned(dir.as_fd(), name, Some(before))?;
    if removal == Removal::Missing {
        for record in names::records_of(name) {
            abandoned(dir.as_fd(), &record, Some(before))?;
        }
    }
    Ok(removal)
}

fn is_old(index: BorrowedFd<'_>, id: &str, before: Time) -> bool {
    rustix::fs::statat(index, id, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|entry| modified(&entry) <= before)
}

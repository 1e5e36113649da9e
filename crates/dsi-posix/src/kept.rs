//! Lists and removes the partial files of downloads in a directory of this machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use gridftp_dsi::{ErrorKind, Result};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::blocking::{Work, run, run_until_dropped};
use crate::error::{Fault, Outcome};
use crate::expire::{self, Cutoff, Removal};
use crate::journal::{self, Origin, Record};
use crate::names::{self, Names};
use crate::remove::OPEN_DIR;
use crate::stat::modified;

/// The partial file of a download that is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// The name that the whole file is to have.
    pub target: PathBuf,
    /// The partial file itself.
    pub path: PathBuf,
    /// The source of its bytes; `None` where no record tells it, so that nothing continues it.
    pub origin: Option<Origin>,
    /// Bytes that the next run need not fetch.
    pub held: u64,
    /// Time of the last change.
    pub modified: SystemTime,
    /// Whether a process writes to it now.
    pub in_use: bool,
}

/// Gives the partial files of downloads in the directory `dir`, in no order. Those of uploads to a
/// server here are left out, as far as their records tell.
///
/// # Errors
/// The directory cannot be read.
///
/// # Cancel safety
/// Dropping the future ends the search.
pub async fn kept(dir: &Path) -> Result<Vec<Kept>> {
    let dir = dir.to_owned();
    run_until_dropped(Work::Long, "list", move |stop| {
        let found = each(&dir, stop, |opened, name| look(opened, &dir, name));
        found.map_err(|fault| fault.of("list", dir.display()))
    })
    .await
}

/// The partial file of a download to `target`.
pub fn partial_of(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default();
    let partial = Names::of(name.as_bytes()).partial;
    target.with_file_name(OsStr::from_bytes(&partial))
}

/// Removes a partial file and its record.
///
/// # Errors
/// [`ErrorKind::Busy`] while a process writes to it, and errors of the kernel.
pub async fn discard(kept: &Kept) -> Result<()> {
    let path = kept.path.clone();
    run(Work::Brief, "remove", move || {
        let removed = split(&path).and_then(|(dir, name)| {
            let dir = rustix::fs::openat(CWD, dir, OPEN_DIR, Mode::empty())?;
            expire::abandoned(dir.as_fd(), name, None)
        });
        match removed {
            Ok(Removal::Removed | Removal::Missing | Removal::Recent) => Ok(()),
            Ok(Removal::Busy) => Err(Fault::Rule(ErrorKind::Busy, "a download writes to it")),
            Err(fault) => Err(fault),
        }
        .map_err(|fault| fault.of("remove", path.display()))
    })
    .await
}

/// Removes the partial files of downloads in the directory `dir` that nobody has written to for
/// `age`, and those without a record after an hour; gives their number.
///
/// # Errors
/// The directory cannot be read.
///
/// # Cancel safety
/// Dropping the future ends the search.
pub async fn expire_in(dir: &Path, age: Duration) -> Result<u64> {
    let dir = dir.to_owned();
    run_until_dropped(Work::Long, "expire", move |stop| {
        let Some(before) = Cutoff::of(age) else {
            return Ok(0);
        };
        let removed = each(&dir, stop, |opened, name| {
            let (stat, record) = recorded(opened, name)?;
            // The lock of a look disturbs a writer that begins, so only old files are locked.
            let is_old = before.is_old(modified(&stat), record.is_some());
            let takes = is_old && is_of_download(record.as_ref());
            let removal = takes.then(|| expire::abandoned(opened.as_fd(), name, Some(before)))?;
            matches!(removal, Ok(Removal::Removed)).then_some(())
        });
        let removed = removed.map_err(|fault| fault.of("expire", dir.display()))?;
        Ok(u64::try_from(removed.len()).unwrap_or(u64::MAX))
    })
    .await
}

/// Gives the finds of `look` among the partial files of `dir`, until `stop` is set.
fn each<T>(
    dir: &Path,
    stop: &AtomicBool,
    mut look: impl FnMut(&OwnedFd, &[u8]) -> Option<T>,
) -> Outcome<Vec<T>> {
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let opened = rustix::fs::openat(CWD, dir, OPEN_DIR, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if names::is_partial(name) {
            found.extend(look(&opened, name));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(found)
}

fn look(opened: &OwnedFd, dir: &Path, name: &[u8]) -> Option<Kept> {
    let (stat, record) = recorded(opened, name)?;
    if !is_of_download(record.as_ref()) {
        return None;
    }
    let (origin, held) = match record {
        Some(record) => (record.origin, record.held.total()),
        None => (None, 0),
    };
    let (seconds, nanos) = modified(&stat);
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanos);
    Some(Kept {
        target: dir.join(OsStr::from_bytes(names::target_of(name))),
        path: dir.join(OsStr::from_bytes(name)),
        origin,
        held,
        modified: SystemTime::UNIX_EPOCH + since,
        in_use: is_locked(opened, name),
    })
}

/// The facts of the partial file `name`, with its record.
pub(crate) fn recorded(dir: &OwnedFd, name: &[u8]) -> Option<(rustix::fs::Stat, Option<Record>)> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let [held, _, _, sync, _] = names::records_of(name);
    let read = |from: &[u8]| journal::read_any(dir, from, stat.st_ino);
    // A power cut may leave the first one empty.
    let record = read(&held).or_else(|| read(&sync));
    Some((stat, record))
}

/// A server records its uploads without an origin.
fn is_of_download(record: Option<&Record>) -> bool {
    record.is_none_or(|record| record.origin.is_some())
}

/// Says whether a process writes to the partial file `name`.
pub(crate) fn is_locked(dir: &OwnedFd, name: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty());
    let locked =
        file.and_then(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockShared));
    locked == Err(Errno::WOULDBLOCK)
}

fn split(path: &Path) -> Outcome<(&Path, &[u8])> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Ok((dir.unwrap_or_else(|| Path::new(".")), name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use byte_ranges::RangeSet;
    use gridftp_dsi::{Create, Sink as _};

    use super::*;
    use crate::FileSink;

    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Leaves the partial file of a download of `name`, with three bytes.
    async fn leave(dir: &Path, name: &str) -> FileSink {
        let origin = Origin::new(b"ftp://host/file", 9, (1, 2)).unwrap();
        let sink = FileSink::resume(&dir.join(name), origin, false)
            .await
            .unwrap();
        sink.write_at(0, bytes::Bytes::from_static(b"abc"))
            .await
            .unwrap();
        sink.checkpoint(&RangeSet::up_to(3), true).await.unwrap();
        sink
    }

    fn age(path: &Path, age: Duration) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[tokio::test]
    async fn what_is_kept_is_told_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(250);
        let sinks = [leave(dir.path(), "f").await, leave(dir.path(), &long).await];
        std::fs::write(dir.path().join("other"), "of the user").unwrap();
        let found = kept(dir.path()).await.unwrap();
        assert!(found.iter().all(|kept| kept.in_use));
        assert!(found.iter().all(|kept| kept.held == 3), "{found:?}");
        let first = dir.path().join("f");
        let first = found.iter().find(|kept| kept.target == first).unwrap();
        assert_eq!(first.origin.as_ref().unwrap().name(), "ftp://host/file");
        assert_eq!(discard(first).await.unwrap_err().kind(), ErrorKind::Busy);
        drop(sinks);
        let found = kept(dir.path()).await.unwrap();
        assert!(
            found.len() == 2 && found.iter().all(|kept| !kept.in_use),
            "{found:?}"
        );
        for kept in &found {
            discard(kept).await.unwrap();
        }
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[tokio::test]
    async fn only_old_files_of_downloads_expire() {
        let dir = tempfile::tempdir().unwrap();
        for (name, days) in [("new", 6), ("old", 8), ("unrecorded", 1)] {
            drop(leave(dir.path(), name).await);
            let [held, partial] =
                ["held", "part"].map(|end| dir.path().join(format!(".{name}.gridftp-{end}")));
            if name == "unrecorded" {
                std::fs::remove_file(held).unwrap();
            }
            age(&partial, Duration::from_secs(days * 24 * 3600));
        }
        let of_server = dir.path().join("upload");
        let upload = FileSink::create(&of_server, Create::Resume { size: Some(9) }, false);
        let upload = upload.await.unwrap();
        upload
            .write_at(0, bytes::Bytes::from_static(b"abc"))
            .await
            .unwrap();
        upload.checkpoint(&RangeSet::up_to(3), true).await.unwrap();
        drop(upload);
        age(&dir.path().join(".upload.gridftp-part"), WEEK * 2);
        // One that was continued stays, though no byte has come.
        drop(leave(dir.path(), "again").await);
        age(&dir.path().join(".again.gridftp-part"), WEEK * 2);
        let origin = Origin::new(b"ftp://host/file", 9, (1, 2)).unwrap();
        let again = FileSink::resume(&dir.path().join("again"), origin, false).await;
        drop(again.unwrap());
        assert_eq!(expire_in(dir.path(), WEEK).await.unwrap(), 2);
        let mut found = kept(dir.path()).await.unwrap();
        found.sort_by(|one, other| one.target.cmp(&other.target));
        let names = ["again", "new"].map(|name| dir.path().join(name));
        assert!(
            found.iter().map(|kept| &kept.target).eq(&names),
            "{found:?}"
        );
        assert!(dir.path().join(".upload.gridftp-part").exists());
        assert!(!dir.path().join(".old.gridftp-held").exists());
    }
}

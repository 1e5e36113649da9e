//! The owner of a journal: its heartbeat touches the file each second, so that the upload of a frozen
//! process is taken over although its lock is still held.
//!
//! The new owner writes the journal anew under its name; the old one finds another file there before
//! it uploads a part, completes or ends the upload, and leaves it to the new one. A part that was on
//! its way then is of the same file. Where its bytes differ all the same, stores with entity tags
//! refuse the completion.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use gridftp_dsi::{Error, ErrorKind, Result};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, utimensat,
};
use tokio::task::JoinSet;

use crate::journal::{Journal, is_lost, whole};
use crate::sink::{ObjectSink, blocking};

/// Time between two touches of a journal by its owner.
const BEAT: Duration = Duration::from_secs(1);

/// The owner of a journal that it has not touched for so long is frozen.
pub(crate) const FROZEN: Duration = Duration::from_secs(4);

/// Suffix of a journal that is written anew and has not got its name yet.
pub(crate) const NEXT: &str = "next";

/// The heartbeat of the owner of a journal, until this is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    own: FileId,
    name: Arc<PathBuf>,
    _task: JoinSet<()>,
}

impl Heartbeat {
    /// Touches the file of this name as long as it is `own`. No descriptor is kept, since that would
    /// keep the lock too.
    pub(crate) fn of(own: FileId, name: PathBuf) -> Self {
        let name = Arc::new(name);
        let touched = Arc::clone(&name);
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                let name = Arc::clone(&touched);
                match blocking(move || own.touch(&name)).await {
                    Ok(true) => {}
                    // Another process has taken it over, or it was removed.
                    Ok(false) => return,
                    Err(error) => {
                        tracing::warn!(%error, "the journal of an upload cannot be touched");
                    }
                }
            }
        });
        Self {
            own,
            name,
            _task: task,
        }
    }

    /// Fails once another process has taken the upload over.
    async fn must_own(&self) -> io::Result<()> {
        let (own, name) = (self.own, Arc::clone(&self.name));
        blocking(move || own.must_have(&name)).await
    }
}

impl ObjectSink {
    /// Keeps a journal, and tells other processes that this one works at it.
    pub(crate) fn own(&self, journal: Journal) {
        self.heartbeat.get_or_init(|| journal.heartbeat());
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = Some(journal);
    }

    /// Fails once another process has taken the upload over.
    pub(crate) async fn must_own(&self) -> Result<()> {
        let Some(heartbeat) = self.heartbeat.get() else {
            return Ok(());
        };
        let owned = heartbeat.must_own().await;
        owned.map_err(|error| self.unrecorded(error))
    }

    /// The error of a journal.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn unrecorded(&self, error: io::Error) -> Error {
        if is_lost(&error) {
            return self.to.refused(ErrorKind::Changed, error.to_string());
        }
        let why = format!("the journal of the upload cannot be written: {error}");
        self.to.refused(ErrorKind::Io, why)
    }
}

/// A file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn new(facts: &Metadata) -> Self {
        Self {
            device: facts.dev(),
            inode: facts.ino(),
        }
    }

    /// An open file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::new(&file.metadata()?))
    }

    /// The file of a name, if there is one.
    pub(crate) fn named(name: &Path) -> io::Result<Option<Self>> {
        // Opened, since a network file system asks its server then.
        match File::open(name) {
            Ok(file) => Ok(Some(Self::of(&file)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Fails where another file has this name. One that was removed is nobody's.
    pub(crate) fn must_have(self, name: &Path) -> io::Result<()> {
        if Self::named(name)?.is_none_or(|there| there == self) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::StaleNetworkFileHandle,
            "this process was frozen, and another one continues the upload",
        ))
    }

    /// Sets the time of this file to now, if it still has this name; returns whether it has.
    pub(crate) fn touch(self, name: &Path) -> io::Result<bool> {
        if Self::named(name)? != Some(self) {
            return Ok(false);
        }
        let at = |nsec| Timespec {
            tv_sec: 0,
            tv_nsec: nsec,
        };
        let now = Timestamps {
            last_access: at(UTIME_OMIT),
            last_modification: at(UTIME_NOW),
        };
        utimensat(CWD, name, &now, AtFlags::empty())?;
        Ok(true)
    }
}

/// Writes a locked journal anew, locked by this process, if its owner is frozen. Returns its file and
/// its whole lines.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if the owner works, or another process takes it over.
pub(crate) fn take_over(name: &Path) -> io::Result<(File, Vec<u8>)> {
    let fresh = name.with_extension(NEXT);
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&fresh)?;
    // Of two processes one goes on.
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    if FileId::named(&fresh)? != Some(FileId::of(&file)?) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let taken = write_anew(&mut file, &fresh, name);
    if taken.is_err()
        && let Err(error) = std::fs::remove_file(&fresh)
    {
        tracing::warn!(%error, "a new journal of an upload cannot be removed");
    }
    Ok((file, taken?))
}

fn write_anew(file: &mut File, fresh: &Path, name: &Path) -> io::Result<Vec<u8>> {
    let mut text = std::fs::read(name)?;
    text.truncate(whole(&text).len());
    // An earlier attempt may have left something.
    file.set_len(0)?;
    file.write_all(&text)?;
    file.sync_all()?;
    // Both times are of the clock of the file system.
    let now = file.metadata()?.modified()?;
    let beat = File::open(name)?.metadata()?.modified()?;
    if now.duration_since(beat).is_ok_and(|idle| idle >= FROZEN) {
        std::fs::rename(fresh, name)?;
        if let Some(dir) = name.parent() {
            File::open(dir)?.sync_all()?;
        }
        return Ok(text);
    }
    Err(io::ErrorKind::WouldBlock.into())
}

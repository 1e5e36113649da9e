//! The owner of a journal: it touches the file each second, so that a process that stands still is
//! told from one that works, and its upload is taken over although its lock is still held.
//!
//! The new owner writes the journal anew under its name; the old one finds that its file has no name
//! any more before it completes or ends the upload, and leaves both to the new one. A part that the
//! old one overwrites has another entity tag if its bytes differ, so that a completion with the
//! recorded tags fails.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The owner of a journal that it has not touched for so long stands still.
const STILL: Duration = Duration::from_secs(4);

/// Suffix of a journal that is written anew and has not got its name yet.
pub(crate) const NEXT: &str = "next";

/// The touches of a journal, until this is dropped.
#[derive(Debug)]
pub(crate) struct Beats {
    _task: JoinSet<()>,
    is_lost: Arc<AtomicBool>,
}

impl Beats {
    /// Touches the file of this name as long as it is `own`. No descriptor is kept, since that would
    /// keep the lock too.
    pub(crate) fn of(own: FileId, name: PathBuf) -> Self {
        let is_lost = Arc::new(AtomicBool::new(false));
        let (told, name) = (Arc::clone(&is_lost), Arc::new(name));
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                let name = Arc::clone(&name);
                let beat = tokio::task::spawn_blocking(move || beat(own, &name)).await;
                match beat {
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) => return told.store(true, Ordering::Relaxed),
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the journal of an upload cannot be touched");
                    }
                    Err(_) => return,
                }
            }
        });
        Self {
            _task: task,
            is_lost,
        }
    }

    /// Whether another process has taken the upload over.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

impl ObjectSink {
    /// Keeps a journal, and tells others that this process works at it.
    pub(crate) fn own(&self, journal: Journal) {
        self.beats.get_or_init(|| journal.beats());
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = Some(journal);
    }

    /// Fails once another process has taken the upload over.
    pub(crate) async fn must_own(&self) -> Result<()> {
        let journal = Arc::clone(&self.journal);
        let owned = blocking(move || {
            let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal.as_ref().map_or(Ok(()), Journal::must_own)
        });
        owned.await.map_err(|error| self.unrecorded(error))
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

    /// [`must_own`](Self::must_own), at the cost of a look at the last touch.
    pub(crate) async fn seems_owned(&self) -> Result<()> {
        match self.beats.get().is_some_and(Beats::is_lost) {
            true => self.must_own().await,
            false => Ok(()),
        }
    }
}

/// Touches the file of a name, if it is this one.
fn beat(own: FileId, name: &Path) -> io::Result<bool> {
    if FileId::named(name)? != Some(own) {
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
        match std::fs::metadata(name) {
            Ok(facts) => Ok(Some(Self::new(&facts))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Writes a locked journal anew, locked by this process, if its owner stands still. Returns its file
/// and its whole lines.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if the owner works, or another process takes it over.
pub(crate) fn take_over(dir: &Path, name: &Path) -> io::Result<(File, Vec<u8>)> {
    let taking = File::open(dir)?;
    flock(&taking, FlockOperation::NonBlockingLockExclusive)?;
    let fresh = name.with_extension(NEXT);
    let taken = write_anew(name, &fresh);
    if taken.is_err() {
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a new journal of an upload cannot be removed");
            }
            _ => {}
        }
    }
    let taken = taken?;
    taking.sync_all()?;
    Ok(taken)
}

fn write_anew(name: &Path, fresh: &Path) -> io::Result<(File, Vec<u8>)> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(fresh)?;
    // What an earlier attempt has left.
    file.set_len(0)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let mut text = std::fs::read(name)?;
    text.truncate(whole(&text).len());
    file.write_all(&text)?;
    file.sync_all()?;
    // Both times are of the clock of the file system.
    let (now, beat) = (
        file.metadata()?.modified()?,
        std::fs::metadata(name)?.modified()?,
    );
    if now.duration_since(beat).is_ok_and(|idle| idle >= STILL) {
        std::fs::rename(fresh, name)?;
        return Ok((file, text));
    }
    Err(io::ErrorKind::WouldBlock.into())
}

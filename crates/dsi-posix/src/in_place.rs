//! `InPlace`: a file that is written under its own name and locked meanwhile.

use gridftp_dsi::{ErrorKind, Finish};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::complete::{dress, settle_size, verify};
use crate::error::{Fault, Outcome};
use crate::late;
use crate::partial::{ATTEMPTS, is_at};
use crate::root::{NOT_REGULAR, Target, is_regular, must_be_file};

/// An open file and its name.
#[derive(Debug)]
pub(crate) struct InPlace {
    file: OwnedFd,
    /// The directory and the name in it; `None` for a file opened by the caller.
    place: Option<(OwnedFd, Vec<u8>)>,
}

impl InPlace {
    /// Opens the file at `target`, created if missing; `alone` excludes other writers.
    pub(crate) fn open(target: Target, alone: bool) -> Outcome<Self> {
        let Target { dir, name, old, .. } = target;
        if old.is_some_and(|old| !is_regular(&old)) {
            return Err(NOT_REGULAR);
        }
        let lock = if alone {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        for _ in 0..ATTEMPTS {
            let file = must_be_file(open(dir.as_fd(), &name)?)?.0;
            lock_file(file.as_fd(), lock)?;
            // Between opening and locking, another file may have got the name.
            if is_at(dir.as_fd(), &name, &rustix::fs::fstat(&file)?) {
                let place = Some((dir, name));
                return Ok(Self { file, place });
            }
        }
        Err(Errno::BUSY.into())
    }

    /// Wraps an open file.
    pub(crate) fn given(file: OwnedFd) -> Self {
        Self { file, place: None }
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether it was opened by its name.
    pub(crate) fn has_name(&self) -> bool {
        self.place.is_some()
    }

    /// Completes a regular file; with `sync`, syncs it to the medium.
    pub(crate) fn finish(&self, done: &Finish, sync: bool) -> Outcome<()> {
        if !is_regular(&rustix::fs::fstat(&self.file)?) {
            return Ok(());
        }
        settle_size(self.file(), done)?;
        verify(self.file(), done)?;
        dress(self.file(), done.mode, done.modified)?;
        late::settle(self.file(), sync)?;
        match &self.place {
            Some((dir, name)) if !is_at(dir.as_fd(), name, &rustix::fs::fstat(&self.file)?) => {
                Err(Fault::Rule(
                    ErrorKind::Changed,
                    "the file was removed, renamed or replaced while it was written",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Opens a file for writing, created if missing. An existing file is opened without `O_CREAT`, with
/// which the kernel refuses files of other users in directories that all may write to.
fn open(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            let mode = Mode::from_raw_mode(0o666);
            rustix::fs::openat(dir, name, flags | OFlags::CREATE, mode)
        }
        done => done,
    }
}

/// Locks `file`, unless another writer has it locked.
pub(crate) fn lock_file(file: BorrowedFd<'_>, lock: FlockOperation) -> Outcome<()> {
    match rustix::fs::flock(file, lock) {
        Err(Errno::WOULDBLOCK) => Err(Fault::Rule(
            ErrorKind::Busy,
            "another upload writes to this file",
        )),
        done => Ok(done?),
    }
}

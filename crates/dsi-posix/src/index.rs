//! `Index`: the paths of the partial files of a tree, so that finding them needs no walk.
//!
//! It is a directory with one entry for each partial file, a symbolic link with the path beneath
//! the root: the kernel creates name and content in one step, and if the index is on the file
//! system of the files, a power cut keeps that order too. An entry is created before its file and
//! removed after it. So a crash at any point leaves at most one superfluous entry, which the expiry
//! removes once it is old. Each upload has its own entry, so that no upload removes that of
//! another. Processes that serve the same tree share the index.
//!
//! A complete file that replaces another has a name in this directory for a moment, so that the
//! expiry finds it if the process is killed.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::names::{INDEX, Names};
use crate::partial::{ATTEMPTS, random};
use crate::remove::OPEN_DIR;
use crate::unnamed;

/// Name of the symbolic link that holds the identity of the tree.
const IDENTITY: &str = "identity";

/// Suffix of a second entry while a directory above the partial file is renamed.
const MOVING: char = '~';

/// Longest path of an entry, in bytes: one of the kernel, and a name behind it.
const LONGEST: u64 = 4096 + 256;

/// The index of one served tree.
#[derive(Debug)]
pub(crate) struct Index {
    root: Arc<OwnedFd>,
    /// The directory, if it is not at the top of the tree.
    elsewhere: Option<PathBuf>,
    open: Mutex<Option<Arc<OwnedFd>>>,
    /// Whether a failure was logged.
    told: AtomicBool,
}

impl Index {
    /// The index at the top of the tree.
    pub(crate) fn within(root: Arc<OwnedFd>) -> Self {
        Self {
            root,
            elsewhere: None,
            open: Mutex::new(None),
            told: AtomicBool::new(false),
        }
    }

    /// The index of the tree in the directory `dir` of this machine.
    pub(crate) fn elsewhere(root: Arc<OwnedFd>, dir: &Path) -> Self {
        Self {
            elsewhere: Some(dir.to_path_buf()),
            ..Self::within(root)
        }
    }

    /// The identity of the tree, a random number of the first process; `None` with an index
    /// elsewhere, or in a tree without one that is not writable.
    pub(crate) fn identity(&self) -> Option<String> {
        let index = match &self.elsewhere {
            None => self.dir(true).ok()?,
            Some(_) => return None,
        };
        // The link may exist already.
        let _ = rustix::fs::symlinkat(format!("{:016x}", random()), &*index, IDENTITY);
        let identity = rustix::fs::readlinkat(&*index, IDENTITY, Vec::new()).ok()?;
        identity.into_string().ok()
    }

    /// Adds an entry for the partial file `name` of `dir`, which is created next; `None` if the
    /// index is not writable, which does not prevent uploads.
    pub(crate) fn add(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Entry>, Errno> {
        match self.enter(dir, name) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(errno),
            Err(errno) => {
                self.tell(errno);
                Ok(None)
            }
            done => done,
        }
    }

    fn enter(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Entry>, Errno> {
        for _ in 0..ATTEMPTS {
            let Some(path) = self.path_of(dir, name)? else {
                return Ok(None);
            };
            let (index, id) = (self.dir(true)?, format!("{:016x}", random()));
            match make(index.as_fd(), &id, &path) {
                // The number is taken, or the index was removed.
                Err(Errno::EXIST | Errno::NOENT) => continue,
                done => done?,
            }
            let keep = AtomicBool::new(false);
            let entry = Entry { index, id, keep };
            // A directory above may have been renamed before the entry existed.
            if self.path_of(dir, name)?.as_ref() == Some(&path) {
                return Ok(Some(entry));
            }
        }
        Err(Errno::BUSY)
    }

    /// The entry `id`, if it is the one of the partial file `name` of `dir`.
    pub(crate) fn adopt(&self, id: &str, dir: BorrowedFd<'_>, name: &[u8]) -> Option<Entry> {
        let index = self.dir(false).ok()?;
        let path = self.path_of(dir, name).ok()??;
        (is_id(id) && read(index.as_fd(), id) == Some(path)).then(|| Entry {
            index,
            id: id.to_owned(),
            keep: AtomicBool::new(false),
        })
    }

    /// Removes the entry `id`.
    pub(crate) fn remove(&self, id: &str) {
        if let Ok(index) = self.dir(false) {
            // Best effort: the expiry removes a leftover.
            let _ = rustix::fs::unlinkat(&index, id, AtFlags::empty());
        }
    }

    /// Renames a directory by `rename`, and updates the entries of partial files in it.
    pub(crate) fn follow(
        &self,
        from: (BorrowedFd<'_>, &[u8]),
        to: (BorrowedFd<'_>, &[u8]),
        rename: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (Ok(Some(mut from)), Ok(Some(mut to))) =
            (self.path_of(from.0, from.1), self.path_of(to.0, to.1))
        else {
            return rename();
        };
        from.push(b'/');
        to.push(b'/');
        let moved = |path: &[u8]| Some([&to, path.strip_prefix(from.as_slice())?].concat());
        let moving = |id: &str| format!("{id}{MOVING}");
        // A process killed in between leaves an entry for either path. An unreadable index does not
        // prevent the rename.
        let before = self.each(|index, id, path| {
            if let Some(path) = moved(path) {
                let _ = make(index, &moving(id), &path);
            }
            true
        });
        let done = rename();
        let after = self.each(|index, id, path| {
            if let Some(path) = moved(path) {
                if done.is_ok() {
                    // For uploads that began meanwhile.
                    let _ = make(index, &moving(id), &path);
                    let _ = rustix::fs::renameat(index, moving(id), index, id);
                } else {
                    let _ = rustix::fs::unlinkat(index, moving(id), AtFlags::empty());
                }
            }
            true
        });
        if let Err(errno) = before.and(after) {
            self.tell(errno);
        }
        done
    }

    /// Replaces the entry `name` of `dir` by `file`, which has no name, in one step.
    pub(crate) fn replace(
        &self,
        file: BorrowedFd<'_>,
        dir: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(), Errno> {
        let (index, temp) = (self.dir(true)?, Names::once(b"", random()));
        unnamed::link(file, index.as_fd(), &temp)?;
        let done = rustix::fs::renameat(&index, temp.as_slice(), dir, name);
        if done.is_err() {
            // Best effort: the expiry removes a leftover.
            let _ = rustix::fs::unlinkat(&index, temp.as_slice(), AtFlags::empty());
        }
        done
    }

    /// Calls `each` with the index, the name of an entry and its path, until that returns `false`.
    pub(crate) fn each(
        &self,
        mut each: impl FnMut(BorrowedFd<'_>, &str, &[u8]) -> bool,
    ) -> Result<(), Errno> {
        self.each_name(|index, id| {
            let Some(id) = std::str::from_utf8(id).ok().filter(|id| is_id(id)) else {
                return true;
            };
            read(index, id).is_none_or(|path| each(index, id, &path))
        })
    }

    /// Calls `each` with the index and each name in it, until that returns `false`.
    pub(crate) fn each_name(
        &self,
        mut each: impl FnMut(BorrowedFd<'_>, &[u8]) -> bool,
    ) -> Result<(), Errno> {
        let index = match self.dir(false) {
            Ok(index) => index,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        for entry in Dir::read_from(&*index)? {
            if !each(index.as_fd(), entry?.file_name().to_bytes()) {
                break;
            }
        }
        Ok(())
    }

    /// The directory of the index; with `make`, created if missing.
    fn dir(&self, make: bool) -> Result<Arc<OwnedFd>, Errno> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*open
            && rustix::fs::fstat(index)?.st_nlink > 0
        {
            return Ok(Arc::clone(index));
        }
        let (at, name) = match &self.elsewhere {
            None => (self.root.as_fd(), INDEX),
            Some(dir) => (CWD, dir.as_os_str().as_bytes()),
        };
        let index = match rustix::fs::openat(at, name, OPEN_DIR, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                match rustix::fs::mkdirat(at, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                rustix::fs::openat(at, name, OPEN_DIR, Mode::empty())?
            }
            done => done?,
        };
        let index = Arc::new(index);
        *open = Some(Arc::clone(&index));
        Ok(index)
    }

    /// The path of the entry `name` of `dir` beneath the root, free of links.
    ///
    /// `None` for a removed directory, or one with a path longer than the kernel returns.
    pub(crate) fn path_of(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, Errno> {
        let root = real_path(self.root.as_fd())?;
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        let dir = match real_path(dir) {
            Err(Errno::NAMETOOLONG) => return Ok(None),
            done => done?,
        };
        Ok(dir.strip_prefix(root).and_then(|below| match below {
            b"" | b"/" => Some(name.to_vec()),
            below => Some([below.strip_prefix(b"/")?, b"/", name].concat()),
        }))
    }

    fn tell(&self, error: Errno) {
        if !self.told.swap(true, Ordering::Relaxed) {
            let error = std::io::Error::from(error);
            tracing::warn!(
                %error,
                "the index of partial files cannot be written, so old ones are not removed: make its directory writable, or configure another one"
            );
        }
    }
}

/// The entry of one partial file, removed on drop unless it is kept.
#[derive(Debug)]
pub(crate) struct Entry {
    index: Arc<OwnedFd>,
    id: String,
    keep: AtomicBool,
}

impl Entry {
    /// Its name.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Keeps the entry, as the partial file stays.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            // Best effort: the expiry removes a leftover.
            let _ = rustix::fs::unlinkat(&self.index, self.id.as_str(), AtFlags::empty());
        }
    }
}

/// Whether `name` is that of an entry.
fn is_id(name: &str) -> bool {
    let number = name.strip_suffix(MOVING).unwrap_or(name);
    number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit())
}

fn make(index: BorrowedFd<'_>, id: &str, path: &[u8]) -> Result<(), Errno> {
    match rustix::fs::symlinkat(path, index, id) {
        // Some file systems limit links to 1023 bytes.
        Err(Errno::NAMETOOLONG) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(index, id, flags, Mode::RUSR | Mode::WUSR)?;
            let written = std::fs::File::from(file).write_all(path);
            written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
        done => done,
    }
}

fn read(index: BorrowedFd<'_>, id: &str) -> Option<Vec<u8>> {
    match rustix::fs::readlinkat(index, id, Vec::new()) {
        Ok(path) => Some(path.into_bytes()),
        Err(Errno::INVAL) => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(index, id, flags, Mode::empty()).ok()?;
            let mut path = Vec::new();
            let file = std::fs::File::from(file);
            file.take(LONGEST).read_to_end(&mut path).ok()?;
            Some(path)
        }
        Err(_) => None,
    }
}

/// The path of an open directory in this process's view.
fn real_path(dir: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let name = format!("/proc/self/fd/{}", dir.as_raw_fd());
    Ok(rustix::fs::readlinkat(CWD, name, Vec::new())?.into_bytes())
}

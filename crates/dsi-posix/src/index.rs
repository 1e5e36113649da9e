//! `Index`: where the partial uploads of a tree are, so that nobody has to walk it to find them.
//!
//! It is a directory with one entry for each of them, a symbolic link that holds the path beneath the
//! root: the kernel makes name and content in one step, and where the index is on the file system of
//! the files, a power cut keeps that order too. An entry is made before its file and removed after it.
//! So a crash at any point leaves at most an entry too many, which the expiry removes once it is old;
//! and as each upload has an entry of its own, nobody removes the one of another. Processes that serve
//! the same tree share the index without knowing of each other.
//!
//! A whole file that replaces another has a name in this directory between the two steps that this
//! takes, so that the expiry finds what a process leaves that is killed in between.

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

/// What is added to the name of an entry while the directory that it leads to is renamed.
const MOVING: char = '~';

/// Longest path that is read, in bytes: one of the kernel, and a name behind it.
const LONGEST: u64 = 4096 + 256;

/// The index of one served tree.
#[derive(Debug)]
pub(crate) struct Index {
    root: Arc<OwnedFd>,
    /// The directory, where it is not at the top of the tree.
    elsewhere: Option<PathBuf>,
    open: Mutex<Option<Arc<OwnedFd>>>,
    /// Whether it was told that there can be none.
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

    /// Notes that the partial upload `name` of `dir` is about to be there; `None` where no index can be
    /// kept, which does not keep anybody from uploading.
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
                // Somebody has the number, or has removed the index.
                Err(Errno::EXIST | Errno::NOENT) => continue,
                done => done?,
            }
            let keep = AtomicBool::new(false);
            let entry = Entry { index, id, keep };
            // A directory above may have been renamed before there was an entry to take along.
            if self.path_of(dir, name)?.as_ref() == Some(&path) {
                return Ok(Some(entry));
            }
        }
        Err(Errno::BUSY)
    }

    /// The entry `id`, if it is one of the partial upload `name` of `dir`.
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
            // One that stays is removed by the expiry.
            let _ = rustix::fs::unlinkat(&index, id, AtFlags::empty());
        }
    }

    /// Renames a directory by `rename`, and has the entries of what is in it follow.
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
        // Whoever is killed in between leaves an entry for either path. An index that cannot be read is
        // no reason not to rename.
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

    /// Has `file`, which has no name, take the place of the entry `name` of `dir` in one step.
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
            // One that stays is removed by the expiry.
            let _ = rustix::fs::unlinkat(&index, temp.as_slice(), AtFlags::empty());
        }
        done
    }

    /// Calls `each` with the index, the name of an entry and the path in it, until that says false.
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

    /// Calls `each` with the index and each name in it, until that says false.
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

    /// The directory itself; with `make`, made when there is none.
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
    /// `None` for a directory that is not in the tree (it was removed), or deeper than the kernel can say.
    fn path_of(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
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
                "no index of partial uploads can be kept, so none is removed when it is old: make its directory writable, or name another one"
            );
        }
    }
}

/// The entry of one partial upload, removed with this value unless it is kept.
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

    /// Leaves it, as the partial upload is left.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.keep.load(Ordering::Relaxed) {
            // One that stays is removed by the expiry.
            let _ = rustix::fs::unlinkat(&self.index, self.id.as_str(), AtFlags::empty());
        }
    }
}

/// Whether `name` is one of ours.
fn is_id(name: &str) -> bool {
    let number = name.strip_suffix(MOVING).unwrap_or(name);
    number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit())
}

fn make(index: BorrowedFd<'_>, id: &str, path: &[u8]) -> Result<(), Errno> {
    match rustix::fs::symlinkat(path, index, id) {
        // Some file systems have links of at most 1023 bytes.
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

/// The path of an open directory as this process sees it.
fn real_path(dir: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let name = format!("/proc/self/fd/{}", dir.as_raw_fd());
    Ok(rustix::fs::readlinkat(CWD, name, Vec::new())?.into_bytes())
}

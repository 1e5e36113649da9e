//! Path resolution beneath a directory descriptor, for every path of a user.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use gridftp_dsi::{DsiPath, ErrorKind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::error::{Fault, Outcome};
use crate::index::Index;
use crate::journal::Origin;
use crate::names;

/// Longest path passed to the kernel in one piece, in bytes; `PATH_MAX` counts the final NUL.
const LONGEST: usize = 4095;

/// Most repetitions of a look-up that a concurrent rename made unsafe (`EAGAIN`).
const ATTEMPTS: u32 = 128;

/// Most links followed from a name to be written, as in the kernel.
pub(crate) const MAX_LINKS: u32 = 40;

/// The directory that confines all look-ups.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    fd: Arc<OwnedFd>,
    follows_links: bool,
    index: Arc<Index>,
}

impl Root {
    /// Opens the directory at `path` and checks that the kernel can confine look-ups to it.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let fd = rustix::fs::open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let fd = Arc::new(fd);
        let root = Self {
            index: Arc::new(Index::within(Arc::clone(&fd))),
            fd,
            follows_links: true,
        };
        match root.resolve(b"", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Ok(_) => Ok(root),
            Err(Errno::NOSYS | Errno::PERM) => Err(Fault::Rule(
                ErrorKind::Unsupported,
                "openat2 is missing: needs Linux 5.6 or later, and a sandbox that permits it",
            )),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same directory, with look-ups that follow no links.
    pub(crate) fn without_links(&self) -> Self {
        Self {
            fd: Arc::clone(&self.fd),
            follows_links: false,
            index: Arc::clone(&self.index),
        }
    }

    /// The same directory, with the index of its partial files in `dir`.
    pub(crate) fn with_index(&self, dir: &Path) -> Self {
        Self {
            fd: Arc::clone(&self.fd),
            follows_links: self.follows_links,
            index: Arc::new(Index::elsewhere(Arc::clone(&self.fd), dir)),
        }
    }

    /// The index of its partial files.
    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Opens `path`, following links that stay in the tree, unless links are excluded.
    pub(crate) fn get(&self, path: &DsiPath, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        self.resolve(relative(path), flags, mode)
    }

    /// Opens the regular file at `path`; never opens, and so never disturbs, any other object.
    pub(crate) fn get_file(&self, path: &DsiPath, flags: OFlags) -> Outcome<(OwnedFd, Stat)> {
        must_be_file(self.get(path, OFlags::PATH, Mode::empty())?)?;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        must_be_file(self.get(path, flags, Mode::empty())?)
    }

    /// Opens the regular file or the directory at `path` to read it.
    pub(crate) fn get_file_or_dir(&self, path: &DsiPath) -> Outcome<OwnedFd> {
        match self.get_file(path, OFlags::RDONLY) {
            Err(Fault::Rule(ErrorKind::IsDirectory, _)) => {
                Ok(self.get(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?)
            }
            file => file.map(|(file, _)| file),
        }
    }

    /// Opens the directory that contains `path` and returns the name in it.
    pub(crate) fn parent<'p>(&self, path: &'p DsiPath) -> Outcome<(OwnedFd, &'p [u8])> {
        let name = path.parts().next_back().ok_or(ROOT_ITSELF)?;
        let up = relative(path);
        let up = up.get(..up.len() - name.len()).unwrap_or_default();
        Ok((
            self.resolve(up, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?,
            name,
        ))
    }

    /// Finds the target of a write to `path`: the directory, the name in it, and its present
    /// object.
    pub(crate) fn target(&self, path: &DsiPath) -> Outcome<Target> {
        let name = path.parts().next_back().ok_or(IS_DIRECTORY)?;
        let up = relative(path);
        let up = up.get(..up.len() - name.len()).unwrap_or_default();
        let links = if self.follows_links { MAX_LINKS } else { 0 };
        let mut target = find_target(up.to_vec(), name.to_vec(), links, |dir| {
            self.resolve(dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
        })?;
        target.index = Some(Arc::clone(&self.index));
        Ok(target)
    }

    /// Opens the raw `path`, relative to the root, in pieces that the kernel accepts.
    ///
    /// In a path of several pieces, a link may not lead above the start of its piece: that is
    /// refused although it may end inside the tree.
    pub(crate) fn resolve(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if path.split(|b| *b == b'/').any(|part| part == names::INDEX) {
            return Err(Errno::NOENT);
        }
        let mut rest = path;
        let mut from: Option<OwnedFd> = None;
        while rest.len() > LONGEST {
            let cut = rest
                .iter()
                .take(LONGEST)
                .rposition(|b| *b == b'/')
                .ok_or(Errno::NAMETOOLONG)?;
            let (head, tail) = rest.split_at_checked(cut).ok_or(Errno::NAMETOOLONG)?;
            let at = from.as_ref().map_or_else(|| self.fd.as_fd(), AsFd::as_fd);
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            from = Some(beneath(at, head, flags, Mode::empty(), self.follows_links)?);
            rest = trim_slashes(tail);
        }
        let at = from.as_ref().map_or_else(|| self.fd.as_fd(), AsFd::as_fd);
        let rest = if rest.is_empty() { b"." } else { rest };
        beneath(at, rest, flags, mode, self.follows_links)
    }
}

const ROOT_ITSELF: Fault = Fault::Rule(
    ErrorKind::Denied,
    "the root of the tree itself cannot be changed",
);
const IS_DIRECTORY: Fault = Fault::Rule(
    ErrorKind::IsDirectory,
    "a directory cannot be written as a file",
);

/// One confined look-up, repeated while concurrent renames disturb it.
fn beneath(
    at: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    follows_links: bool,
) -> Result<OwnedFd, Errno> {
    let mut how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    how.set(ResolveFlags::NO_SYMLINKS, !follows_links);
    let mut attempt = 0;
    loop {
        match rustix::fs::openat2(at, path, flags | OFlags::CLOEXEC, mode, how) {
            Err(Errno::AGAIN | Errno::INTR) if attempt < ATTEMPTS => attempt += 1,
            done => return done,
        }
    }
}

fn relative(path: &DsiPath) -> &[u8] {
    path.as_bytes().get(1..).unwrap_or_default()
}

/// Returns `fd` with its facts if it is a regular file.
pub(crate) fn must_be_file(fd: OwnedFd) -> Outcome<(OwnedFd, Stat)> {
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((fd, stat)),
        FileType::Directory => Err(Fault::Rule(
            ErrorKind::IsDirectory,
            "a directory is not a file",
        )),
        _ => Err(NOT_REGULAR),
    }
}

/// Whether it is a regular file.
pub(crate) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

pub(crate) const NOT_REGULAR: Fault = Fault::Rule(
    ErrorKind::NotRegular,
    "FIFOs, devices and sockets are not served",
);

/// The target of a write.
#[derive(Debug)]
pub(crate) struct Target {
    /// The directory.
    pub(crate) dir: OwnedFd,
    /// The name in it, which was not a link.
    pub(crate) name: Vec<u8>,
    /// The object with the name at that time.
    pub(crate) old: Option<Stat>,
    /// The index of partial files, in a served tree.
    pub(crate) index: Option<Arc<Index>>,
    /// The source of the bytes, where a partial file of another one is not continued.
    pub(crate) origin: Option<Box<Origin>>,
}

impl Target {
    /// Size of the object that had the name.
    pub(crate) fn old_size(&self) -> u64 {
        let size = self.old.map(|old| u64::try_from(old.st_size));
        size.and_then(Result::ok).unwrap_or(0)
    }
}

/// Follows at most `links` links from the entry `name` of the directory `up` to the target of a
/// write.
///
/// Only the last component is followed here; `open` resolves every directory, by its own rules.
pub(crate) fn find_target(
    mut up: Vec<u8>,
    mut name: Vec<u8>,
    links: u32,
    open: impl Fn(&[u8]) -> Result<OwnedFd, Errno>,
) -> Outcome<Target> {
    for _ in 0..=links {
        if names::is_reserved(&name) {
            return Err(RESERVED);
        }
        let dir = open(&up)?;
        let old = match rustix::fs::statat(&dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                return Ok(Target {
                    dir,
                    name,
                    old: None,
                    index: None,
                    origin: None,
                });
            }
            Err(errno) => return Err(errno.into()),
        };
        match FileType::from_raw_mode(old.st_mode) {
            FileType::Symlink => {
                let link = rustix::fs::readlinkat(&dir, name.as_slice(), Vec::new())?.into_bytes();
                let cut = link.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
                let (head, tail) = link.split_at_checked(cut).unwrap_or_default();
                if matches!(tail, b"" | b"." | b"..") {
                    return Err(IS_DIRECTORY);
                }
                if head.first() == Some(&b'/') {
                    // Keep the leading slash, so that `open` applies its rule for absolute links.
                    up = head.to_vec();
                } else {
                    if !up.is_empty() && up.last() != Some(&b'/') {
                        up.push(b'/');
                    }
                    up.extend_from_slice(head);
                }
                name = tail.to_vec();
            }
            FileType::Directory => return Err(IS_DIRECTORY),
            _ => {
                return Ok(Target {
                    dir,
                    name,
                    old: Some(old),
                    index: None,
                    origin: None,
                });
            }
        }
    }
    Err(Errno::LOOP.into())
}

pub(crate) const RESERVED: Fault = Fault::Rule(
    ErrorKind::BadName,
    "names of this form are reserved for uploads in progress",
);

/// Finds the target of a write to `path` of this machine.
pub(crate) fn local_target(path: &Path) -> Outcome<Target> {
    let bytes = path.as_os_str().as_bytes();
    let cut = bytes
        .iter()
        .rposition(|b| *b == b'/')
        .map_or(0, |at| at + 1);
    let (up, name) = bytes.split_at_checked(cut).unwrap_or_default();
    if matches!(name, b"" | b"." | b"..") {
        return Err(Errno::ISDIR.into());
    }
    find_target(up.to_vec(), name.to_vec(), MAX_LINKS, open_local_dir)
}

/// Opens a directory of this machine by its path, without confinement.
pub(crate) fn open_local_dir(path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    rustix::fs::openat(
        CWD,
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// `path` without its leading slashes.
fn trim_slashes(path: &[u8]) -> &[u8] {
    let first = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    path.get(first..).unwrap_or_default()
}

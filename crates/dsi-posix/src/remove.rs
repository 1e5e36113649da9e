//! Removes trees without following a link, with few descriptors.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

use gridftp_dsi::{DsiPath, ErrorKind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Fault, Outcome};
use crate::names;
use crate::root::Root;

/// Most names of directories still to be entered, over all levels together.
const MAX_WAITING: usize = 65_536;
/// Most of them on one level.
const MAX_LEVEL: usize = 1024;

pub(crate) const OPEN_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Device and inode of a directory.
type Identity = (u64, u64);

/// A directory above the one being emptied.
struct Level {
    identity: Identity,
    /// The name, in it, of the directory being emptied.
    entered: CString,
    /// Other directories in it that were found and are left.
    waiting: Vec<CString>,
}

/// Removes `path` and all below it, until `stop` is set.
///
/// Only the directory being emptied is open, at any depth. The way back up is `..`, and is used
/// only if it leads to the directory above: if the tree is moved meanwhile, the removal fails, and
/// never continues elsewhere.
pub(crate) fn tree(root: &Root, path: &DsiPath, stop: &AtomicBool) -> Outcome<()> {
    let (parent, name) = root.parent(path)?;
    if names::is_reserved(name) {
        return Err(Errno::NOENT.into());
    }
    let mut here = match rustix::fs::openat(&parent, name, OPEN_DIR, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?);
        }
        done => done?,
    };
    let mut above: Vec<Level> = Vec::new();
    let mut waiting = Vec::new();
    let mut known = 0;
    loop {
        if waiting.is_empty() {
            let room = MAX_WAITING.saturating_sub(known).clamp(1, MAX_LEVEL);
            waiting = clear(here.as_fd(), room, stop)?;
            known += waiting.len();
        }
        if let Some(next) = waiting.pop() {
            known -= 1;
            match rustix::fs::openat(&here, next.as_c_str(), OPEN_DIR, Mode::empty()) {
                Ok(inner) => {
                    let identity = identity(here.as_fd())?;
                    above.push(Level {
                        identity,
                        entered: next,
                        waiting: std::mem::take(&mut waiting),
                    });
                    here = inner;
                }
                // Removed or replaced meanwhile: the next pass over this directory handles it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno.into()),
            }
            continue;
        }
        let Some(level) = above.pop() else { break };
        let up = rustix::fs::openat(&here, c"..", OPEN_DIR, Mode::empty())?;
        if identity(up.as_fd())? != level.identity {
            return Err(Fault::Rule(
                ErrorKind::Changed,
                "a directory was moved while its tree was removed",
            ));
        }
        here = up;
        match rustix::fs::unlinkat(&here, level.entered.as_c_str(), AtFlags::REMOVEDIR) {
            // Filled again or replaced meanwhile: the next pass over this directory handles it.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
        waiting = level.waiting;
    }
    drop(here);
    Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

fn identity(dir: BorrowedFd<'_>) -> Outcome<Identity> {
    let stat = rustix::fs::fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Removes all but directories from `dir`, and returns the names of up to `room` directories in it.
fn clear(dir: BorrowedFd<'_>, room: usize, stop: &AtomicBool) -> Outcome<Vec<CString>> {
    let mut inner = Vec::new();
    for entry in Dir::read_from(dir)? {
        if stop.load(Ordering::Relaxed) {
            return Err(Errno::CANCELED.into());
        }
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let is_dir = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => {
                let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            }
            _ => false,
        };
        if is_dir {
            inner.push(name.to_owned());
            if inner.len() >= room {
                break;
            }
            continue;
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            // Replaced by a directory meanwhile: the next pass handles it.
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_stops_once_its_flag_is_set() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("tree/inner")).unwrap();
        std::fs::write(dir.path().join("tree/file"), "x").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let path = DsiPath::new(b"/tree").unwrap();
        let stopped = tree(&root, &path, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(Fault::Os(Errno::CANCELED))));
        assert!(dir.path().join("tree/file").exists());
        tree(&root, &path, &AtomicBool::new(false)).unwrap();
        assert!(!dir.path().join("tree").exists());
    }
}

//! Files without a name until they are complete: the kernel removes them with a killed process.

use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Whether such files can be created and named on this system; false after a failure.
static AVAILABLE: AtomicBool = AtomicBool::new(true);

/// Whether the kernel links a file by its descriptor alone. Kernels before 6.10 require
/// `CAP_DAC_READ_SEARCH`.
static BY_DESCRIPTOR: AtomicBool = AtomicBool::new(true);

/// Creates a file without a name on the file system of `dir`; `None` if that is not supported.
pub(crate) fn create(dir: BorrowedFd<'_>) -> Option<OwnedFd> {
    if !AVAILABLE.load(Ordering::Relaxed) {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, c".", flags, Mode::from_raw_mode(0o666));
    if let Err(Errno::OPNOTSUPP | Errno::ISDIR) = file {
        AVAILABLE.store(false, Ordering::Relaxed);
    }
    file.ok()
}

/// Gives `file` the name `name` in `dir`; fails if the name exists.
pub(crate) fn link(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let first = match BY_DESCRIPTOR.load(Ordering::Relaxed) {
        true => by_descriptor(file, dir, name),
        false => Err(Errno::NOENT),
    };
    if first != Err(Errno::NOENT) {
        return first;
    }
    let second = by_path(file, dir, name);
    match second {
        Ok(()) => BY_DESCRIPTOR.store(false, Ordering::Relaxed),
        // A removed directory gives the same error, which is no fact about other directories.
        Err(Errno::NOENT) if rustix::fs::fstat(dir).is_ok_and(|dir| dir.st_nlink == 0) => {}
        // For example without `/proc`.
        Err(Errno::NOENT) => AVAILABLE.store(false, Ordering::Relaxed),
        Err(_) => {}
    }
    second
}

fn by_descriptor(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::linkat(file, c"", dir, name, AtFlags::EMPTY_PATH)
}

fn by_path(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests {
    use rustix::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_gets_its_name_by_descriptor_or_by_path() {
        let here = tempfile::tempdir().unwrap();
        let dir = crate::root::open_local_dir(here.path().as_os_str().as_encoded_bytes()).unwrap();
        let Some(file) = create(dir.as_fd()) else {
            eprintln!("SKIPPED: this file system has no files without a name");
            return;
        };
        rustix::io::write(&file, b"bytes").unwrap();
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
        by_path(file.as_fd(), dir.as_fd(), b"path").unwrap();
        let taken = by_path(file.as_fd(), dir.as_fd(), b"path");
        assert_eq!(taken, Err(Errno::EXIST));
        let file = create(dir.as_fd()).unwrap();
        link(file.as_fd(), dir.as_fd(), b"link").unwrap();
        let taken = link(file.as_fd(), dir.as_fd(), b"path");
        assert_eq!(taken, Err(Errno::EXIST));
        assert_eq!(std::fs::read(here.path().join("path")).unwrap(), b"bytes");
        assert_eq!(std::fs::read(here.path().join("link")).unwrap(), b"");
    }
}

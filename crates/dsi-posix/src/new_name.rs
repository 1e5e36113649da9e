//! A rename that replaces nothing.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

/// Renames an entry of `dir` whose new name was free a moment ago. If it is not any more, fails with
/// [`Errno::EXIST`].
pub(crate) fn rename(dir: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // File systems without that have links, as NFS.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link(dir, from, to),
        done => done,
    }
}

/// The same in two steps: after a crash between them the file has both names.
fn link(dir: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match rustix::fs::linkat(dir, from, dir, to, AtFlags::empty()) {
        // It is published: an old name that stays is no failure of that.
        Ok(()) => {
            let _ = rustix::fs::unlinkat(dir, from, AtFlags::empty());
            Ok(())
        }
        // The reply to an earlier try may have been lost, as over NFS.
        Err(Errno::EXIST) if is_same(dir, from, to) => {
            let _ = rustix::fs::unlinkat(dir, from, AtFlags::empty());
            Ok(())
        }
        // Neither the one nor the other: all that is left is the look a moment ago.
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::renameat(dir, from, dir, to)
        }
        Err(errno) => Err(errno),
    }
}

/// Says whether both names are those of one file.
fn is_same(dir: BorrowedFd<'_>, one: &[u8], other: &[u8]) -> bool {
    let of = |name| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    matches!((of(one), of(other)), (Ok(one), Ok(other))
        if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

#[cfg(test)]
mod tests {
    use rustix::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_name_in_use_stays_in_both_ways() {
        for way in [rename, link] {
            let here = tempfile::tempdir().unwrap();
            for name in ["old", "new"] {
                std::fs::write(here.path().join(name), name).unwrap();
            }
            let path = here.path().as_os_str().as_encoded_bytes();
            let dir = crate::root::open_local_dir(path).unwrap();
            let taken = way(dir.as_fd(), b"new", b"old");
            assert_eq!(taken, Err(Errno::EXIST));
            way(dir.as_fd(), b"new", b"free").unwrap();
            let read = |name: &str| std::fs::read_to_string(here.path().join(name));
            assert_eq!(
                (read("old").unwrap(), read("free").unwrap()),
                ("old".into(), "new".into())
            );
            assert!(read("new").is_err());
        }
    }

    #[test]
    fn a_link_that_was_made_already_counts() {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("new"), "new").unwrap();
        std::fs::hard_link(here.path().join("new"), here.path().join("own")).unwrap();
        let dir = crate::root::open_local_dir(here.path().as_os_str().as_encoded_bytes()).unwrap();
        link(dir.as_fd(), b"new", b"own").unwrap();
        assert!(!here.path().join("new").exists() && here.path().join("own").exists());
    }
}

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
        Ok(()) => rustix::fs::unlinkat(dir, from, AtFlags::empty()),
        // Neither the one nor the other: all that is left is the look a moment ago.
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::renameat(dir, from, dir, to)
        }
        Err(errno) => Err(errno),
    }
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
}

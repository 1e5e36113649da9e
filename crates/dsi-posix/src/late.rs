//! Which file systems tell of a failed write only when the file is synced or closed, and how they are asked.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// NFS, SMB in its three generations, AFS, and file systems that are programs, as `statfs` numbers
/// them: writes wait here for the other end, which may have no space left for them.
const LATE: [i64; 6] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x6573_5546,
];

/// Has the file's bytes on the medium, if that is `wanted`, and learns in any case whether all of
/// them were taken.
///
/// Where that is not sure before, the file has to be synced: closing it would do the same work, and
/// its answer goes to nobody.
///
/// # Errors
/// The file system's, among them those of writes that seemed to succeed.
pub(crate) fn settle(file: BorrowedFd<'_>, wanted: bool) -> Result<(), Errno> {
    if wanted {
        return crate::uninterrupted::fsync(file);
    }
    if !is_late(file) {
        return Ok(());
    }
    match crate::uninterrupted::fsync(file) {
        // One that has no such operation has nothing to tell either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        done => done,
    }
}

fn is_late(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| LATE.contains(&fs.f_type))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn local_file_systems_tell_at_once() {
        let here = tempfile::tempfile().unwrap();
        assert!(!is_late(here.as_fd()));
        if let Ok(memory) = tempfile::tempfile_in("/dev/shm") {
            assert!(!is_late(memory.as_fd()));
        }
    }

    #[test]
    fn what_cannot_be_synced_fails_only_where_that_is_wanted() {
        let (_, pipe) = std::io::pipe().unwrap();
        assert_eq!(settle(pipe.as_fd(), true), Err(Errno::INVAL));
        assert_eq!(settle(pipe.as_fd(), false), Ok(()));
    }
}

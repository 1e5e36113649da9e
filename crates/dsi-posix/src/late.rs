//! File systems with late errors or wrong holes: those of other machines, and ZFS.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// The `statfs` types of NFS, three generations of SMB, AFS and FUSE: they cache writes for the
/// other end, which may have no space left for them.
const LATE: [i64; 6] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x6573_5546,
];

/// Syncs the file to the medium if `wanted`, and in any case checks that all writes succeeded.
///
/// On these file systems the check needs a sync as well: closing the file would do the same work,
/// but its error is lost.
///
/// # Errors
/// Errors of the file system, also of earlier writes that seemed to succeed.
pub(crate) fn settle(file: BorrowedFd<'_>, wanted: bool) -> Result<(), Errno> {
    if wanted {
        return crate::uninterrupted::fsync(file);
    }
    if !is_late(file) {
        return Ok(());
    }
    match crate::uninterrupted::fsync(file) {
        // A file system without this operation reports no late errors either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// Whether the holes of the file are the ranges that were not written: ZFS stores zeros as holes,
/// and the other end of a network file system may do so.
pub(crate) fn tells_holes(file: BorrowedFd<'_>) -> bool {
    const ZFS: i64 = 0x2fc1_2fc1;
    rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type != ZFS && !LATE.contains(&fs.f_type))
}

/// Whether the file is on another machine.
pub(crate) fn is_late(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| LATE.contains(&fs.f_type))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn local_file_systems_report_errors_at_once() {
        let here = tempfile::tempfile().unwrap();
        assert!(!is_late(here.as_fd()));
        if let Ok(memory) = tempfile::tempfile_in("/dev/shm") {
            assert!(!is_late(memory.as_fd()));
        }
    }

    #[test]
    fn a_pipe_fails_only_if_a_sync_is_wanted() {
        let (_, pipe) = std::io::pipe().unwrap();
        assert_eq!(settle(pipe.as_fd(), true), Err(Errno::INVAL));
        assert_eq!(settle(pipe.as_fd(), false), Ok(()));
    }
}

//! Copies the bytes of one file into another, by reference if possible, and keeps holes.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::fd::BorrowedFd;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

/// Most bytes of one call to the kernel.
const STEP: u64 = 64 << 20;

/// The end of a copy that failed, with the error of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    Source(Errno),
    Destination(Errno),
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        let (Failure::Source(errno) | Failure::Destination(errno)) = failure;
        errno
    }
}

/// Copies the first `size` bytes of `from` into the empty file `to` until `stop` is set; holes stay
/// holes.
pub(crate) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: u64,
    stop: &AtomicBool,
) -> Result<(), Errno> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return crate::uninterrupted::ftruncate(to, size);
    }
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?.min(size);
        copy_range(from, to, (start, end), stop)?;
        at = end.max(start + 1);
    }
    crate::uninterrupted::ftruncate(to, size)
}

/// Copies the bytes from `at` to `end` of one file to the same place of another until `stop` is set.
pub(crate) fn copy_range(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    (mut at, end): (u64, u64),
    stop: &AtomicBool,
) -> Result<(), Failure> {
    while at < end {
        must_go_on(stop)?;
        let (mut read, mut write) = (at, at);
        let step = usize::try_from((end - at).min(STEP)).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut write), step) {
            // Some file systems copy nothing of bytes that can be read, and no error tells its end.
            Ok(0) => return copy_by_hand(from, to, (at, end), stop),
            Ok(copied) => at += u64::try_from(copied).unwrap_or(0),
            Err(Errno::INTR) => {}
            Err(_) => return copy_by_hand(from, to, (at, end), stop),
        }
    }
    Ok(())
}

fn must_go_on(stop: &AtomicBool) -> Result<(), Failure> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Destination(Errno::CANCELED)),
        false => Ok(()),
    }
}

fn copy_by_hand(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    (mut at, end): (u64, u64),
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut block = vec![0; 256 * 1024];
    while at < end {
        must_go_on(stop)?;
        let want = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(block.len());
        match rustix::io::pread(from, block.get_mut(..want).unwrap_or_default(), at) {
            // Truncated meanwhile: the copy would have zeros in place of the lost bytes.
            Ok(0) => return Err(Failure::Source(Errno::STALE)),
            Ok(read) => {
                let written = write_all(to, block.get(..read).unwrap_or_default(), at);
                written.map_err(Failure::Destination)?;
                at += u64::try_from(read).unwrap_or(0);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::Source(errno)),
        }
    }
    Ok(())
}

/// Writes all of `data` at `offset`.
pub(crate) fn write_all(to: BorrowedFd<'_>, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::pwrite(to, data, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                data = data.get(written..).unwrap_or_default();
                offset += u64::try_from(written).unwrap_or(0);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes `len` bytes out of `pipe` at `offset`.
pub(crate) fn splice_all(
    pipe: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    mut offset: u64,
    mut len: usize,
) -> Result<(), Errno> {
    while len > 0 {
        match splice(pipe, None, to, Some(&mut offset), len, SpliceFlags::MOVE) {
            Ok(0) => return Err(Errno::IO),
            // The kernel has advanced the offset.
            Ok(moved) => len = len.saturating_sub(moved),
            Err(Errno::INTR) => {}
            Err(Errno::INVAL) => return drain_all(pipe, to, offset, len),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// As `splice_all`, for file systems without splice.
fn drain_all(
    pipe: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    mut offset: u64,
    mut len: usize,
) -> Result<(), Errno> {
    let mut block = vec![0; len.min(64 * 1024)];
    while len > 0 {
        let want = block.len().min(len);
        let got = match rustix::io::read(pipe, block.get_mut(..want).unwrap_or_default()) {
            Ok(0) => return Err(Errno::IO),
            Ok(got) => got,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        write_all(to, block.get(..got).unwrap_or_default(), offset)?;
        offset += u64::try_from(got).unwrap_or(0);
        len -= got;
    }
    Ok(())
}

/// Reads `len` bytes at `offset`, or up to the end of the file.
pub(crate) fn read_some(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Bytes, Errno> {
    let (mut bytes, mut read) = (vec![0; len], 0);
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, offset + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(read);
    Ok(bytes.into())
}

/// Writes all of `data` at the position of the file.
pub(crate) fn write_on(file: BorrowedFd<'_>, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::write(file, data) {
            Ok(written) => data = data.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_copy_stops_once_its_flag_is_set() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all_at(b"content", 0).unwrap();
        let end = |to: &File| to.metadata().unwrap().len();
        for stop in [true, false] {
            let stop = AtomicBool::new(stop);
            for copy in [copy_range, copy_by_hand] {
                let done = copy(from.as_fd(), to.as_fd(), (0, 7), &stop);
                let (expected, len) = match stop.load(Ordering::Relaxed) {
                    true => (Err(Failure::Destination(Errno::CANCELED)), 0),
                    false => (Ok(()), 7),
                };
                assert_eq!((done, end(&to)), (expected, len));
            }
        }
    }
    #[test]
    fn a_failed_copy_tells_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (name, stop) = (dir.path().join("file"), AtomicBool::new(false));
        std::fs::write(&name, b"content").unwrap();
        let (read, write) = (File::open(&name).unwrap(), tempfile::tempfile().unwrap());
        let only_written = File::options().write(true).open(&name).unwrap();
        for (from, to, end, failure) in [
            (&only_written, &write, 7, Failure::Source(Errno::BADF)),
            (&read, &write, 8, Failure::Source(Errno::STALE)),
            (&write, &read, 7, Failure::Destination(Errno::BADF)),
        ] {
            let done = copy_range(from.as_fd(), to.as_fd(), (0, end), &stop);
            assert_eq!(done, Err(failure));
        }
    }
}

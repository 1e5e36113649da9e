//! `Holes`: blocks of zeros that become holes of a file.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::BorrowedFd;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};

use super::{FileSink, Inner, Way};
use crate::copy::write_all;
use crate::error::Outcome;

/// Size of a block, in bytes: the unit in which most file systems allocate.
const BLOCK: usize = 4096;

/// The holes of one file.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// End of the last one, to which the file has yet to be extended.
    end: AtomicU64,
}

impl Holes {
    /// Says whether there are any.
    pub(super) fn exist(&self) -> bool {
        self.end.load(Ordering::Relaxed) > 0
    }

    /// Writes `data` at `offset`; whole blocks of zeros become holes.
    pub(super) fn write(
        &self,
        file: BorrowedFd<'_>,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Errno> {
        let (mut rest, mut at) = (data, offset);
        while !rest.is_empty() {
            let (is_zero, len) = run(rest, at);
            let (now, later) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            let end = at.saturating_add(now.len() as u64);
            if is_zero && leave_out(file, at, end)? {
                self.end.fetch_max(end, Ordering::Relaxed);
            } else {
                write_all(file, now, at)?;
            }
            (rest, at) = (later, end);
        }
        Ok(())
    }

    /// Says whether the file ends within a hole.
    fn are_open(&self, file: BorrowedFd<'_>) -> Result<bool, Errno> {
        Ok(size_of(file)? < self.end.load(Ordering::Relaxed))
    }

    /// Extends the file over a hole at its end; no write may be in progress.
    fn settle(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        match self.are_open(file)? {
            true => crate::uninterrupted::ftruncate(file, self.end.load(Ordering::Relaxed)),
            false => Ok(()),
        }
    }
}

/// The first bytes of `data`, which begin at `offset`, that are all whole blocks of zeros or all
/// not: whether they are, and their number.
fn run(data: &[u8], offset: u64) -> (bool, usize) {
    let lead = usize::try_from(offset.wrapping_neg() % BLOCK as u64).unwrap_or(0);
    let Some((_, aligned)) = data.split_at_checked(lead) else {
        return (false, data.len());
    };
    let is_zero = |block: &[u8]| block.len() == BLOCK && block.iter().all(|byte| *byte == 0);
    let first = lead == 0 && aligned.chunks(BLOCK).next().is_some_and(is_zero);
    let mut blocks = aligned.chunks(BLOCK);
    let same = blocks.by_ref().take_while(|block| is_zero(block) == first);
    (first, lead + same.map(<[u8]>::len).sum::<usize>())
}

/// Leaves zeros out of a file, where bytes of an earlier attempt may be; `false` if they have to be
/// written.
fn leave_out(file: BorrowedFd<'_>, at: u64, end: u64) -> Result<bool, Errno> {
    if size_of(file)? <= at {
        return Ok(true);
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| rustix::fs::fallocate(file, punch, at, end - at)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn size_of(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}

impl Inner {
    /// The holes that writes leave. A shared upload has none: its owner tells by its holes which
    /// bytes did not arrive.
    pub(super) fn leaves_holes(&self) -> Option<&Holes> {
        self.holes.get().filter(|_| self.mark.get().is_none())
    }

    /// Gives the file the size that its holes make, which waits for the writes in progress where it
    /// lacks that size.
    pub(super) fn settle_holes(&self) -> Outcome<()> {
        let Some(holes) = self.holes.get().filter(|holes| holes.exist()) else {
            return Ok(());
        };
        if holes.are_open(self.file()?)? {
            let _alone = self.closed.write().unwrap_or_else(PoisonError::into_inner);
            holes.settle(self.file()?)?;
        }
        Ok(())
    }
}

impl FileSink {
    /// Leaves whole blocks of zeros out of the file, so that they take no space. A file that is
    /// written in place, or shared with other processes, is written with all its bytes.
    pub fn leave_holes(&self) {
        if let Way::Whole(_) = self.inner.way {
            self.inner.holes.get_or_init(Holes::default);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    #[test]
    fn runs_are_of_whole_blocks() {
        let block = |byte| [byte; BLOCK];
        let bytes = [block(0), block(0), block(1), block(0)].concat();
        for (bytes, offset, expected) in [
            (&bytes[..], 0, (true, 2 * BLOCK)),
            (&bytes[2 * BLOCK..], 0, (false, BLOCK)),
            (&bytes[3 * BLOCK..], 0, (true, BLOCK)),
            (&bytes[1..], 1, (false, BLOCK - 1)),
            (&bytes[..], 7, (false, BLOCK - 7)),
            (&bytes[..BLOCK - 1], 0, (false, BLOCK - 1)),
            (&bytes[..5], 10, (false, 5)),
        ] {
            assert_eq!(run(bytes, offset), expected, "{offset}");
        }
    }

    #[test]
    fn zeros_replace_bytes_that_are_there() {
        let file = tempfile::tempfile().unwrap();
        let bytes = vec![7; 4 * BLOCK];
        file.write_all_at(&bytes, 0).unwrap();
        let holes = Holes::default();
        let zeros = vec![0; 1 << 20];
        holes.write(file.as_fd(), &zeros, 1).unwrap();
        holes.settle(file.as_fd()).unwrap();
        let mut read = vec![9; (1 << 20) + 1];
        File::read_exact_at(&file, &mut read, 0).unwrap();
        assert!(read[0] == 7 && read[1..].iter().all(|byte| *byte == 0));
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 1);
        assert!(file.metadata().unwrap().blocks() * 512 <= 4 * BLOCK as u64);
    }
}

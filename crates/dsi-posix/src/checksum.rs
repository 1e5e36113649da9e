//! Checksums over a range of a file, streaming in bounded memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use gridftp_dsi::hasher::{COSTS, Hasher};
use gridftp_dsi::{ChecksumAlgorithm, ErrorKind, Progress, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use crate::blocking::{Work, run_until_dropped};
use crate::error::{Fault, Outcome};

/// Bytes hashed between two reads.
const BLOCK: usize = 256 * 1024;

/// Bytes hashed before another digest gets its turn.
const TURN: u64 = 16 << 20;

/// A digest of a range of a file, computed in turns.
struct Digest {
    hasher: Hasher,
    at: u64,
    end: u64,
}

impl Digest {
    /// Begins the digest of `length` bytes from `offset`, or up to the end of the file.
    fn new(algorithm: ChecksumAlgorithm, offset: u64, length: Option<u64>) -> Outcome<Self> {
        let hasher = Hasher::new(algorithm).ok_or(Fault::Rule(
            ErrorKind::Unsupported,
            "this checksum algorithm is not implemented",
        ))?;
        // No file is larger.
        let most = i64::MAX.unsigned_abs();
        let end = length.map_or(most, |length| offset.saturating_add(length).min(most));
        Ok(Self {
            hasher,
            at: offset,
            end,
        })
    }

    /// Hashes for one turn, until `stop` is set; returns whether bytes are left.
    fn turn(&mut self, file: impl AsFd, progress: &Progress, stop: &AtomicBool) -> Outcome<bool> {
        let until = self.end.min(self.at.saturating_add(TURN));
        let mut block = vec![0; BLOCK];
        while self.at < until {
            if stop.load(Ordering::Relaxed) {
                return Err(Errno::CANCELED.into());
            }
            let want = usize::try_from(until - self.at).map_or(BLOCK, |want| want.min(BLOCK));
            let buffer = block.get_mut(..want).unwrap_or_default();
            let read = match rustix::io::pread(&file, &mut *buffer, self.at) {
                Ok(0) => return Ok(false),
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            self.hasher.update(buffer.get(..read).unwrap_or_default());
            let read = u64::try_from(read).unwrap_or(0);
            progress.add(read);
            self.at += read;
        }
        Ok(self.at < self.end)
    }

    /// Returns the digest in lower-case hexadecimal.
    fn finish(self) -> String {
        self.hasher.finish()
    }
}

/// Hashes `length` bytes of `file` from `offset`, or up to its end, in turns with other digests.
///
/// Errors name the operation and path in `named`.
///
/// # Cancel safety
/// Dropping the future ends the work at its next block.
pub(crate) async fn in_turns(
    file: OwnedFd,
    algorithm: ChecksumAlgorithm,
    (offset, length): (u64, Option<u64>),
    progress: &Progress,
    named: (&'static str, String),
) -> Result<String> {
    let (op, path) = named;
    let fail = |fault: Fault| fault.of(op, &path);
    let mut digest = Digest::new(algorithm, offset, length).map_err(fail)?;
    let file = Arc::new(file);
    loop {
        let (file, progress) = (Arc::clone(&file), progress.clone());
        let turn = run_until_dropped(Work::Digest, op, move |stop| {
            let more = digest.turn(&file, &progress, stop);
            Ok(more.map(|more| (digest, more)))
        });
        let (now, more) = turn.await?.map_err(fail)?;
        if !more {
            return Ok(now.finish());
        }
        digest = now;
    }
}

/// Hashes a whole file in one turn.
pub(crate) fn of_file(file: impl AsFd, algorithm: ChecksumAlgorithm) -> Outcome<String> {
    let mut digest = Digest::new(algorithm, 0, None)?;
    while digest.turn(&file, &Progress::new(), &AtomicBool::new(false))? {}
    Ok(digest.finish())
}

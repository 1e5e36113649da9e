//! Checksums over a range of a file, streaming in bounded memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gridftp_dsi::{ChecksumAlgorithm, ErrorKind, Progress, Result};
use md5::{Digest as _, Md5};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use crate::blocking::{Work, run_until_dropped};
use crate::error::{Fault, Outcome};

/// Bytes hashed between two reads.
const BLOCK: usize = 256 * 1024;

/// Bytes hashed before another digest gets its turn.
const TURN: u64 = 16 << 20;

/// The algorithms of this crate and their costs, on the scale of the FEAT line from 1 to 20.
pub const COSTS: [(ChecksumAlgorithm, u8); 6] = [
    (ChecksumAlgorithm::Crc32c, 10),
    (ChecksumAlgorithm::Adler32, 10),
    (ChecksumAlgorithm::Sha1, 11),
    (ChecksumAlgorithm::Sha256, 11),
    (ChecksumAlgorithm::Md5, 12),
    (ChecksumAlgorithm::Sha512, 12),
];

/// A checksum being computed.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Md5(Md5),
    Adler32(simd_adler32::Adler32),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Crc32c(u32),
}

impl Hasher {
    /// Begins a checksum; `None` for an algorithm that this crate does not implement.
    pub fn new(algorithm: ChecksumAlgorithm) -> Option<Self> {
        Some(Self(match algorithm {
            ChecksumAlgorithm::Md5 => State::Md5(Md5::new()),
            ChecksumAlgorithm::Adler32 => State::Adler32(simd_adler32::Adler32::new()),
            ChecksumAlgorithm::Sha1 => State::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => State::Sha256(Sha256::new()),
            ChecksumAlgorithm::Sha512 => State::Sha512(Box::new(Sha512::new())),
            ChecksumAlgorithm::Crc32c => State::Crc32c(0),
            _ => return None,
        }))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.0 {
            State::Md5(h) => h.update(data),
            State::Adler32(h) => h.write(data),
            State::Sha1(h) => h.update(data),
            State::Sha256(h) => h.update(data),
            State::Sha512(h) => h.update(data),
            State::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, data),
        }
    }

    /// Returns the checksum in lower-case hexadecimal.
    pub fn finish(self) -> String {
        match self.0 {
            State::Md5(h) => hex(&h.finalize()),
            State::Adler32(h) => hex(&h.finish().to_be_bytes()),
            State::Sha1(h) => hex(&h.finalize()),
            State::Sha256(h) => hex(&h.finalize()),
            State::Sha512(h) => hex(&h.finalize()),
            State::Crc32c(crc) => hex(&crc.to_be_bytes()),
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('?');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let digest = |algorithm, data: &[u8]| {
            let mut hasher = Hasher::new(algorithm).unwrap();
            for part in data.chunks(3) {
                hasher.update(part);
            }
            hasher.finish()
        };
        assert_eq!(
            digest(ChecksumAlgorithm::Md5, b""),
            "d41d8cd98f00b204e9800998ecf8427e"
        );
        assert_eq!(
            digest(ChecksumAlgorithm::Md5, b"123456789"),
            "25f9e794323b453885f5181f1b624d0b"
        );
        assert_eq!(digest(ChecksumAlgorithm::Adler32, b""), "00000001");
        assert_eq!(digest(ChecksumAlgorithm::Adler32, b"123456789"), "091e01de");
        assert_eq!(digest(ChecksumAlgorithm::Crc32c, b"123456789"), "e3069283");
        assert_eq!(
            digest(ChecksumAlgorithm::Sha1, b"123456789"),
            "f7c3bc1d808e04732adf679965ccc34ca7ae3441"
        );
        assert!(digest(ChecksumAlgorithm::Sha256, b"").starts_with("e3b0c44298fc1c14"));
        assert!(digest(ChecksumAlgorithm::Sha512, b"").starts_with("cf83e1357eefb8bd"));
        for algorithm in ChecksumAlgorithm::ALL {
            assert_eq!(
                digest(algorithm, b"x").len(),
                algorithm.hex_len(),
                "{algorithm}"
            );
        }
    }
}

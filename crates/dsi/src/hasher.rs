//! `Hasher`: the checksum algorithms in software, for backends.

use std::fmt;

use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use crate::capability::ChecksumAlgorithm;

/// The algorithms and their costs, on the scale of the FEAT line from 1 to 20.
pub const COSTS: [(ChecksumAlgorithm, u8); 7] = [
    (ChecksumAlgorithm::Blake3, 9),
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
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// Begins a checksum; `None` for an algorithm without an implementation here.
    pub fn new(algorithm: ChecksumAlgorithm) -> Option<Self> {
        Some(Self(match algorithm {
            ChecksumAlgorithm::Md5 => State::Md5(Md5::new()),
            ChecksumAlgorithm::Adler32 => State::Adler32(simd_adler32::Adler32::new()),
            ChecksumAlgorithm::Sha1 => State::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => State::Sha256(Sha256::new()),
            ChecksumAlgorithm::Sha512 => State::Sha512(Box::new(Sha512::new())),
            ChecksumAlgorithm::Crc32c => State::Crc32c(0),
            ChecksumAlgorithm::Blake3 => State::Blake3(Box::default()),
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
            State::Blake3(h) => drop(h.update(data)),
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
            State::Blake3(h) => hex(h.finalize().as_bytes()),
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
        assert!(digest(ChecksumAlgorithm::Blake3, b"").starts_with("af1349b9f5f9a1a6"));
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

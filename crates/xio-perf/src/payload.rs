//! `Payload`: generated data to send.

use std::sync::Arc;

use crate::flags::Data;

/// Bytes before the data repeats, beyond the window of any codec.
const LENGTH: usize = 8 << 20;

/// Common words, so that the text compresses about like English.
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "in",
    "that",
    "was",
    "with",
    "for",
    "it",
    "on",
    "is",
    "as",
    "be",
    "at",
    "by",
    "this",
    "had",
    "not",
    "are",
    "but",
    "from",
    "or",
    "have",
    "an",
    "they",
    "which",
    "one",
    "were",
    "all",
    "their",
    "there",
    "detector",
    "sample",
    "energy",
    "beam",
    "event",
    "channel",
    "measured",
    "temperature",
    "between",
    "pressure",
    "observed",
    "telescope",
    "signal",
    "background",
    "calibration",
    "instrument",
    "spectrum",
    "resolution",
    "during",
    "analysis",
];

/// A long block of bytes that a sender sends repeatedly.
///
/// Clones share the bytes and start at the position of the original.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    bytes: Arc<[u8]>,
    /// Offset of the next bytes.
    at: usize,
}

impl Payload {
    /// Generates data for writes of at most `block` bytes.
    pub(crate) fn new(data: Data, block: usize) -> Self {
        let length = LENGTH.max(block);
        let bytes = match data {
            Data::Zero => vec![0; block],
            Data::Text => text(length),
            Data::Random => random(length),
        };
        Self {
            bytes: bytes.into(),
            at: 0,
        }
    }

    /// Returns the next bytes, at most `want`.
    pub(crate) fn next(&mut self, want: usize) -> &[u8] {
        if self.at >= self.bytes.len() {
            self.at = 0;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let block = rest.get(..want).unwrap_or(rest);
        self.at += block.len();
        block
    }
}

/// Marsaglia's xorshift: fast and incompressible.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn random(length: usize) -> Vec<u8> {
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&noise.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn text(length: usize) -> Vec<u8> {
    let mut noise = Noise(0x2545_F491_4F6C_DD1D);
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        let draw = noise.next() >> 33;
        let word = usize::try_from(draw).unwrap_or(0) % WORDS.len();
        bytes.extend_from_slice(WORDS.get(word).copied().unwrap_or("the").as_bytes());
        let end: &[u8] = if draw.is_multiple_of(13) {
            b".\n"
        } else {
            b" "
        };
        bytes.extend_from_slice(end);
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_repeats() {
        for data in [Data::Zero, Data::Text, Data::Random] {
            let mut payload = Payload::new(data, 1000);
            for _ in 0..2 * LENGTH / 1000 {
                let len = payload.next(1000).len();
                assert!((1..=1000).contains(&len), "{data:?}");
            }
        }
    }

    #[test]
    fn text_is_letters_and_noise_uses_every_byte() {
        assert!(text(10_000).iter().all(u8::is_ascii));
        let noise = random(100_000);
        let mut seen = [false; 256];
        noise
            .iter()
            .for_each(|&byte| seen[usize::from(byte)] = true);
        assert!(seen.iter().all(|&seen| seen));
    }
}

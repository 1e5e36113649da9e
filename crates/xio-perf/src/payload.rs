//! `Payload`: the bytes that are sent when they are not a file's.

use std::sync::Arc;

use crate::flags::Data;

/// Long enough that no codec sees its repetition.
const LENGTH: usize = 8 << 20;

/// Common words, so that what is made of them compresses about as English does.
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

/// A long run of bytes of which a sender takes turns, from its beginning on and round again.
///
/// Clones share the bytes and begin where the original stood.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    bytes: Arc<[u8]>,
    /// Where the next turn begins.
    at: usize,
}

impl Payload {
    /// Makes bytes of a kind, of which each turn takes at most `turn`.
    pub(crate) fn new(data: Data, turn: usize) -> Self {
        let length = LENGTH.max(turn);
        let bytes = match data {
            Data::Zero => vec![0; turn],
            Data::Text => text(length),
            Data::Random => random(length),
        };
        Self {
            bytes: bytes.into(),
            at: 0,
        }
    }

    /// The next bytes, at most `want`.
    pub(crate) fn next(&mut self, want: usize) -> &[u8] {
        if self.at >= self.bytes.len() {
            self.at = 0;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let turn = rest.get(..want).unwrap_or(rest);
        self.at += turn.len();
        turn
    }
}

/// Marsaglia's xorshift: fast, and noise to any codec.
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
    fn turns_go_round() {
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

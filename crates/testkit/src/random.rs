//! `Random`: numbers from a seed, the same on every machine, so that a failure can be reproduced.

/// A sequence of numbers that follows from a seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 1 to `most`; 1 if `most` is 0.
    pub fn up_to(&mut self, most: usize) -> usize {
        let drawn = self.number() % (most.max(1) as u64);
        // It is below `most`, so the conversion succeeds.
        usize::try_from(drawn).map_or(most, |n| n + 1)
    }

    /// Returns one element, or `None` if there is none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.up_to(of.len()) - 1).copied()
    }

    /// Returns true with a probability of `chance` percent.
    pub fn percent(&mut self, chance: u8) -> bool {
        self.number() % 100 < u64::from(chance)
    }

    /// Returns `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
        while bytes.len() < len {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

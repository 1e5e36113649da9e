//! `Random`: numbers from a seed, the same on every machine, so that a failure can be replayed.

/// A sequence of numbers that a seed fixes (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 1 to `most`; 1 when `most` is 0.
    pub fn up_to(&mut self, most: usize) -> usize {
        let drawn = self.number() % (most.max(1) as u64);
        // It is below a `usize`, so this keeps it whole.
        usize::try_from(drawn).map_or(most, |n| n + 1)
    }

    /// One of these; `None` where there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.up_to(of.len()) - 1).copied()
    }

    /// Whether an event of so many in a hundred happens.
    pub fn percent(&mut self, chance: u8) -> bool {
        self.number() % 100 < u64::from(chance)
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
        while bytes.len() < len {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

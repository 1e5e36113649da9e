//! `Limits`: bounds on the numbers that a peer may announce.

/// Bounds on the numbers that a peer chooses, checked at the header, before any allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest payload of one block, in bytes; 4 GiB by default. Payload is never held whole, so
    /// this rejects nonsense and saves no memory.
    pub max_block: u64,
    /// Largest end of a block within the file, in bytes; 2^63 − 1 by default, as file offsets are
    /// signed.
    pub max_end: u64,
    /// Most blocks with neither payload nor mark, for a connection and transfer; 1,024 by default.
    pub max_empty: u32,
    /// Most connections of one transfer, and largest count of end-of-data marks; 1,024 by default.
    pub max_connections: u32,
    /// Most separate ranges received; 65,536 (about 1.5 MiB) by default.
    pub max_ranges: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        max_block: 4 << 30,
        max_end: i64::MAX as u64,
        max_empty: 1024,
        max_connections: 1024,
        max_ranges: 65_536,
    };

    /// Sets [`max_block`](Self::max_block), in bytes.
    #[must_use]
    pub const fn with_max_block(mut self, bytes: u64) -> Self {
        self.max_block = bytes;
        self
    }

    /// Sets [`max_end`](Self::max_end), in bytes.
    #[must_use]
    pub const fn with_max_end(mut self, bytes: u64) -> Self {
        self.max_end = bytes;
        self
    }

    /// Sets [`max_empty`](Self::max_empty).
    #[must_use]
    pub const fn with_max_empty(mut self, blocks: u32) -> Self {
        self.max_empty = blocks;
        self
    }

    /// Sets [`max_connections`](Self::max_connections).
    #[must_use]
    pub const fn with_max_connections(mut self, connections: u32) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets [`max_ranges`](Self::max_ranges).
    #[must_use]
    pub const fn with_max_ranges(mut self, ranges: usize) -> Self {
        self.max_ranges = ranges;
        self
    }
}

//! `Subtree`: the place of an aligned, complete subtree, and the values of subtrees.

use blake3::Hasher;
use blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root};

use crate::{GROUP, Value};

/// Bytes of a leaf.
pub(crate) const CHUNK: u64 = blake3::CHUNK_LEN as u64;

/// The level of a group.
pub(crate) const GROUP_LEVEL: u32 = (GROUP / CHUNK).ilog2();

/// Bytes of the longest file.
pub(crate) const LONGEST: u64 = i64::MAX as u64;

/// A subtree of 2^`level` chunks, at a multiple of its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subtree {
    /// Offset of its first byte.
    pub(crate) start: u64,
    /// Chunks, as a power of two.
    pub(crate) level: u32,
}

impl Subtree {
    /// The largest subtree at `start`, a multiple of [`CHUNK`], that `length` bytes complete, but
    /// no larger than a group.
    pub(crate) fn at(start: u64, length: u64) -> Option<Self> {
        let fits = (length / CHUNK).checked_ilog2()?;
        let aligned = (start / CHUNK).trailing_zeros();
        Some(Self {
            start,
            level: fits.min(aligned).min(GROUP_LEVEL),
        })
    }

    /// Its length, in bytes.
    pub(crate) fn length(self) -> u64 {
        CHUNK << self.level
    }

    /// The offset behind its last byte.
    pub(crate) fn end(self) -> u64 {
        self.start + self.length()
    }

    /// The other half of its parent.
    pub(crate) fn sibling(self) -> Self {
        let start = self.start ^ self.length();
        Self { start, ..self }
    }

    /// The subtree that it is half of.
    pub(crate) fn parent(self) -> Self {
        Self {
            start: self.start & !self.length(),
            level: self.level + 1,
        }
    }
}

/// The value of the bytes at `start`, which are a complete subtree or the end of the file.
pub(crate) fn value_of(start: u64, bytes: &[u8]) -> Value {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(start);
    hasher.update(bytes).finalize_non_root()
}

/// The value of the parent of two subtrees.
pub(crate) fn join(left: &Value, right: &Value) -> Value {
    merge_subtrees_non_root(left, right, Mode::Hash)
}

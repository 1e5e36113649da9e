//! `Digest`: the digest of the bytes of a transfer that its receipt proves, in any order.

use digest_tree::{Piece, Tree};
use ftp_wire::receipt::Extent;

/// Digest of the bytes of one transfer in the extent of its receipt.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    /// Offset of the first byte, and the extent; `None` when no digest is needed.
    of: Option<(u64, Extent)>,
    tree: Tree,
}

impl Digest {
    /// Computes the digest of the bytes from `from` on.
    pub(crate) fn new(from: u64, extent: Extent) -> Self {
        Self {
            of: Some((from, extent)),
            tree: Tree::new(),
        }
    }

    /// Whether a digest is needed.
    pub(crate) fn is_wanted(&self) -> bool {
        self.of.is_some()
    }

    /// Position of `offset` in the digested bytes, and the number of bytes from there on that the
    /// digest needs.
    pub(crate) fn left(&self, offset: u64) -> Option<(u64, u64)> {
        let (from, extent) = self.of?;
        let at = offset.checked_sub(from)?;
        let left = extent.most().saturating_sub(at);
        (left > 0 && !self.tree.is_lost()).then_some((at, left))
    }

    /// Adds a block to the digest.
    pub(crate) fn add(&mut self, piece: Piece) {
        self.tree.insert(piece);
    }

    /// The digest of all `bytes` bytes, where all are to be proven; `None` when it is not known.
    pub(crate) fn whole(&self, bytes: u64) -> Option<[u8; 32]> {
        let is_whole = self.of.is_some_and(|(_, extent)| extent == Extent::Whole);
        self.value(bytes).filter(|_| is_whole)
    }

    /// The digest of a transfer of `bytes` bytes; `None` when it is not known.
    pub(crate) fn value(&self, bytes: u64) -> Option<[u8; 32]> {
        let (_, extent) = self.of?;
        let digest = self.tree.digest(bytes.min(extent.most())).ok()?;
        Some(digest.into())
    }
}

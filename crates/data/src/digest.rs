//! `Digest`: the digest of the bytes of a transfer that its receipt proves, in any order.

use digest_tree::{Piece, Tree};
use ftp_wire::receipt::Extent;
use gridftp_dsi::GroupValue;

use crate::earlier::Earlier;

/// Digest of the bytes of one transfer in the extent of its receipt.
///
/// That of [`Extent::Whole`] is of the whole file: with the bytes of earlier attempts, where these
/// are known.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    /// Offset of the first byte, and the extent; `None` when no digest is needed.
    of: Option<(u64, Extent)>,
    /// The bytes of earlier attempts, before a transfer that goes on with them begins; `None` within
    /// where their values are not known.
    earlier: Option<Option<Earlier>>,
    /// Number of those bytes.
    before: u64,
    /// `None` when the values of bytes that the transfer leaves out are not known.
    tree: Option<Tree>,
}

impl Digest {
    /// Has the next transfer go on with the bytes of earlier attempts, which the digest counts; it is
    /// not known without their values.
    pub(crate) fn go_on(&mut self, earlier: Option<Earlier>) {
        self.earlier = Some(earlier);
    }

    /// Begins the digest of a transfer of the bytes from `start` on, in a file that begins at
    /// `base`.
    pub(crate) fn begin(&mut self, extent: Extent, start: u64, base: u64) {
        let (from, earlier) = match extent {
            Extent::Head => (start, None),
            Extent::Whole => (base, self.earlier.take()),
        };
        let is_known = match &earlier {
            Some(earlier) => earlier.is_some(),
            None => start <= from,
        };
        let Earlier { tree, bytes } = earlier.flatten().unwrap_or_default();
        *self = Self {
            of: Some((from, extent)),
            earlier: None,
            before: bytes,
            tree: is_known.then_some(tree),
        };
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
        let tree = self.tree.as_ref()?;
        (left > 0 && !tree.is_lost()).then_some((at, left))
    }

    /// Adds a block to the digest.
    pub(crate) fn add(&mut self, piece: Piece) {
        if let Some(tree) = &mut self.tree {
            tree.insert(piece);
        }
    }

    /// The values of groups that were completed since the last call.
    pub(crate) fn take_groups(&mut self) -> Vec<GroupValue> {
        self.tree
            .as_mut()
            .map(Tree::take_groups)
            .unwrap_or_default()
    }

    /// The digest of the whole file after a transfer of `bytes` bytes, where all are to be proven;
    /// `None` when it is not known.
    pub(crate) fn whole(&self, bytes: u64) -> Option<[u8; 32]> {
        let is_whole = self.of.is_some_and(|(_, extent)| extent == Extent::Whole);
        self.value(bytes).filter(|_| is_whole)
    }

    /// The digest of a transfer of `bytes` bytes; `None` when it is not known.
    pub(crate) fn value(&self, bytes: u64) -> Option<[u8; 32]> {
        let (_, extent) = self.of?;
        let length = self.before.saturating_add(bytes).min(extent.most());
        let digest = self.tree.as_ref()?.digest(length).ok()?;
        Some(digest.into())
    }
}

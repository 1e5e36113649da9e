//! `Digest`: the digest of the bytes of a transfer that its receipt proves, in any order.

use byte_ranges::{Range64, RangeSet};
use digest_tree::{Piece, Tree, Value, section_length};
use ftp_wire::receipt::Extent;
use gridftp_dsi::GroupValue;
use mode_e::SectionValue;

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
        let Earlier { tree, bytes, .. } = earlier.flatten().unwrap_or_default();
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
        let digest = self.tree.as_ref()?.digest(self.length(bytes)?).ok()?;
        Some(digest.into())
    }

    /// Number of digested bytes after a transfer of `bytes` bytes.
    fn length(&self, bytes: u64) -> Option<u64> {
        let (_, extent) = self.of?;
        Some(self.before.saturating_add(bytes).min(extent.most()))
    }

    /// The values of the sections of the file after a transfer of `bytes` bytes; none where they
    /// are not known.
    pub(crate) fn sections(&self, bytes: u64) -> Vec<SectionValue> {
        let length = self.length(bytes);
        let sections = length.zip(self.tree.as_ref());
        let sections = sections.and_then(|(length, tree)| tree.sections(length).ok());
        let first = |value: &Value| value.first_chunk().copied();
        sections.iter().flatten().filter_map(first).collect()
    }

    /// The sections of the file, after a transfer of `bytes` bytes, with other values than those
    /// `told`; `None` where that is not known.
    pub(crate) fn differing(&self, bytes: u64, told: &[SectionValue]) -> Option<RangeSet> {
        let (here, size) = (self.sections(bytes), self.length(bytes)?);
        if here.is_empty() || here.len() != told.len() {
            return None;
        }
        let length = section_length(size);
        let starts = (0..size).step_by(usize::try_from(length).ok()?);
        let differing = starts.zip(here.iter().zip(told));
        let differing = differing.filter(|(_, (here, there))| here != there);
        let range = |(start, _): (u64, _)| Range64::new(start, (start + length).min(size));
        let ranges: RangeSet = differing.filter_map(range).collect();
        Some(ranges).filter(|ranges| !ranges.is_empty())
    }
}

const _: () = assert!(digest_tree::MAX_SECTIONS == mode_e::MAX_SECTIONS);

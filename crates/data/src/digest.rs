//! `Digest`: the digest of the bytes of a transfer that its receipt proves, in any order.

use std::collections::BTreeSet;

use byte_ranges::{Range64, RangeSet};
use digest_tree::{GROUP, Known, Piece, Sum, Tree, Value, differing_groups, section_length};
use ftp_wire::receipt::Extent;
use gridftp_dsi::GroupValue;
use mode_e::Hint;

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
    /// Where the digested bytes begin, in a transfer of which this end has a part: it hands on the
    /// values of that, and has no digest.
    part: Option<u64>,
    /// The digest of bytes that only another host has.
    elsewhere: Option<[u8; 32]>,
}

impl Digest {
    /// Has the next transfer go on with the bytes of earlier attempts, which the digest counts; it is
    /// not known without their values.
    pub(crate) fn go_on(&mut self, earlier: Option<Earlier>) {
        self.earlier = Some(earlier);
    }

    /// Begins to collect the values of this end's part of the next transfer, for the front end. The
    /// digest of the whole transfer begins at the offset `from`.
    pub(crate) fn hand_on(&mut self, from: u64) {
        self.part = Some(from);
    }

    /// Whether this end hands on the values of its part.
    pub(crate) fn hands_on(&self) -> bool {
        self.part.is_some()
    }

    /// The values of its part that were not handed on before, as far as they fit a message.
    pub(crate) fn take_known(&mut self) -> Known {
        let tree = self.tree.as_mut().filter(|_| self.part.is_some());
        tree.map(Tree::take_known).unwrap_or_default()
    }

    /// Adds the values of the part of another host.
    pub(crate) fn add_known(&mut self, known: Known) {
        if let Some(tree) = &mut self.tree {
            tree.insert_known(known);
        }
    }

    /// Has the digest be that of the parts of several hosts.
    pub(crate) fn join_parts(&mut self) {
        self.tree = self.tree.take().map(Tree::of_parts);
    }

    /// Begins the digest of a transfer of which another host has all bytes: it is not known until it is
    /// [noted](Self::note).
    pub(crate) fn begin_elsewhere(&mut self, extent: Extent) {
        *self = Self {
            of: Some((0, extent)),
            ..Self::default()
        };
    }

    /// Notes the digest of a host that has all bytes.
    pub(crate) fn note(&mut self, digest: Option<[u8; 32]>) {
        self.elsewhere = digest;
    }

    /// Offset of the first byte that the digest counts.
    pub(crate) fn from(&self) -> Option<u64> {
        self.of.map(|(from, _)| from)
    }

    /// Begins the digest of a transfer of the bytes from `start` on, in a file that begins at
    /// `base`.
    pub(crate) fn begin(&mut self, extent: Extent, start: u64, base: u64) {
        if let Some(from) = self.part {
            *self = Self {
                of: Some((from, extent)),
                tree: Some(Tree::of_part()),
                part: Some(from),
                ..Self::default()
            };
            return;
        }
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
            ..Self::default()
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
        if self.part.is_some() || self.elsewhere.is_some() {
            return self.elsewhere;
        }
        let digest = self.tree.as_ref()?.digest(self.length(bytes)?).ok()?;
        Some(digest.into())
    }

    /// Number of digested bytes after a transfer of `bytes` bytes.
    fn length(&self, bytes: u64) -> Option<u64> {
        let (_, extent) = self.of?;
        Some(self.before.saturating_add(bytes).min(extent.most()))
    }

    /// The hints of the digest after a transfer of `bytes` bytes: the first bytes of the values of the
    /// sections of the file, and behind them the sums over its groups; none where it is not known.
    pub(crate) fn hints(&self, bytes: u64) -> Vec<Hint> {
        let hints = self.length(bytes).and_then(|size| self.of_size(size));
        hints.map_or_else(Vec::new, |(sections, sums)| [sections, sums].concat())
    }

    /// The two parts of the hints of the file of `size` bytes.
    fn of_size(&self, size: u64) -> Option<(Vec<Hint>, Vec<Sum>)> {
        let tree = self.tree.as_ref()?;
        let first = |value: &Value| value.first_chunk().copied();
        let sections = tree.sections(size).ok()?;
        let sums = tree.sums(size).ok()?;
        Some((sections.iter().filter_map(first).collect(), sums))
    }

    /// The groups of the file, after a transfer of `bytes` bytes, for which the sender `told` other
    /// hints; or its sections, where too many groups differ or no sums were told. `None` where that is
    /// not known.
    pub(crate) fn differing(&self, bytes: u64, told: &[Hint]) -> Option<RangeSet> {
        let size = self.length(bytes)?;
        let (here, sums) = self.of_size(size)?;
        let (told, told_sums) = told.split_at_checked(here.len())?;
        if !told_sums.is_empty() && told_sums.len() != sums.len() {
            return None;
        }
        let length = section_length(size);
        let pairs = (0..).zip(here.iter().zip(told));
        let differing = pairs.filter(|(_, (here, there))| here != there);
        let sections: BTreeSet<u64> = differing.map(|(number, _)| number).collect();
        let groups = differing_groups(&sums, told_sums, size.div_ceil(GROUP));
        // Each bad section has a bad group, and no other has one.
        let section = |group: &u64| group / (length / GROUP);
        let groups =
            groups.filter(|groups| groups.iter().map(section).collect::<BTreeSet<_>>() == sections);
        let (length, numbers) = match groups {
            Some(groups) => (GROUP, groups),
            None => (length, sections),
        };
        let range = |number: u64| Range64::new(number * length, ((number + 1) * length).min(size));
        let ranges: RangeSet = numbers.into_iter().filter_map(range).collect();
        Some(ranges).filter(|ranges| !ranges.is_empty())
    }
}

const _: () = assert!(digest_tree::MAX_SECTIONS + digest_tree::SUMS <= mode_e::MAX_HINTS);

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: u64 = 2 * digest_tree::MAX_SECTIONS as u64;

    /// The digest of a file of which the groups `bad` are others.
    fn digest(bad: &[u64]) -> Digest {
        let mut tree = Tree::new();
        for number in 0..GROUPS {
            tree.insert_group(number, [u8::from(bad.contains(&number)) + 1; 32]);
        }
        Digest {
            of: Some((0, Extent::Whole)),
            tree: Some(tree),
            ..Digest::default()
        }
    }

    #[test]
    fn what_a_sender_leaves_out_or_tells_wrong_makes_the_ranges_larger() {
        let size = GROUPS * GROUP;
        let (here, hints) = (digest(&[5]), digest(&[]).hints(size));
        let sections = digest_tree::MAX_SECTIONS;
        assert_eq!(hints.len(), sections + digest_tree::SUMS);
        let range = |start, end| Some(Range64::new(start, end).into_iter().collect());
        let (group, section) = (range(5 * GROUP, 6 * GROUP), range(4 * GROUP, 6 * GROUP));
        assert_eq!(here.differing(size, &hints), group);
        // A sender that tells sections alone.
        assert_eq!(here.differing(size, &hints[..sections]), section);
        for told in [0, 1, sections - 1, sections + 1, hints.len() - 1] {
            assert_eq!(here.differing(size, &hints[..told]), None, "{told}");
        }
        // Sums that name a group in another section, then those of an equal copy, then random bytes.
        let mut other = hints;
        other[sections..].copy_from_slice(&digest(&[5, 9]).hints(size)[sections..]);
        assert_eq!(here.differing(size, &other), section);
        other[sections..].copy_from_slice(&here.hints(size)[sections..]);
        assert_eq!(here.differing(size, &other), section);
        other[sections..].fill([7; 16]);
        assert_eq!(here.differing(size, &other), section);
        assert_eq!(here.differing(size, &here.hints(size)), None);
    }
}

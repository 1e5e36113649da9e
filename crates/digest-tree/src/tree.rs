//! `Tree`: the values of a file as far as it is known, and the digest once it is whole.

use std::collections::BTreeMap;
use std::fmt;

use blake3::Hash;
use blake3::hazmat::{Mode, left_subtree_len, merge_subtrees_root};
use byte_ranges::{Range64, RangeSet};

use crate::piece::{Edge, Parts, Piece};
use crate::sections::{Sections, section_length};
use crate::subtree::{CHUNK, GROUP_LEVEL, LONGEST, Subtree, join, value_of};
use crate::sums::Sum;
use crate::{GROUP, Value};

/// Most values, and most chunks in parts, that wait for bytes before them: about 8 MiB.
pub const MAX_WAITING: usize = 1 << 12;

/// Most separate parts of a chunk: the ranges of 512 single bytes take ten times its own memory.
const MAX_PARTS: usize = 32;

/// Most values that wait in a tree of several hosts' parts, of which one may be far ahead of another:
/// about 5 MiB.
pub const MAX_WAITING_PARTS: usize = 1 << 16;

/// The values of a file of which any ranges are known.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Complete subtrees by offset. Those at the left edge of the tree are not joined: which one
    /// of them is the root shows at the end.
    pub(crate) values: BTreeMap<u64, (u32, Value)>,
    /// Chunks in parts by offset, the first one for good.
    pub(crate) chunks: BTreeMap<u64, Chunk>,
    /// Values of groups that nobody has taken yet, where they are wanted.
    groups: Option<Vec<(u64, Value)>>,
    sections: Sections,
    hosts: Hosts,
    /// The reason for which the digest is lost.
    lost: Option<Unknown>,
}

/// The hosts of the bytes of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Hosts {
    #[default]
    One,
    /// Several, whose parts this tree joins.
    Several,
    /// Several, of which this tree has one part.
    Part,
}

/// A chunk of which parts are known.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) bytes: [u8; blake3::CHUNK_LEN],
    pub(crate) known: RangeSet,
}

/// The reason for which the digest of a tree is not known. The bytes have to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// Bytes before the end are missing.
    Missing,
    /// There are bytes behind the end.
    Longer,
    /// Bytes arrived twice, and may have changed.
    Repeated,
    /// The bytes arrived in too many pieces at once.
    Scattered,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty tree that hands out the values of groups.
    pub fn with_groups() -> Self {
        Self {
            groups: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// An empty tree of a host that has a part of the file: it hands out what it
    /// [knows](Self::take_known), for the tree of all parts.
    pub fn of_part() -> Self {
        Self {
            hosts: Hosts::Part,
            ..Self::default()
        }
    }

    /// The tree of all parts of a file that several hosts send or receive, of which it keeps up to
    /// [`MAX_WAITING_PARTS`] values: with blocks of 1 MiB in turn, one host may be 64 GiB ahead.
    #[must_use]
    pub fn of_parts(self) -> Self {
        Self {
            hosts: Hosts::Several,
            ..self
        }
    }

    /// Adds a block. Bytes that are known already, and too many pieces, lose the digest.
    pub fn insert(&mut self, piece: Piece) {
        self.keep(|tree| {
            let Parts { head, values, tail } = piece.0?;
            tree.edge(&head)?;
            tree.edge(&tail)?;
            let mut values = values.into_iter();
            values.try_for_each(|(subtree, value)| tree.add(subtree, value))
        });
    }

    /// Adds the value of group `number`, that was handed out before, in place of its bytes.
    pub fn insert_group(&mut self, number: u64, value: Value) {
        self.keep(|tree| {
            let known = number.checked_mul(GROUP).filter(|start| *start < LONGEST);
            let start = known.ok_or(Unknown::Longer)?;
            let level = GROUP_LEVEL;
            tree.add(Subtree { start, level }, value)
        });
    }

    /// Says whether the digest is lost, so that further blocks change nothing.
    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The numbers and values of groups that were completed since the last call, in the order of
    /// their completion; none of a tree that was not made [with groups](Self::with_groups).
    pub fn take_groups(&mut self) -> Vec<(u64, Value)> {
        self.groups.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The digest of the file of `size` bytes.
    ///
    /// # Errors
    /// When the tree does not know every byte of it once, or knows more.
    pub fn digest(&self, size: u64) -> Result<Hash, Unknown> {
        self.lost.map_or(Ok(()), Err)?;
        if self.end() > size {
            return Err(Unknown::Longer);
        }
        if size <= CHUNK {
            let first = self.chunks.get(&0).map_or(&[][..], |chunk| &chunk.bytes);
            let whole = usize::try_from(size)
                .ok()
                .and_then(|size| first.get(..size));
            let known = self
                .chunks
                .get(&0)
                .map_or(0, |chunk| chunk.known.first_hole());
            let whole = whole.filter(|_| known == size);
            return match (size, whole) {
                (0, _) => Ok(blake3::hash(&[])),
                (_, Some(whole)) => Ok(blake3::hash(whole)),
                (_, None) => Err(Unknown::Missing),
            };
        }
        let left = left_subtree_len(size);
        let [left, right] = [self.value(0, left)?, self.value(left, size - left)?];
        Ok(merge_subtrees_root(&left, &right, Mode::Hash))
    }

    /// The values of the [sections](section_length) of the file of `size` bytes, in order: where the
    /// digests of two copies differ, these show the places. None of a file of a single section.
    ///
    /// # Errors
    /// As [`digest`](Self::digest).
    pub fn sections(&self, size: u64) -> Result<Vec<Value>, Unknown> {
        self.digest(size)?;
        let length = section_length(size);
        let starts = (0..size.div_ceil(length)).map(|number| number * length);
        let starts = starts.filter(|_| size > length);
        let values = starts.map(|start| match start {
            // It is at the left edge, and the last one may be short.
            1.. if size - start >= length => self.sections.value(start, length),
            _ => self.value(start, length.min(size - start)),
        });
        values.collect()
    }

    /// The [sums](crate::SUMS) over the groups of the file of `size` bytes, with which those of another copy
    /// tell the [groups that differ](crate::differing_groups). None of a file whose
    /// [sections](Self::sections) are groups themselves.
    ///
    /// # Errors
    /// As [`digest`](Self::digest).
    pub fn sums(&self, size: u64) -> Result<Vec<Sum>, Unknown> {
        self.digest(size)?;
        if section_length(size) == GROUP {
            return Ok(Vec::new());
        }
        let mut sums = self.sections.sums();
        // It is kept in parts, and the last one is not complete if it is short.
        sums.add(0, &self.value(0, GROUP)?);
        let short = size % GROUP;
        if short > 0 {
            sums.add(size / GROUP, &self.value(size - short, short)?);
        }
        Ok(sums.to_bytes())
    }

    /// The value of the `length` bytes at `start`, of which only the last chunk may be short.
    fn value(&self, start: u64, length: u64) -> Result<Value, Unknown> {
        if let Some((level, value)) = self.values.get(&start)
            && CHUNK << level == length
        {
            return Ok(*value);
        }
        if length <= CHUNK {
            let chunk = self.chunks.get(&start).ok_or(Unknown::Missing)?;
            let whole = usize::try_from(length)
                .ok()
                .and_then(|length| chunk.bytes.get(..length));
            let whole = whole.filter(|_| chunk.known.first_hole() == length);
            return Ok(value_of(start, whole.ok_or(Unknown::Missing)?));
        }
        let left = left_subtree_len(length);
        let [left, right] = [
            self.value(start, left)?,
            self.value(start + left, length - left)?,
        ];
        Ok(join(&left, &right))
    }

    /// The offset behind the last known byte.
    fn end(&self) -> u64 {
        let value = self.values.last_key_value();
        let value = value.map(|(&start, &(level, _))| Subtree { start, level }.end());
        let chunk = self.chunks.last_key_value();
        let chunk = chunk.map(|(start, chunk)| start + chunk.known.end());
        value.max(chunk).unwrap_or(0)
    }

    /// Changes the tree, which is of no use any more after a failure.
    pub(crate) fn keep(&mut self, change: impl FnOnce(&mut Self) -> Result<(), Unknown>) {
        if self.lost.is_none()
            && let Err(reason) = change(self)
        {
            *self = Self {
                lost: Some(reason),
                ..Self::default()
            };
        }
    }

    /// Adds bytes of one chunk.
    pub(crate) fn edge(&mut self, edge: &Edge) -> Result<(), Unknown> {
        let start = edge.start - edge.start % CHUNK;
        let Some(range) = Range64::from_len(edge.start - start, edge.bytes.len() as u64) else {
            return Ok(());
        };
        if self.is_known(Subtree { start, level: 0 }) {
            return Err(Unknown::Repeated);
        }
        let chunk = self.chunks.entry(start).or_insert_with(|| Chunk {
            bytes: [0; blake3::CHUNK_LEN],
            known: RangeSet::new(),
        });
        let first = usize::try_from(range.start()).unwrap_or(usize::MAX);
        let place = chunk.bytes.get_mut(first..).unwrap_or_default();
        let Some(place) = place.get_mut(..edge.bytes.len()) else {
            return Err(Unknown::Repeated);
        };
        if !chunk.known.clip(range).is_empty() {
            return Err(Unknown::Repeated);
        }
        place.copy_from_slice(&edge.bytes);
        chunk.known.insert(range);
        if chunk.known.first_hole() < CHUNK {
            let is_split = chunk.known.len() > MAX_PARTS;
            return match is_split || self.chunks.len() > MAX_WAITING {
                true => Err(Unknown::Scattered),
                false => Ok(()),
            };
        }
        if start == 0 {
            self.first_group();
            return Ok(());
        }
        let value = value_of(start, &chunk.bytes);
        self.chunks.remove(&start);
        self.add(Subtree { start, level: 0 }, value)
    }

    /// Adds a complete subtree and joins it with its siblings, but for the left edge.
    pub(crate) fn add(&mut self, mut subtree: Subtree, mut value: Value) -> Result<(), Unknown> {
        let chunks = self.chunks.range(subtree.start..subtree.end()).next();
        if self.is_known(subtree) || chunks.is_some() {
            return Err(Unknown::Repeated);
        }
        let in_first = subtree.start < GROUP;
        loop {
            if subtree.level == GROUP_LEVEL && subtree.start > 0 {
                let groups = self.groups.iter_mut();
                groups.for_each(|groups| groups.push((subtree.start / GROUP, value)));
            }
            self.sections.note(subtree, value);
            let sibling = subtree.sibling();
            let other = self.values.get(&sibling.start);
            let other = other.filter(|(level, _)| *level == sibling.level);
            // That of all parts hands out the values of groups and of sections.
            let ends = self.hosts == Hosts::Part && subtree.level == GROUP_LEVEL;
            let joins = subtree.parent().start > 0 && !ends;
            let Some(&(_, other)) = other.filter(|_| joins) else {
                break;
            };
            self.values.remove(&sibling.start);
            value = match sibling.start < subtree.start {
                true => join(&other, &value),
                false => join(&value, &other),
            };
            subtree = subtree.parent();
        }
        self.values.insert(subtree.start, (subtree.level, value));
        if in_first {
            self.first_group();
        }
        let most = match self.hosts {
            Hosts::One => MAX_WAITING,
            Hosts::Several | Hosts::Part => MAX_WAITING_PARTS,
        };
        match self.values.len() > most {
            true => Err(Unknown::Scattered),
            false => Ok(()),
        }
    }

    /// Hands out the value of the first group once it is complete; it is never joined itself.
    fn first_group(&mut self) {
        let whole = self
            .chunks
            .get(&0)
            .is_some_and(|chunk| chunk.known.first_hole() == CHUNK);
        if whole && self.groups.is_some() {
            let first = self.value(0, GROUP).ok().map(|value| (0, value));
            self.groups
                .iter_mut()
                .for_each(|groups| groups.extend(first));
        }
    }

    /// Says whether a byte of `subtree` is in a complete one.
    fn is_known(&self, subtree: Subtree) -> bool {
        let before = self.values.range(..subtree.end()).next_back();
        before.is_some_and(|(&start, &(level, _))| Subtree { start, level }.end() > subtree.start)
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "bytes of the file are missing",
            Self::Longer => "the file is longer than its size",
            Self::Repeated => "bytes of the file arrived twice",
            Self::Scattered => "the file arrived in too many pieces at once",
        })
    }
}

impl std::error::Error for Unknown {}

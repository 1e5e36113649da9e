//! `Known`: the values of a file that one host knows, for the tree of another.

use crate::Value;
use crate::piece::Edge;
use crate::subtree::{CHUNK, GROUP_LEVEL, LONGEST, Subtree};
use crate::tree::{Chunk, Tree};

/// The first byte of a record of bytes; that of a value is its level.
const EDGE: u8 = 0xff;

/// Bytes ahead of the value of a subtree, and ahead of the bytes of an edge.
const HEADS: (usize, usize) = (9, 11);

/// Complete subtrees, and bytes of chunks in parts, of a file that several hosts have.
///
/// A tree [of a part](Tree::of_part) hands them out, and that of the [whole](Tree::insert_known)
/// takes them, in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    values: Vec<(Subtree, Value)>,
    edges: Vec<Edge>,
}

impl Known {
    /// Most bytes of its form on the wire: about 1,600 values.
    pub const LONGEST: usize = 1 << 16;

    /// Says whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.edges.is_empty()
    }

    /// Its form on the wire: of a value its level, its offset and itself, of bytes 0xff, their
    /// offset, their number and themselves; numbers in big-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (subtree, value) in &self.values {
            bytes.extend(u8::try_from(subtree.level));
            bytes.extend(subtree.start.to_be_bytes());
            bytes.extend(value);
        }
        for edge in &self.edges {
            bytes.push(EDGE);
            bytes.extend(edge.start.to_be_bytes());
            let length = u16::try_from(edge.bytes.len()).unwrap_or(u16::MAX);
            bytes.extend(length.to_be_bytes());
            bytes.extend(&edge.bytes);
        }
        bytes
    }

    /// Reads its form on the wire; `None` for any that a tree would not hand out.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() > Self::LONGEST {
            return None;
        }
        let mut known = Self::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            let (start, rest) = rest.split_first_chunk()?;
            let start = u64::from_be_bytes(*start);
            bytes = match kind {
                EDGE => {
                    let (length, rest) = rest.split_first_chunk()?;
                    let length = u16::from_be_bytes(*length);
                    let (taken, rest) = rest.split_at_checked(length.into())?;
                    known.edges.push(edge(start, taken)?);
                    rest
                }
                level => {
                    let (value, rest) = rest.split_first_chunk()?;
                    known.values.push((subtree(start, level.into())?, *value));
                    rest
                }
            };
        }
        Some(known)
    }
}

/// A subtree that a tree of a part may hand out.
fn subtree(start: u64, level: u32) -> Option<Subtree> {
    let subtree = (level <= GROUP_LEVEL).then_some(Subtree { start, level })?;
    let is_aligned = start.is_multiple_of(subtree.length());
    let end = start.checked_add(subtree.length())?;
    (is_aligned && end <= LONGEST).then_some(subtree)
}

/// Bytes of a single chunk.
fn edge(start: u64, bytes: &[u8]) -> Option<Edge> {
    let length = bytes.len() as u64;
    let within = (1..=CHUNK - start % CHUNK).contains(&length);
    let end = start.checked_add(length)?;
    (within && end <= LONGEST).then(|| Edge {
        start,
        bytes: bytes.to_vec(),
    })
}

impl Chunk {
    /// Its known bytes; the chunk begins at `start`.
    fn edges(&self, start: u64) -> impl Iterator<Item = Edge> {
        self.known.iter().map(move |range| {
            let [from, to] =
                [range.start(), range.end()].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            Edge {
                start: start + range.start(),
                bytes: self.bytes.get(from..to).unwrap_or_default().to_vec(),
            }
        })
    }
}

impl Tree {
    /// Adds the values and bytes of another host. Repeated bytes and too many pieces lose the digest.
    pub fn insert_known(&mut self, known: Known) {
        let Known { values, edges } = known;
        self.keep(|tree| {
            edges.iter().try_for_each(|bytes| tree.edge(bytes))?;
            let mut values = values.into_iter();
            values.try_for_each(|(subtree, value)| tree.add(subtree, value))
        });
    }

    /// Removes and returns the values and bytes with the lowest offsets, at most [`Known::LONGEST`] in
    /// all: for a tree [of a part](Self::of_part) alone, which has no digest. Empty once the tree is
    /// [lost](Self::is_lost).
    pub fn take_known(&mut self) -> Known {
        let mut known = Known::default();
        let (value, edge) = (HEADS.0 + blake3::OUT_LEN, HEADS.1);
        let mut room = Known::LONGEST;
        while room >= value
            && let Some((start, (level, of))) = self.values.pop_first()
        {
            room -= value;
            known.values.push((Subtree { start, level }, of));
        }
        while let Some(entry) = self.chunks.first_entry() {
            let bytes = entry.get().known.total();
            let ranges = entry.get().known.len() * edge;
            let all = usize::try_from(bytes).unwrap_or(usize::MAX);
            let Some(left) = room.checked_sub(all.saturating_add(ranges)) else {
                break;
            };
            room = left;
            let (start, chunk) = entry.remove_entry();
            known.edges.extend(chunk.edges(start));
        }
        known
    }
}

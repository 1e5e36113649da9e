//! `Piece`: a block of a file, hashed as far as it goes without its neighbours.

use crate::subtree::{CHUNK, LONGEST, Subtree, value_of};
use crate::{Unknown, Value};

/// A hashed block.
#[derive(Debug, Clone)]
pub struct Piece(pub(crate) Result<Parts, Unknown>);

/// The values of the complete subtrees of a block, and the bytes at its two ends that lie in
/// chunks of which others have the rest.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) head: Edge,
    pub(crate) values: Vec<(Subtree, Value)>,
    pub(crate) tail: Edge,
}

/// Less than a chunk at the end of a block, or the first chunk of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Piece {
    /// Hashes the block of `bytes` at `offset`.
    pub fn of(offset: u64, bytes: &[u8]) -> Self {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > LONGEST) {
            return Self(Err(Unknown::Longer));
        }
        // The first chunk stays as it is: it is hashed in another way where it is the whole file.
        let within = match offset {
            0..CHUNK => CHUNK - offset,
            _ => offset.next_multiple_of(CHUNK) - offset,
        };
        let within = usize::try_from(within).unwrap_or(usize::MAX);
        let (head, mut rest) = bytes.split_at(within.min(bytes.len()));
        let mut at = offset + head.len() as u64;
        let mut values = Vec::new();
        while let Some(subtree) = Subtree::at(at, rest.len() as u64) {
            let length = usize::try_from(subtree.length()).unwrap_or(usize::MAX);
            let (whole, behind) = rest.split_at(length.min(rest.len()));
            values.push((subtree, value_of(at, whole)));
            (at, rest) = (subtree.end(), behind);
        }
        Self(Ok(Parts {
            head: Edge {
                start: offset,
                bytes: head.to_vec(),
            },
            values,
            tail: Edge {
                start: at,
                bytes: rest.to_vec(),
            },
        }))
    }
}

//! The BLAKE3 digest of a file from blocks of any size, in any order.
//!
//! BLAKE3 hashes chunks of 1,024 bytes and joins them pairwise to a tree, so a block that holds
//! whole aligned subtrees is hashed wherever it lies, and only the ends of a block that share a
//! chunk with a neighbour wait for it. The digest is that of `b3sum`.
//!
//! [`Piece::of`] hashes a block and needs no tree, so several threads may hash at once;
//! [`Tree::insert`] is cheap. A tree keeps values of 32 bytes for blocks ahead of a hole and a
//! logarithm of the length for the rest, and refuses more than [`MAX_WAITING`] of them. A tree
//! [with groups](Tree::with_groups) hands out the values of aligned [groups](GROUP) for a journal,
//! from which [`Tree::insert_group`] continues after a restart without reading the bytes again. Where
//! the digests of two copies differ, the values of their [sections](Tree::sections) tell the places, and
//! [sums](Tree::sums) over the groups of a long file tell [which groups](differing_groups) differ.
//!
//! ```
//! use digest_tree::{Piece, Tree};
//!
//! let (first, second) = ([7; 5000], [8; 3000]);
//! let mut tree = Tree::new();
//! tree.insert(Piece::of(5000, &second));
//! tree.insert(Piece::of(0, &first));
//! let digest = tree.digest(8000)?;
//! assert_eq!(digest.to_string().len(), 64);
//! # Ok::<(), digest_tree::Unknown>(())
//! ```
#![forbid(unsafe_code)]

mod known;
#[cfg(test)]
mod known_tests;
mod piece;
mod sections;
mod subtree;
mod sums;
#[cfg(test)]
mod tests;
mod tree;

pub use blake3::Hash;
use byte_ranges::{Range64, RangeSet};
pub use known::Known;
pub use piece::Piece;
pub use sections::{MAX_SECTIONS, section_length};
pub use sums::{SUMS, Sum, differing_groups};
pub use tree::{MAX_WAITING, MAX_WAITING_PARTS, Tree, Unknown};

/// Bytes of a group, the unit of journals and of repairs.
pub const GROUP: u64 = 1 << 20;

/// The numbers of the groups that lie as a whole in the ranges `held`.
pub fn groups_in(held: &RangeSet) -> RangeSet {
    let whole = |range: Range64| Range64::new(range.start().div_ceil(GROUP), range.end() / GROUP);
    held.iter().filter_map(whole).collect()
}

/// The chaining value of a subtree.
pub type Value = [u8; blake3::OUT_LEN];

//! `Earlier`: the values of bytes that an earlier attempt moved, for the digest of the whole file.

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use digest_tree::{GROUP, Known, Piece, Tree};
use gridftp_dsi::{Error, ErrorKind, GroupValue, Result, Sink, Source};

/// Most bytes that are read again before a transfer goes on; a digest that needs more is not known.
const MOST: u64 = 256 << 20;

/// Bytes read at once.
const BLOCK: u64 = 256 << 10;

/// Bytes of an earlier attempt.
enum Block {
    Read(Bytes),
    /// Hashed by a storage that does not hand them out.
    Hashed(Known),
}

/// The values of bytes that an earlier attempt moved, and a tree that hands out those of further
/// groups.
#[derive(Debug, Default)]
pub struct Earlier {
    pub(crate) tree: Tree,
    pub(crate) bytes: u64,
    is_known: bool,
}

impl Earlier {
    /// The values of the ranges `held` of `sink`: it knows those of complete groups, and only the
    /// bytes at the ends of ranges are hashed or read back. `None` for a sink that records no values.
    ///
    /// Without the values of most groups the digest of the whole file is not known, but that of each
    /// further group is.
    ///
    /// # Cancel safety
    /// Dropping the future gives nothing and changes nothing.
    pub async fn of_sink<S: Sink>(sink: &S, held: &RangeSet) -> Option<Self> {
        let groups = match sink.groups(held).await {
            Ok(groups) => groups?,
            Err(error) => {
                tracing::debug!(%error, "the values of groups cannot be read");
                Vec::new()
            }
        };
        let read = async |offset, len| match sink.hash_back(offset, len).await {
            Ok(known) => Known::from_bytes(&known)
                .map(Block::Hashed)
                .ok_or_else(|| Error::new(ErrorKind::Malformed, "hash")),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                sink.read_back(offset, len).await.map(Block::Read)
            }
            Err(error) => Err(error),
        };
        Some(Self::new(groups, held, read).await)
    }

    /// The values of the ranges `held` of a source, which a transfer leaves out: `groups` are known,
    /// and only the bytes at the ends of ranges are read. As for a sink the digest of the whole file
    /// may not be known with it.
    ///
    /// # Cancel safety
    /// Dropping the future gives nothing and changes nothing.
    pub async fn of_source<S: Source>(
        source: &S,
        groups: Vec<GroupValue>,
        held: &RangeSet,
    ) -> Self {
        let read = async |offset, len| {
            let bytes = source.read_at(offset, BytesMut::with_capacity(len)).await?;
            Ok(Block::Read(bytes.freeze()))
        };
        Self::new(groups, held, read).await
    }

    /// Says whether all its bytes are known, so that a transfer of the rest has a digest.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The values of the ranges `held`, of which `groups` are known, and `read` gives the rest.
    async fn new<F>(
        groups: Vec<GroupValue>,
        held: &RangeSet,
        read: impl Fn(u64, usize) -> F,
    ) -> Self
    where
        F: Future<Output = Result<Block>>,
    {
        let mut tree = Tree::with_groups();
        let mut rest = held.clone();
        for (number, value) in groups {
            tree.insert_group(number, value);
            let bytes = number.checked_mul(GROUP);
            if let Some(bytes) = bytes.and_then(|start| Range64::from_len(start, GROUP)) {
                rest.remove(bytes);
            }
        }
        // They are recorded already.
        drop(tree.take_groups());
        let is_read = match rest.total() {
            0..=MOST => read_again(&mut tree, rest, read).await,
            _ => Ok(false),
        };
        let is_read = is_read.unwrap_or_else(|error| {
            tracing::debug!(%error, "the bytes of an earlier attempt cannot be read back");
            false
        });
        let is_known = is_read && !tree.is_lost();
        let bytes = held.total();
        Self {
            tree,
            bytes,
            is_known,
        }
    }
}

/// Adds the ranges `rest` to the tree; says whether all of them are there.
async fn read_again<F>(
    tree: &mut Tree,
    mut rest: RangeSet,
    read: impl Fn(u64, usize) -> F,
) -> Result<bool>
where
    F: Future<Output = Result<Block>>,
{
    while let Some(next) = rest.take_first(BLOCK) {
        let len = usize::try_from(next.len()).unwrap_or(0);
        match read(next.start(), len).await? {
            Block::Read(bytes) => {
                tree.insert(Piece::of(next.start(), &bytes));
                if bytes.len() < len {
                    return Ok(false);
                }
            }
            Block::Hashed(known) => tree.insert_known(known),
        }
    }
    Ok(true)
}

//! `Stored`: bytes as they are.

use super::{Codec, Corrupt};

/// Leaves bytes as they are.
pub(super) struct Stored;

impl Codec for Stored {
    fn compress(&mut self, _: &[u8], _: &mut [u8]) -> Option<usize> {
        // A stored block is no smaller, so the writer never calls this for one.
        None
    }

    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt> {
        if packed.len() != block.len() {
            return Err(Corrupt);
        }
        block.copy_from_slice(packed);
        Ok(())
    }
}

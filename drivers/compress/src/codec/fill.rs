//! `Fill`: a block of one repeated byte.

use super::{Codec, Corrupt};

/// Packs a block of one repeated byte to that byte.
pub(super) struct Fill;

impl Codec for Fill {
    fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        if !is_fill(block) {
            return None;
        }
        *out.first_mut()? = *block.first()?;
        Some(1)
    }

    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt> {
        let [byte] = packed else { return Err(Corrupt) };
        block.fill(*byte);
        Ok(())
    }
}

/// Whether a block is one repeated byte, as in holes of files.
pub(crate) fn is_fill(block: &[u8]) -> bool {
    block.len() > 1 && block.get(1..) == block.get(..block.len() - 1)
}

//! `Lzo`: LZO1X by `lzo1x`, in safe Rust and under the GPL, version 2.

use lzo1x::CompressLevel;

use super::{Codec, Corrupt};

/// LZO1X. Its library has no state to keep between blocks.
pub(super) struct Lzo {
    level: CompressLevel,
}

impl Lzo {
    pub(super) fn new(level: i32) -> Self {
        Self {
            level: CompressLevel::new(u8::try_from(level).unwrap_or(u8::MAX)),
        }
    }
}

impl Codec for Lzo {
    fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        let packed = lzo1x::compress(block, self.level);
        out.get_mut(..packed.len())?.copy_from_slice(&packed);
        Some(packed.len())
    }

    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt> {
        lzo1x::decompress(packed, block).map_err(|_| Corrupt)
    }
}

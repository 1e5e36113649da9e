//! `Zstd`: Zstandard by its reference library.

use zstd::bulk::{Compressor, Decompressor};

use super::{Codec, Corrupt};

/// Zstandard, a frame for each block.
pub(super) struct Zstd {
    level: i32,
    compressor: Option<Compressor<'static>>,
    decompressor: Option<Decompressor<'static>>,
}

impl Zstd {
    pub(super) const fn new(level: i32) -> Self {
        Self {
            level,
            compressor: None,
            decompressor: None,
        }
    }
}

impl Codec for Zstd {
    fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.compressor.is_none() {
            self.compressor = Compressor::new(self.level).ok();
        }
        // Without memory for its tables the block is sent stored.
        self.compressor
            .as_mut()?
            .compress_to_buffer(block, out)
            .ok()
    }

    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt> {
        if self.decompressor.is_none() {
            self.decompressor = Decompressor::new().ok();
        }
        let decompressor = self.decompressor.as_mut().ok_or(Corrupt)?;
        let len = block.len();
        match decompressor.decompress_to_buffer(packed, block) {
            Ok(n) if n == len => Ok(()),
            _ => Err(Corrupt),
        }
    }
}

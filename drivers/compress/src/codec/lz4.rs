//! `Lz4`: the block format of LZ4 by `lz4_flex`, in safe Rust.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};

use super::{Codec, Corrupt};

/// LZ4 blocks without a length of their own.
#[derive(Default)]
pub(super) struct Lz4 {
    table: CompressTable,
}

impl Codec for Lz4 {
    fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        compress_into_with_table(block, out, &mut self.table).ok()
    }

    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt> {
        let len = block.len();
        match decompress_into(packed, block) {
            Ok(n) if n == len => Ok(()),
            _ => Err(Corrupt),
        }
    }
}

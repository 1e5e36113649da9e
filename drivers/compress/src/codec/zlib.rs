//! `Zlib`: raw deflate by `flate2` on `zlib-rs`.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Codec, Corrupt};

/// Raw deflate. The header and checksum of zlib would cost six bytes for each block, and repeat
/// those of the frame.
pub(super) struct Zlib {
    level: Compression,
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
}

impl Zlib {
    pub(super) fn new(level: i32) -> Self {
        let level = Compression::new(level.unsigned_abs());
        Self {
            level,
            deflate: None,
            inflate: None,
        }
    }
}

impl Codec for Zlib {
    fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        let deflate = self
            .deflate
            .get_or_insert_with(|| Compress::new(self.level, false));
        deflate.reset();
        // `zlib-rs` may panic on its fastest level when the room runs out, so it always gets all of
        // it.
        match deflate.compress(block, out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => usize::try_from(deflate.total_out()).ok(),
            _ => None,
        }
    }

    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(false));
        inflate.reset(false);
        let status = inflate.decompress(packed, block, FlushDecompress::Finish);
        let whole =
            inflate.total_out() == block.len() as u64 && inflate.total_in() == packed.len() as u64;
        match status {
            Ok(Status::StreamEnd) if whole => Ok(()),
            _ => Err(Corrupt),
        }
    }
}

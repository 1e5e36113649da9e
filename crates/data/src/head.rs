//! `Head`: the digest of the first bytes of a transfer, from pieces in any order.

use std::collections::BTreeMap;

use ftp_wire::receipt::HEAD;

/// Most separate pieces; with more there is no digest.
const PIECES: usize = 64;

/// Digest of the first [`HEAD`] bytes of one transfer.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Offset of the first byte; `None` when no digest is needed.
    from: Option<u64>,
    /// Whether there were more pieces than are kept.
    scattered: bool,
    /// Length and digest of each piece by its offset behind `from`.
    pieces: BTreeMap<u64, (u64, u32)>,
}

impl Head {
    /// Computes the digest of the bytes from `from` on.
    pub(crate) fn new(from: u64) -> Self {
        Self {
            from: Some(from),
            ..Self::default()
        }
    }

    /// Whether a digest is needed.
    pub(crate) fn is_wanted(&self) -> bool {
        self.from.is_some()
    }

    /// Number of bytes from `offset` on that the digest needs.
    pub(crate) fn left(&self, offset: u64) -> u64 {
        let from = self.from.filter(|_| !self.scattered);
        let from = from.and_then(|from| offset.checked_sub(from));
        from.map_or(0, |at| HEAD.saturating_sub(at))
    }

    /// Adds `data` at `offset` to the digest.
    pub(crate) fn show(&mut self, offset: u64, data: &[u8]) {
        let left = usize::try_from(self.left(offset)).unwrap_or(usize::MAX);
        let data = data.get(..left).unwrap_or(data);
        let Some(from) = self.from.filter(|_| !data.is_empty()) else {
            return;
        };
        let (at, len) = (offset - from, data.len() as u64);
        let before = self.pieces.range_mut(..at).next_back();
        match before.filter(|(start, (length, _))| **start + *length == at) {
            Some((_, (length, digest))) => {
                *digest = crc32c::crc32c_append(*digest, data);
                *length += len;
            }
            None => {
                let twice = self
                    .pieces
                    .insert(at, (len, crc32c::crc32c(data)))
                    .is_some();
                self.scattered = twice || self.pieces.len() > PIECES;
            }
        }
    }

    /// The digest of a transfer of `bytes` bytes; `None` when some of its first ones are missing.
    pub(crate) fn digest(&self, bytes: u64) -> Option<u32> {
        let (mut at, mut digest) = (0, 0);
        for (start, (length, piece)) in &self.pieces {
            if *start != at {
                return None;
            }
            digest = match at {
                // Mostly there is one piece only, and combining two is slow.
                0 => *piece,
                _ => crc32c::crc32c_combine(digest, *piece, usize::try_from(*length).ok()?),
            };
            at += length;
        }
        (!self.scattered && at == bytes.min(HEAD)).then_some(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..=250).cycle().take(len).collect()
    }

    #[test]
    fn the_order_of_pieces_changes_nothing() {
        let data = bytes(200_000);
        let whole = crc32c::crc32c(&data[..128 << 10]);
        for size in [5_000, 65_536, 150_000, 200_000] {
            let mut pieces: Vec<_> = data.chunks(size).enumerate().collect();
            for _ in 0..2 {
                let mut head = Head::new(10);
                for (index, piece) in &pieces {
                    head.show(10 + (index * size) as u64, piece);
                }
                assert_eq!(head.digest(200_000), Some(whole), "{size}");
                pieces.reverse();
            }
        }
    }

    #[test]
    fn missing_bytes_leave_no_digest() {
        let mut head = Head::new(0);
        assert_eq!(head.digest(0), Some(0));
        assert_eq!(head.digest(1), None);
        head.show(1, b"b");
        assert_eq!(head.digest(2), None);
        head.show(0, b"a");
        assert_eq!(head.digest(2), Some(crc32c::crc32c(b"ab")));
        assert_eq!(head.left(HEAD), 0);
        assert_eq!(Head::default().left(0), 0);
        for offset in (10..10_000).step_by(2) {
            head.show(offset, b"c");
        }
        assert_eq!(head.digest(2), None, "pieces are bounded");
    }
}

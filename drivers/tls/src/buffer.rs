//! `Buffer`: bytes between a stream and the protocol, removed at the front and added at the back.

use zeroize::Zeroize as _;

/// A buffer that initialises its memory once and reuses it.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether removed bytes are overwritten.
    wipes: bool,
}

impl Buffer {
    /// Number of bytes in it.
    pub(crate) const fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The bytes in it.
    pub(crate) fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The bytes in it, to be changed in place.
    pub(crate) fn filled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// Overwrites removed bytes from now on, since they may be secret.
    pub(crate) fn wipe(&mut self) {
        self.wipes = true;
    }

    /// Removes `n` bytes at the front.
    pub(crate) fn consume(&mut self, n: usize) {
        let start = self.start;
        self.start = self.end.min(self.start + n);
        self.forget(start, self.start);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room behind the bytes, at least `least` bytes of it.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < least && self.start > 0 {
            let end = self.end;
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.forget(self.end, end);
        }
        if self.bytes.len() - self.end < least {
            if self.wipes && self.bytes.capacity() < self.end + least {
                // The memory that it moves out of is overwritten first.
                let mut larger = Vec::with_capacity(self.end + least);
                larger.extend_from_slice(&self.bytes);
                self.bytes.zeroize();
                self.bytes = larger;
            }
            self.bytes.resize(self.end + least, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Overwrites bytes that are no longer in it.
    fn forget(&mut self, from: usize, to: usize) {
        if self.wipes
            && let Some(gone) = self.bytes.get_mut(from..to)
        {
            gone.zeroize();
        }
    }

    /// Adds `n` bytes of the room to the filled ones.
    pub(crate) fn fill(&mut self, n: usize) {
        self.end = self.bytes.len().min(self.end + n);
    }

    /// Adds bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let room = self.room(bytes.len());
        if let Some(room) = room.get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.fill(bytes.len());
    }

    /// Frees memory beyond `keep` bytes, when it is empty.
    pub(crate) fn shrink(&mut self, keep: usize) {
        if self.is_empty() && self.bytes.len() > keep {
            self.bytes.truncate(keep);
            self.bytes.shrink_to_fit();
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.forget(self.start, self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_as_they_came() {
        let mut buffer = Buffer::default();
        buffer.extend(b"abcdef");
        buffer.consume(4);
        assert_eq!(buffer.filled(), b"ef");
        // Moves to the front before it grows.
        assert!(buffer.room(4).len() >= 4);
        assert_eq!(buffer.bytes.len(), 6);
        buffer.extend(b"ghijkl");
        assert_eq!(buffer.filled(), b"efghijkl");
        buffer.shrink(0);
        assert_eq!(buffer.len(), 8, "what waits is never given away");
        buffer.consume(99);
        assert!(buffer.is_empty());
        buffer.shrink(0);
        assert_eq!(buffer.bytes.len(), 0);
    }

    #[test]
    fn removed_bytes_are_overwritten_where_they_may_be_secret() {
        let mut buffer = Buffer::default();
        buffer.wipe();
        buffer.extend(b"secret word");
        buffer.consume(7);
        assert_eq!(buffer.bytes.get(..7), Some(&[0; 7][..]));
        // Moves to the front, then elsewhere.
        buffer.room(7);
        assert_eq!(buffer.filled(), b"word");
        assert_eq!(buffer.bytes.get(4..11), Some(&[0; 7][..]));
        buffer.extend(&[1; 100]);
        assert_eq!(buffer.filled().get(..5), Some(&b"word\x01"[..]));
        buffer.consume(104);
        assert!(buffer.bytes.iter().all(|byte| *byte == 0));
    }
}

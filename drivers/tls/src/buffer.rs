//! `Buffer`: bytes between a stream and the protocol, removed at the front and added at the back.

/// A buffer that initialises its memory once and reuses it.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
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

    /// Removes `n` bytes at the front.
    pub(crate) fn consume(&mut self, n: usize) {
        self.start = self.end.min(self.start + n);
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room behind the bytes, at least `least` bytes of it.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < least && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() - self.end < least {
            self.bytes.resize(self.end + least, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
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
}

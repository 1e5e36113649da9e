//! `Outgoing`: packed bytes for the layer below, with small blocks gathered for one call.

use std::io::IoSlice;

use crate::frame::Head;

/// Packed blocks up to this length in bytes are sent together with the next ones.
pub(crate) const SMALL: usize = 8 << 10;
/// Most bytes, and most blocks, that are held back to be sent with the next ones.
const HELD_BYTES: usize = 16 << 10;
const HELD_BLOCKS: usize = 16;

/// Packed bytes for the layer below: first `bytes`, then the first `tail_len` of `tail`.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tail: Vec<u8>,
    pub(crate) tail_len: usize,
    /// Number of bytes of both that are sent.
    pub(crate) sent: usize,
    blocks: usize,
    /// Number of bytes sent since the start.
    pub(crate) sent_before: u64,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.tail_len == 0
    }

    /// Whether another block may be added before this is sent.
    pub(crate) fn has_room(&self) -> bool {
        self.tail_len == 0 && self.bytes.len() < HELD_BYTES && self.blocks < HELD_BLOCKS
    }

    pub(crate) fn add_head(&mut self, head: &Head) {
        self.bytes.extend_from_slice(head.bytes());
        self.blocks += 1;
    }

    /// Adds a block, and returns its memory where it is not needed.
    pub(crate) fn add(&mut self, head: &Head, payload: Vec<u8>, len: usize) -> Option<Vec<u8>> {
        self.add_head(head);
        if len <= SMALL {
            self.bytes
                .extend_from_slice(payload.get(..len).unwrap_or_default());
            return Some(payload);
        }
        self.tail = payload;
        self.tail_len = len;
        None
    }

    pub(crate) fn slices(&self) -> [IoSlice<'_>; 2] {
        let first = self.bytes.get(self.sent..).unwrap_or_default();
        let skip = self.sent.saturating_sub(self.bytes.len());
        let second = self.tail.get(skip..self.tail_len).unwrap_or_default();
        [IoSlice::new(first), IoSlice::new(second)]
    }

    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        self.sent_before += sent as u64;
        if self.sent >= self.bytes.len() + self.tail_len {
            self.bytes.clear();
            self.tail_len = 0;
            self.sent = 0;
            self.blocks = 0;
        }
    }

    pub(crate) fn take_tail(&mut self) -> Option<Vec<u8>> {
        (self.tail_len == 0 && self.tail.capacity() > 0).then(|| std::mem::take(&mut self.tail))
    }

    pub(crate) fn release(&mut self) {
        self.bytes = Vec::new();
        self.tail = Vec::new();
    }
}

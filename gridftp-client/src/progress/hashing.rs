//! Files that are hashed now, counted in the totals.

use std::sync::atomic::Ordering;

use super::Totals;

/// A file that a server hashes, counted in the totals from its first progress marker to its drop.
pub(crate) struct Hashing<'a> {
    totals: &'a Totals,
    size: Option<u64>,
    /// Hashed bytes, from the first marker on.
    done: Option<u64>,
    /// Most bytes that a marker has told of.
    told: u64,
}

impl<'a> Hashing<'a> {
    /// Creates one for a file of `size` bytes.
    pub(crate) fn new(totals: &'a Totals, size: Option<u64>) -> Self {
        Self {
            totals,
            size,
            done: None,
            told: 0,
        }
    }

    /// Records that `bytes` bytes are hashed.
    pub(crate) fn note(&mut self, bytes: u64) {
        if bytes > self.told {
            self.told = bytes;
            self.totals.hash_markers.fetch_add(1, Ordering::Relaxed);
        }
        let Some(size) = self.size else { return };
        if self.done.is_none() {
            self.totals.hashing.fetch_add(size, Ordering::Relaxed);
        }
        let before = self.done.unwrap_or(0);
        let now = bytes.clamp(before, size.max(before));
        self.totals
            .hashed
            .fetch_add(now - before, Ordering::Relaxed);
        self.done = Some(now);
    }
}

impl Drop for Hashing<'_> {
    fn drop(&mut self) {
        if let (Some(size), Some(done)) = (self.size, self.done) {
            self.totals.hashed.fetch_sub(done, Ordering::Relaxed);
            self.totals.hashing.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

/// A file that this end hashes, counted in the totals until it is dropped.
pub(crate) struct HashingHere<'a>(pub(super) &'a Totals);

impl Drop for HashingHere<'_> {
    fn drop(&mut self) {
        self.0.hashing_here.fetch_sub(1, Ordering::Relaxed);
    }
}

//! `Targets`: the destination paths of a copy, of which no two sources may share one.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;

use super::lock;

/// Hashes of the destination paths of all files: two sources must not share one.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    taken: Mutex<HashSet<u64>>,
    /// Hashes of the paths in lower case, for `--delete`.
    folded: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl Targets {
    /// Adds a path; returns false when another source has it already.
    pub(super) fn take(&self, path: &[u8]) -> bool {
        let mut taken = lock(&self.taken);
        taken.insert(self.hasher.hash_one(path))
    }

    /// Adds a path without regard to case, for file systems that have no case.
    pub(super) fn fold(&self, path: &[u8]) {
        let folded = self.hasher.hash_one(folded(path));
        lock(&self.folded).insert(folded);
    }

    /// Returns whether a path was added without regard to case.
    pub(super) fn has_folded(&self, path: &[u8]) -> bool {
        lock(&self.folded).contains(&self.hasher.hash_one(folded(path)))
    }

    /// Returns whether a path was added.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        lock(&self.taken).contains(&self.hasher.hash_one(path))
    }
}

/// Returns a path in lower case.
fn folded(path: &[u8]) -> String {
    String::from_utf8_lossy(path).to_lowercase()
}

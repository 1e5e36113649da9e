//! `Known`: directories that are known to be at a destination, a bounded number of them.

use std::collections::HashSet;

/// Directories that are remembered.
const MOST: usize = 4096;

/// A set of directories that forgets: to make one that is there again costs a command and no more.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The first, the root of all others, which a server may not allow to be made.
    first: Option<Vec<u8>>,
    dirs: HashSet<Vec<u8>>,
}

impl Known {
    pub(crate) fn contains(&self, dir: &[u8]) -> bool {
        self.first.as_deref() == Some(dir) || self.dirs.contains(dir)
    }

    pub(crate) fn insert(&mut self, dir: &[u8]) {
        if self.contains(dir) {
            return;
        }
        if self.first.is_none() {
            self.first = Some(dir.to_vec());
            return;
        }
        if self.dirs.len() == MOST {
            self.dirs.clear();
        }
        self.dirs.insert(dir.to_vec());
    }

    pub(crate) fn remove(&mut self, dir: &[u8]) {
        if self.first.as_deref() == Some(dir) {
            self.first = None;
        }
        self.dirs.remove(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_latest_are_remembered() {
        let mut known = Known::default();
        for n in 0..3 * MOST {
            known.insert(n.to_string().as_bytes());
            assert!(known.contains(b"0") && known.contains(n.to_string().as_bytes()));
            assert!(known.dirs.len() <= MOST);
        }
        known.remove(b"0");
        assert!(!known.contains(b"0"));
    }
}

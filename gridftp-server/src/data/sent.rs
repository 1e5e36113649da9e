//! `SentGroups`: the BLAKE3 values of files that were sent in part, for the digest of a transfer that
//! sends the rest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use byte_ranges::RangeSet;
use digest_tree::{Value, groups_in};
use gridftp_dsi::{GroupValue, Version};

/// Most values that are kept, each of a group of 1 MiB; about 30 MiB of memory.
const MOST: usize = 1 << 19;

/// Values that a file counts as before its first one.
const FILE: usize = 16;

/// The values of files that a server sent in part, in memory; those of the file that was used least
/// recently go first.
#[derive(Debug, Default)]
pub(crate) struct SentGroups(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    by_version: HashMap<Version, File>,
    /// Number of all values, and [`FILE`] for each file.
    total: usize,
    /// Number of uses so far.
    uses: u64,
}

#[derive(Debug, Default)]
struct File {
    values: BTreeMap<u64, Value>,
    last_use: u64,
}

impl SentGroups {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the values of groups of this version of a file.
    pub(crate) fn note(&self, version: Version, values: Vec<GroupValue>) {
        if values.is_empty() {
            return;
        }
        let mut files = self.files();
        let file = files.used(version);
        let before = file.values.len();
        // The others of a very long file are read again.
        let room = (MOST - FILE).saturating_sub(before);
        file.values.extend(values.into_iter().take(room));
        let more = file.values.len() - before;
        files.total += more;
        files.shrink();
    }

    /// The values of the groups that lie in the ranges `held` of this version of a file.
    pub(crate) fn of(&self, version: Version, held: &RangeSet) -> Vec<GroupValue> {
        let mut files = self.files();
        if !files.by_version.contains_key(&version) {
            return Vec::new();
        }
        let values = &files.used(version).values;
        let groups = groups_in(held);
        let known = groups
            .iter()
            .flat_map(|groups| values.range(groups.start()..groups.end()));
        known.map(|(number, value)| (*number, *value)).collect()
    }

    /// Forgets this version of a file, which was sent as a whole.
    pub(crate) fn forget(&self, version: Version) {
        self.files().remove(&version);
    }
}

impl Files {
    /// The values of this version of a file, which is the one used last.
    fn used(&mut self, version: Version) -> &mut File {
        self.uses += 1;
        let file = self.by_version.entry(version).or_insert_with(|| {
            self.total += FILE;
            File::default()
        });
        file.last_use = self.uses;
        file
    }

    fn remove(&mut self, version: &Version) {
        if let Some(file) = self.by_version.remove(version) {
            self.total -= FILE + file.values.len();
        }
    }

    /// Removes whole files until the values are few enough.
    fn shrink(&mut self) {
        while self.total > MOST {
            let files = self.by_version.iter();
            let oldest = files.min_by_key(|(_, file)| file.last_use);
            let Some(oldest) = oldest.map(|(version, _)| *version) else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use byte_ranges::Range64;
    use digest_tree::GROUP;

    use super::*;

    fn version(number: u64) -> Version {
        Version::new((1, number), 9 * GROUP, (5, 6), (7, 8))
    }

    #[test]
    fn values_are_those_of_complete_groups_of_the_same_version() {
        let sent = SentGroups::default();
        sent.note(version(1), (0..9).map(|number| (number, [7; 32])).collect());
        let held: RangeSet = [(0, 2 * GROUP + 5), (3 * GROUP + 1, 5 * GROUP)]
            .into_iter()
            .filter_map(|(start, end)| Range64::new(start, end))
            .collect();
        let numbers = |version| {
            let values = sent.of(version, &held);
            values.iter().map(|(number, _)| *number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(version(1)), [0, 1, 4]);
        let changed = Version::new((1, 1), 9 * GROUP, (5, 6), (7, 9));
        assert!(numbers(changed).is_empty());
        sent.forget(version(1));
        assert!(numbers(version(1)).is_empty());
        assert_eq!(sent.files().total, 0);
    }

    #[test]
    fn the_file_used_least_recently_makes_room() {
        let sent = SentGroups::default();
        let part = (MOST / 2 - FILE) as u64;
        for number in [1, 2] {
            sent.note(version(number), (0..part).map(|n| (n, [1; 32])).collect());
        }
        let held = RangeSet::up_to(GROUP);
        assert_eq!(sent.of(version(1), &held).len(), 1);
        sent.note(version(3), vec![(0, [1; 32])]);
        let known = [1, 2, 3].map(|number| sent.of(version(number), &held).len());
        assert_eq!(known, [1, 0, 1]);
        assert_eq!(sent.files().total, MOST / 2 + FILE + 1);
    }
}

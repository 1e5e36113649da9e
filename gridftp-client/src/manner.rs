//! `Manner`: the choice between copying a file and leaving the one that is at its destination.

use gridftp_dsi::types::ChecksumAlgorithm;

use crate::copy::Facts;
use crate::names;

/// Treatment of files that are at their destination already; by default all are replaced but
/// those that the same copy finished in a run which did not complete its tree.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Manner {
    /// The way to tell that a file is the same, which is then not copied. The copies get the times of
    /// their sources, by which the next run knows them.
    pub compare: Option<Compare>,
    /// The algorithm of [`Compare::Digest`]; `None` takes the strongest that the ends have in common.
    pub algorithm: Option<ChecksumAlgorithm>,
    /// Whether a file that is newer at the destination stays.
    pub update: bool,
    /// Whether a file that differs is an error, and stays.
    pub immutable: bool,
    /// The directory that files move to before they are replaced or removed, under the same name as
    /// below the destination; a relative one is below the destination itself. On this machine it has
    /// to be on the file system of the destination.
    pub backup_dir: Option<Vec<u8>>,
    /// Whether names of a destination that its source directories do not have are removed, behind a
    /// copy without a failure. Those that the [`Choice`](crate::Choice) leaves out stay, and so do
    /// unfinished files of ours.
    pub delete: bool,
    /// Names that are removed at most; where there are more, none is.
    pub max_delete: Option<u64>,
}

impl Manner {
    /// Sets [`compare`](field@Self::compare).
    #[must_use]
    pub fn compare(mut self, compare: impl Into<Option<Compare>>) -> Self {
        self.compare = compare.into();
        self
    }

    /// Sets [`algorithm`](field@Self::algorithm).
    #[must_use]
    pub fn algorithm(mut self, algorithm: impl Into<Option<ChecksumAlgorithm>>) -> Self {
        self.algorithm = algorithm.into();
        self
    }

    /// Sets [`update`](field@Self::update).
    #[must_use]
    pub fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// Sets [`immutable`](field@Self::immutable).
    #[must_use]
    pub fn immutable(mut self, immutable: bool) -> Self {
        self.immutable = immutable;
        self
    }

    /// Sets [`backup_dir`](field@Self::backup_dir).
    #[must_use]
    pub fn backup_dir(mut self, backup_dir: impl Into<Option<Vec<u8>>>) -> Self {
        self.backup_dir = backup_dir.into();
        self
    }

    /// Sets [`delete`](field@Self::delete).
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.delete = delete;
        self
    }

    /// Sets [`max_delete`](field@Self::max_delete).
    #[must_use]
    pub fn max_delete(mut self, max_delete: impl Into<Option<u64>>) -> Self {
        self.max_delete = max_delete.into();
        self
    }
}

/// The way to tell that two files are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compare {
    /// By size and time.
    Time,
    /// By size and digest.
    Digest,
    /// By size alone.
    Size,
    /// By size, and by a time that is not before the source's.
    NotOlder,
}

/// The object at a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// None.
    Nothing,
    /// A file.
    File(Facts),
    /// A symbolic link, where such are not followed.
    Link,
    /// A directory.
    Dir,
    /// Another object, or one of a kind that is not told.
    Other,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is copied.
    Copy,
    /// It is at its destination already.
    Same,
    /// It is left out.
    Skip(&'static str),
    /// It is not to be replaced.
    Refuse(&'static str),
    /// The digests of both files decide.
    AskDigests,
}

const NEWER: &str = "its copy is newer";
pub(crate) const DIFFERS: &str = "its copy differs, and --immutable keeps that";
const NO_FILE: &str = "its destination is no file, and --immutable keeps that";

impl Manner {
    /// Whether the backup directory, where there is one, is named without `.` and `..`.
    pub(crate) fn is_plain(&self) -> bool {
        let Some(dir) = &self.backup_dir else {
            return true;
        };
        let mut parts = dir.split(|b| *b == b'/');
        !names::trim_slashes(dir).is_empty() && parts.all(|part| !matches!(part, b"." | b".."))
    }

    /// Whether destinations are looked at.
    pub(crate) fn looks(&self) -> bool {
        self.comparison().is_some() || self.backup_dir.is_some()
    }

    /// The way to compare, which `update` and `immutable` need too.
    pub(crate) fn comparison(&self) -> Option<Compare> {
        let needs = self.update || self.immutable;
        self.compare.or_else(|| needs.then_some(Compare::Time))
    }

    /// Decides on a file by its facts and those of its target.
    pub(crate) fn decide(&self, source: &Facts, target: &Target) -> Decision {
        let target = match target {
            Target::Nothing => return Decision::Copy,
            Target::File(facts) => facts,
            _ if self.immutable => return Decision::Refuse(NO_FILE),
            Target::Dir | Target::Other | Target::Link => return Decision::Copy,
        };
        let Some(comparison) = self.comparison() else {
            return Decision::Copy;
        };
        let times = source.modified.zip(target.modified);
        let same_time = times.is_some_and(|(from, to)| is_one_time(from, to));
        let newer = times.is_some_and(|(from, to)| to > from) && !same_time;
        let same_size = source.size.is_some() && source.size == target.size;
        match comparison {
            _ if self.update && newer => Decision::Skip(NEWER),
            Compare::Digest if same_size => Decision::AskDigests,
            Compare::Time if same_size && same_time => Decision::Same,
            Compare::Size if same_size => Decision::Same,
            Compare::NotOlder if same_size && (same_time || newer) => Decision::Same,
            _ => self.of_different(),
        }
    }

    /// Decides on a file by the digests of both ends, which are `equal` or not.
    pub(crate) fn decide_by_digests(&self, [source, target]: [&str; 2]) -> Decision {
        match source == target {
            true => Decision::Same,
            false => self.of_different(),
        }
    }

    fn of_different(&self) -> Decision {
        match self.immutable {
            true => Decision::Refuse(DIFFERS),
            false => Decision::Copy,
        }
    }
}

/// Says whether two times are one, which file systems and servers keep with fewer digits.
fn is_one_time(a: (i64, u32), b: (i64, u32)) -> bool {
    let (fine, coarse) = (a.1.max(b.1), a.1.min(b.1));
    a.0 == b.0 && (0..=9).any(|digits| fine - fine % 10_u32.pow(digits) == coarse)
}

#[cfg(test)]
mod tests {
    use super::Decision::{AskDigests, Copy, Refuse, Same, Skip};
    use super::*;

    fn facts(size: u64, seconds: i64) -> Facts {
        Facts {
            size: Some(size),
            modified: Some((seconds, 0)),
            mode: None,
        }
    }

    #[test]
    fn every_manner_decides_by_size_and_time() {
        let compared = |compare, update, immutable| Manner {
            compare,
            update,
            immutable,
            ..Manner::default()
        };
        let (time, digest) = (Some(Compare::Time), Some(Compare::Digest));
        let unknown = |facts: Facts| Facts {
            modified: None,
            ..facts
        };
        let source = facts(5, 10);
        let [same, older, newer, longer] =
            [facts(5, 10), facts(5, 9), facts(5, 11), facts(6, 10)].map(Target::File);
        let timeless = Target::File(unknown(source));
        let others = [Target::Nothing, Target::Other];
        // The targets of a row: same, older, newer, longer, without time, none, no file.
        for (manner, wanted) in [
            (compared(None, false, false), [Copy; 7]),
            (
                compared(time, false, false),
                [Same, Copy, Copy, Copy, Copy, Copy, Copy],
            ),
            (
                compared(Some(Compare::Size), false, false),
                [Same, Same, Same, Copy, Same, Copy, Copy],
            ),
            (
                compared(Some(Compare::NotOlder), false, false),
                [Same, Copy, Same, Copy, Copy, Copy, Copy],
            ),
            (
                compared(None, true, false),
                [Same, Copy, Skip(NEWER), Copy, Copy, Copy, Copy],
            ),
            (
                compared(digest, false, false),
                [
                    AskDigests, AskDigests, AskDigests, Copy, AskDigests, Copy, Copy,
                ],
            ),
            (
                compared(digest, true, false),
                [
                    AskDigests,
                    AskDigests,
                    Skip(NEWER),
                    Copy,
                    AskDigests,
                    Copy,
                    Copy,
                ],
            ),
            (
                compared(None, false, true),
                [
                    Same,
                    Refuse(DIFFERS),
                    Refuse(DIFFERS),
                    Refuse(DIFFERS),
                    Refuse(DIFFERS),
                    Copy,
                    Refuse(NO_FILE),
                ],
            ),
        ] {
            let targets = [same, older, newer, longer, timeless, others[0], others[1]];
            for (target, wanted) in targets.into_iter().zip(wanted) {
                let decision = manner.decide(&source, &target);
                assert_eq!(decision, wanted, "{manner:?} {target:?}");
            }
        }
    }

    #[test]
    fn digests_decide_where_they_are_asked() {
        let manner = |immutable| Manner {
            compare: Some(Compare::Digest),
            immutable,
            ..Manner::default()
        };
        for (immutable, digests, wanted) in [
            (false, ["a", "a"], Same),
            (false, ["a", "b"], Copy),
            (true, ["a", "a"], Same),
            (true, ["a", "b"], Refuse(DIFFERS)),
        ] {
            assert_eq!(manner(immutable).decide_by_digests(digests), wanted);
        }
    }

    #[test]
    fn a_time_with_fewer_digits_is_the_same() {
        let time = (7, 123_456_789);
        for nanos in [123_456_789, 123_456_000, 123_000_000, 0] {
            assert!(is_one_time(time, (7, nanos)) && is_one_time((7, nanos), time));
        }
        for other in [(7, 123_457_000), (7, 1), (8, 0), (6, 123_456_789)] {
            assert!(!is_one_time(time, other), "{other:?}");
        }
    }
}

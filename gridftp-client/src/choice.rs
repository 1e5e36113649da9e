//! `Choice`: the files of a source that are copied, by name, size, time and depth.

use std::time::{Duration, SystemTime};

use crate::filter::{Filter, Verdict};

/// The files to copy, among those of the sources; all of them by default.
///
/// Names are relative to the source directory, or to the directory of a source that is a file or has
/// wildcards. A file of which the server tells no size or no time is copied; a warning tells once that
/// files have no time.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Choice {
    /// Rules on names.
    pub filter: Filter,
    /// Size of the largest file, in bytes.
    pub max_size: Option<u64>,
    /// Size of the smallest file, in bytes.
    pub min_size: Option<u64>,
    /// Time of the oldest file.
    pub not_before: Option<SystemTime>,
    /// Components of the longest name: 1 for the files in the source directory itself.
    pub max_depth: Option<u32>,
    /// The only names to copy from the one source, which is a directory; those of directories are
    /// copied with all in them where [`CopyOptions::recursive`](crate::CopyOptions::recursive) says
    /// so.
    pub names: Option<Vec<Vec<u8>>>,
}

impl Choice {
    /// Sets [`filter`](field@Self::filter).
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets [`max_size`](field@Self::max_size).
    #[must_use]
    pub fn max_size(mut self, max_size: impl Into<Option<u64>>) -> Self {
        self.max_size = max_size.into();
        self
    }

    /// Sets [`min_size`](field@Self::min_size).
    #[must_use]
    pub fn min_size(mut self, min_size: impl Into<Option<u64>>) -> Self {
        self.min_size = min_size.into();
        self
    }

    /// Sets [`not_before`](field@Self::not_before).
    #[must_use]
    pub fn not_before(mut self, not_before: impl Into<Option<SystemTime>>) -> Self {
        self.not_before = not_before.into();
        self
    }

    /// Sets [`max_depth`](field@Self::max_depth).
    #[must_use]
    pub fn max_depth(mut self, max_depth: impl Into<Option<u32>>) -> Self {
        self.max_depth = max_depth.into();
        self
    }

    /// Sets [`names`](field@Self::names).
    #[must_use]
    pub fn names(mut self, names: impl Into<Option<Vec<Vec<u8>>>>) -> Self {
        self.names = names.into();
        self
    }
}

impl Choice {
    /// Says whether the file at `path`, relative to the root of the copy, is taken by its name.
    pub(crate) fn takes_file(&self, path: &[u8]) -> bool {
        let fits = self.max_depth.is_none_or(|most| depth(path) <= most);
        fits && self.filter.takes_file(path)
    }

    /// Decides on the directory at `path`, relative to the root of the copy.
    pub(crate) fn dir(&self, path: &[u8]) -> Verdict {
        match self.max_depth {
            _ if path.is_empty() => Verdict::Take,
            Some(most) if depth(path) >= most => Verdict::Leave,
            _ => self.filter.dir(path),
        }
    }

    /// The reason to leave out a file of this size and time; `None` where it is taken.
    pub(crate) fn refusal(
        &self,
        size: Option<u64>,
        modified: Option<(i64, u32)>,
    ) -> Option<&'static str> {
        let size_is = |wrong: fn(&u64, &u64) -> bool, limit: &Option<u64>| {
            size.zip(*limit)
                .is_some_and(|(size, limit)| wrong(&size, &limit))
        };
        let time = modified.zip(self.not_before.map(seconds));
        if size_is(u64::gt, &self.max_size) {
            return Some("it is larger than --max-size");
        }
        if size_is(u64::lt, &self.min_size) {
            return Some("it is smaller than --min-size");
        }
        time.is_some_and(|(modified, oldest)| modified < oldest)
            .then_some("it is older than --max-age")
    }

    /// Says whether a time is chosen by that a file does not have.
    pub(crate) fn lacks_time(&self, modified: Option<(i64, u32)>) -> bool {
        self.not_before.is_some() && modified.is_none()
    }
}

/// Components of a path.
fn depth(path: &[u8]) -> u32 {
    let slashes = path.iter().filter(|b| **b == b'/').count();
    u32::try_from(slashes).unwrap_or(u32::MAX).saturating_add(1)
}

/// Seconds since 1970 and nanoseconds.
fn seconds(time: SystemTime) -> (i64, u32) {
    let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (whole(after), after.subsec_nanos()),
        Err(before) => (-whole(before.duration()), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_components() {
        let choice = Choice {
            max_depth: Some(2),
            ..Choice::default()
        };
        assert!(choice.takes_file(b"a") && choice.takes_file(b"d/a"));
        assert!(!choice.takes_file(b"d/e/a"));
        assert_eq!(choice.dir(b""), Verdict::Take);
        assert_eq!(choice.dir(b"d"), Verdict::Take);
        assert_eq!(choice.dir(b"d/e"), Verdict::Leave);
    }

    #[test]
    fn limits_are_the_last_that_is_taken_and_the_unknown_is_taken() {
        let choice = Choice {
            max_size: Some(10),
            min_size: Some(5),
            not_before: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(100)),
            ..Choice::default()
        };
        let now = Some((100, 0));
        for size in [Some(5), Some(10), None] {
            assert_eq!(choice.refusal(size, now), None, "{size:?}");
            assert_eq!(choice.refusal(size, None), None, "{size:?}");
        }
        assert!(choice.lacks_time(None) && !choice.lacks_time(now));
        assert!(!Choice::default().lacks_time(None));
        for (size, time) in [(4, (100, 0)), (11, (100, 0)), (7, (99, 999_999_999))] {
            assert!(choice.refusal(Some(size), Some(time)).is_some(), "{size}");
        }
    }
}

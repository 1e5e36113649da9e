//! Command-line options of every bench.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;

/// Size of a measurement.
#[derive(Debug, Args)]
#[non_exhaustive]
pub struct Extent {
    /// Test run with small amounts; the numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Passed by `cargo bench`; without it the bench runs as a test, with small amounts.
    #[arg(long, hide = true)]
    bench: bool,
    /// Raises the priority of both sides, for a busy machine; needs root
    #[arg(long)]
    priority: bool,
}

impl Extent {
    /// Returns whether this is a test run.
    #[must_use]
    pub const fn is_quick(&self) -> bool {
        self.quick || !self.bench
    }

    /// Raises the priority by `raise` if it was requested, and returns a line about it.
    pub fn prioritize(&self, raise: fn() -> bool) -> &'static str {
        match self.priority.then(raise) {
            None => "without raised priority",
            Some(true) => "with raised priority",
            Some(false) => "without raised priority, which needs root",
        }
    }
}

/// Size of a bench that compares two sides in several runs.
#[derive(Debug, Args)]
#[non_exhaustive]
pub struct Scale {
    /// Number of runs of each side, of which the median is printed [default: 5]
    #[arg(long, value_name = "N")]
    runs: Option<NonZeroUsize>,
    /// Size of a run.
    #[command(flatten)]
    pub extent: Extent,
}

impl Scale {
    /// Returns the number of runs of each side.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs_or(5)
    }

    /// Returns the number of runs of each side, by default `usual`.
    #[must_use]
    pub fn runs_or(&self, usual: usize) -> usize {
        let usual = if self.extent.is_quick() { 1 } else { usual };
        self.runs.map_or(usual, NonZeroUsize::get)
    }

    /// Returns the full amount, or the small one in a test run.
    #[must_use]
    pub fn amount(&self, full: u64, quick: u64) -> u64 {
        match self.extent.is_quick() {
            true => quick,
            false => full,
        }
    }
}

/// Returns whether a part was selected; no selection means all parts.
#[must_use]
pub fn wants(only: &[String], part: &str) -> bool {
    only.is_empty() || only.iter().any(|only| only == part)
}

/// Returns a folder relative to the workspace root, since cargo runs benches in another folder.
///
/// # Errors
/// None: any text is a folder.
pub fn folder(name: &str) -> Result<PathBuf, Infallible> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_relative_to_the_workspace() {
        assert!(folder("benches/pictures").unwrap().is_dir());
        assert_eq!(folder("/tmp").unwrap(), Path::new("/tmp"));
    }

    #[test]
    fn no_selection_means_all_parts() {
        assert!(wants(&[], "speed"));
        assert!(wants(&["size".into(), "speed".into()], "speed"));
        assert!(!wants(&["size".into()], "speed"));
    }
}

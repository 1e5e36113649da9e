//! What the person who runs a bench can choose of every one of them.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use clap::Args;

/// How much is measured.
#[derive(Debug, Args)]
#[non_exhaustive]
pub struct Extent {
    /// As little as shows that all works: the numbers are no measurement
    #[arg(long)]
    quick: bool,
    /// What cargo says to a bench that is to measure; as a test, little shows that all works.
    #[arg(long, hide = true)]
    bench: bool,
    /// Runs both sides before all other work of the machine, as root: for a machine that is busy
    #[arg(long)]
    priority: bool,
}

impl Extent {
    /// Whether this only shows that all works.
    #[must_use]
    pub const fn is_quick(&self) -> bool {
        self.quick || !self.bench
    }

    /// Raises the priority by `raise` if that was asked for, and returns a line about it.
    pub fn prioritize(&self, raise: fn() -> bool) -> &'static str {
        match self.priority.then(raise) {
            None => "in the ordinary scheduling class",
            Some(true) => "before all other work of the machine",
            Some(false) => "in the ordinary scheduling class: priority needs root",
        }
    }
}

/// Whether a part is to be run, where none means all of them.
#[must_use]
pub fn wants(only: &[String], part: &str) -> bool {
    only.is_empty() || only.iter().any(|only| only == part)
}

/// The folder that is meant by someone who stands at the top of the workspace: cargo runs benches elsewhere.
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
    fn folders_are_those_of_the_workspace() {
        assert!(folder("benches/pictures").unwrap().is_dir());
        assert_eq!(folder("/tmp").unwrap(), Path::new("/tmp"));
    }

    #[test]
    fn no_part_means_all() {
        assert!(wants(&[], "speed"));
        assert!(wants(&["size".into(), "speed".into()], "speed"));
        assert!(!wants(&["size".into()], "speed"));
    }
}

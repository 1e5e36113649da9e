//! Command-line options: parts and amounts.

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Result;
use clap::Parser;
use workspace_benches::options::{Extent, wants};
use workspace_tests::Tree;

/// Compares Grid security and FTPS of our programs with those of others.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench gsi")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// bulk: one large file under PROT P, S and C. clear: our PROT P beside our clear copy and one
    /// core's AES-GCM. logins: logins with delegation per second. ftps: one large file over TLS,
    /// against curl and vsftpd (needs root).
    #[arg(long, value_name = "PART", value_parser = ["bulk", "clear", "logins", "ftps"])]
    only: Vec<String>,
    /// Number of runs of each side, of which the median is printed [default: 5]
    #[arg(long, value_name = "N")]
    runs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) extent: Extent,
}

impl Options {
    /// Returns whether a measurement was selected.
    pub(crate) fn wants(&self, part: &str) -> bool {
        wants(&self.only, part)
    }

    /// Returns the number of runs of each side.
    pub(crate) fn runs(&self) -> usize {
        let usual = if self.extent.is_quick() { 1 } else { 5 };
        self.runs.map_or(usual, NonZeroUsize::get)
    }

    /// Returns the full amount, or the small one in a test run.
    pub(crate) fn amount(&self, full: u64, quick: u64) -> u64 {
        match self.extent.is_quick() {
            true => quick,
            false => full,
        }
    }

    /// Returns the number of bytes of a large file.
    pub(crate) fn size(&self) -> u64 {
        self.amount(1 << 30, 64 << 20)
    }
}

/// Makes a tree in memory, or on disk where there is no such file system.
pub(crate) fn tree() -> Result<Tree> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => Tree::new_in(memory),
        false => Tree::new(),
    }
}

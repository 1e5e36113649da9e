//! What to measure and how much of it.

use std::num::NonZeroUsize;

use clap::Parser;
use workspace_benches::options::{Extent, wants};

/// Compares our programs with the Globus programs.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench")]
pub(crate) struct Options {
    /// One part only; may be said again
    ///
    /// bulk: one large file, MODE S and MODE E with 1 and 4 streams. small: 10,000 files of 1 kB, both
    /// directions. link: 500 files of 10 kB over an emulated link of 50 ms round trip (needs root). servers:
    /// 2,000 files of 1 kB in MODE S at plain FTP servers, against lftp. memory: server memory of 400 sessions in the middle of a slow download. logins: logins per second.
    #[arg(long, value_name = "PART", value_parser = ["bulk", "small", "link", "servers", "memory", "logins"])]
    only: Vec<String>,
    /// How many runs of each side there are, of which the median counts [default: 5]
    #[arg(long, value_name = "N")]
    runs: Option<NonZeroUsize>,
    #[command(flatten)]
    extent: Extent,
}

impl Options {
    /// Whether a measurement is to be made.
    pub(crate) fn wants(&self, part: &str) -> bool {
        wants(&self.only, part)
    }

    /// How many runs of each side there are.
    pub(crate) fn runs(&self) -> usize {
        let usual = if self.extent.is_quick() { 1 } else { 5 };
        self.runs.map_or(usual, NonZeroUsize::get)
    }

    /// Returns the full amount, or the small one when quick.
    pub(crate) fn amount(&self, full: u64, quick: u64) -> u64 {
        match self.extent.is_quick() {
            true => quick,
            false => full,
        }
    }
}

//! Command-line options: parts and amounts.

use std::num::NonZeroUsize;

use clap::Parser;
use workspace_benches::options::{Extent, wants};

/// Measures data nodes and object stores.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench striping")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// links: one file over 1, 2 and 4 nodes with links of 200 Mbit/s (needs root). overhead: a
    /// front end with nodes beside one server. globus: two nodes of ours beside two of the Globus
    /// server. failover: time from the end of a node to the next byte. object: one file to an object
    /// store and back, beside rclone, and the memory of our server.
    #[arg(long, value_name = "PART", value_parser = ["links", "overhead", "globus", "failover", "object"])]
    only: Vec<String>,
    /// Number of runs of each side, of which the median is printed [default: 5, of links 1]
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
        self.runs_or(5)
    }

    /// Returns the number of runs of each side, by default `usual`.
    pub(crate) fn runs_or(&self, usual: usize) -> usize {
        let usual = if self.extent.is_quick() { 1 } else { usual };
        self.runs.map_or(usual, NonZeroUsize::get)
    }

    /// Returns the full amount, or the small one in a test run.
    pub(crate) fn amount(&self, full: u64, quick: u64) -> u64 {
        match self.extent.is_quick() {
            true => quick,
            false => full,
        }
    }
}

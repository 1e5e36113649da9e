//! What the person who runs the bench chooses: parts, amounts, and where pictures go.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::Parser;
use workspace_benches::options::{Extent, folder, wants};

/// Sets our UDT beside libudt: on loopback, over long links that lose, and beside other flows.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench udt")]
pub(crate) struct Options {
    /// One part only; may be said again
    #[arg(long, value_name = "PART", value_parser = ["loopback", "emulator", "links", "mixed", "sharing"])]
    only: Vec<String>,
    /// One row only of what flows share, from 1; may be said again
    #[arg(long, value_name = "N")]
    row: Vec<usize>,
    /// How many flows there are, of which the median counts [default: 5 on loopback, 15 mixed, 1 elsewhere]
    #[arg(long, value_name = "N")]
    runs: Option<NonZeroUsize>,
    /// How long each flow over an emulated link takes [default: 30]
    #[arg(long, value_name = "S")]
    seconds: Option<NonZeroU32>,
    /// Draws pictures into this folder
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    pub(crate) pictures: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) extent: Extent,
}

impl Options {
    /// Whether a part is to be run.
    pub(crate) fn wants(&self, part: &str) -> bool {
        wants(&self.only, part)
    }

    /// Whether this only shows that all works.
    pub(crate) fn is_quick(&self) -> bool {
        self.extent.is_quick()
    }

    /// Seconds that each flow over an emulated link takes.
    pub(crate) fn seconds(&self) -> u32 {
        let usual = if self.is_quick() { 2 } else { 30 };
        self.seconds.map_or(usual, NonZeroU32::get)
    }

    /// Whether a row of a table is to be run, from 1.
    pub(crate) fn wants_row(&self, row: usize) -> bool {
        self.row.is_empty() || self.row.contains(&row)
    }

    /// How many runs there are of each thing, where so many are usual.
    pub(crate) fn runs(&self, usual: usize) -> usize {
        let usual = if self.is_quick() { 1 } else { usual };
        self.runs.map_or(usual, NonZeroUsize::get)
    }
}

//! `Options` of the bench: parts, amounts, and the folder for pictures.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::Parser;
use workspace_benches::options::{Extent, folder, wants};

/// Sets our UDT beside libudt: on loopback, over long lossy links, and beside other flows.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench udt")]
pub(crate) struct Options {
    /// One part only; may be repeated
    #[arg(long, value_name = "PART", value_parser = ["loopback", "soak", "emulator", "links", "mixed", "sharing"])]
    only: Vec<String>,
    /// One row only of the table of shares, from 1; may be repeated
    #[arg(long, value_name = "N")]
    row: Vec<usize>,
    /// Runs of each flow, of which the median counts [default: 5 on loopback, 1000 soak, 15 mixed,
    /// else 1]
    #[arg(long, value_name = "N")]
    runs: Option<NonZeroUsize>,
    /// Seconds of each flow over an emulated link [default: 30]
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

    /// Whether this is a trial of the bench and no measurement.
    pub(crate) fn is_quick(&self) -> bool {
        self.extent.is_quick()
    }

    /// Seconds of each flow over an emulated link.
    pub(crate) fn seconds(&self) -> u32 {
        let usual = if self.is_quick() { 2 } else { 30 };
        self.seconds.map_or(usual, NonZeroU32::get)
    }

    /// Whether a row of a table is to be run, from 1.
    pub(crate) fn wants_row(&self, row: usize) -> bool {
        self.row.is_empty() || self.row.contains(&row)
    }

    /// Runs of each flow, `usual` by default.
    pub(crate) fn runs(&self, usual: usize) -> usize {
        let usual = if self.is_quick() { 1 } else { usual };
        self.runs.map_or(usual, NonZeroUsize::get)
    }
}

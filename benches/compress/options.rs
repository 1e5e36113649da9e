//! What the person who runs the bench chooses: parts, amounts, and where pictures go.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use workspace_benches::options::{Extent, folder, wants};
use xio_core::ByteSize;

/// Redoes the measurements of the compression-driver paper.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench compress")]
pub(crate) struct Options {
    /// One part only; may be said again
    #[arg(long, value_name = "PART", value_parser = ["sizes", "speed", "streams", "overhead", "auto"])]
    only: Vec<String>,
    /// Bytes of each set of data, as 1200M [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = enough)]
    size: Option<ByteSize>,
    /// How long each transfer takes [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// How many transfers there are, of which the median counts
    #[arg(long, value_name = "N", default_value = "1")]
    runs: NonZeroUsize,
    /// Draws pictures into this folder
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    pub(crate) pictures: Option<PathBuf>,
    #[command(flatten)]
    extent: Extent,
}

/// The least that makes a block of each size.
fn enough(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|_| "not a size, as 1200M")?;
    match size.bytes() {
        0..65_536 => Err("too little to measure; 64K at least".into()),
        _ => Ok(size),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
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

    /// Bytes of each set of data.
    pub(crate) fn size(&self) -> usize {
        let usual = if self.is_quick() { 1 << 20 } else { 64 << 20 };
        self.size.map_or(usual, ByteSize::in_memory)
    }

    /// How long each transfer takes.
    pub(crate) fn time(&self) -> Duration {
        let usual = if self.is_quick() { 50 } else { 1000 };
        self.seconds.unwrap_or_else(|| Duration::from_millis(usual))
    }

    /// How many transfers there are, of which the median counts.
    pub(crate) fn runs(&self) -> usize {
        self.runs.get()
    }
}

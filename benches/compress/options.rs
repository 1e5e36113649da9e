//! Command-line options: parts, amounts, and the folder of pictures.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use workspace_benches::options::{Extent, folder, wants};
use xio_core::ByteSize;

/// Repeats the measurements of the paper on the compression driver.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench compress")]
pub(crate) struct Options {
    /// One part only; may be repeated
    #[arg(long, value_name = "PART", value_parser = ["sizes", "speed", "streams", "overhead", "auto"])]
    only: Vec<String>,
    /// Bytes of each data set, as 1200M [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = enough)]
    size: Option<ByteSize>,
    /// Duration of each transfer in seconds [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Number of transfers, of which the median is printed
    #[arg(long, value_name = "N", default_value = "1")]
    runs: NonZeroUsize,
    /// Folder for pictures
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    pub(crate) pictures: Option<PathBuf>,
    #[command(flatten)]
    extent: Extent,
}

/// Parses the size of a data set, at least a block of the largest size.
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
    /// Returns whether a part was selected.
    pub(crate) fn wants(&self, part: &str) -> bool {
        wants(&self.only, part)
    }

    /// Returns whether this is a test run.
    pub(crate) fn is_quick(&self) -> bool {
        self.extent.is_quick()
    }

    /// Returns the bytes of each data set.
    pub(crate) fn size(&self) -> usize {
        let usual = if self.is_quick() { 1 << 20 } else { 64 << 20 };
        self.size.map_or(usual, ByteSize::in_memory)
    }

    /// Returns the duration of each transfer.
    pub(crate) fn time(&self) -> Duration {
        let usual = if self.is_quick() { 50 } else { 1000 };
        self.seconds.unwrap_or_else(|| Duration::from_millis(usual))
    }

    /// Returns the number of transfers, of which the median is printed.
    pub(crate) fn runs(&self) -> usize {
        self.runs.get()
    }
}

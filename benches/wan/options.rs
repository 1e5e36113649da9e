//! Command-line options: paths and amounts.

use clap::Parser;
use workspace_benches::options::Scale;

/// Measures copies over long paths, with loss and without.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench wan")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// targets: 200 Mbit/s and 100 ms, with a loss of 0, 0.05 and 0.5 %. fast: five others of
    /// 200 Mbit/s. slow: seven of 20 to 100 Mbit/s. All need root.
    #[arg(long, value_name = "PART", value_parser = ["targets", "fast", "slow"])]
    pub(crate) only: Vec<String>,
    /// Measure the default flags alone, without the other settings
    #[arg(long)]
    pub(crate) alone: bool,
    #[command(flatten)]
    pub(crate) scale: Scale,
}

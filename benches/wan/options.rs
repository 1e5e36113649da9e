//! Command-line options: paths and amounts.

use clap::Parser;
use workspace_benches::options::Scale;

/// Measures copies over long paths, with loss and without.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench wan")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// targets: 200 Mbit/s and 100 ms, with a loss of 0, 0.05 and 0.5 %. paths: twelve others (an
    /// hour). Both need root.
    #[arg(long, value_name = "PART", value_parser = ["targets", "paths"])]
    pub(crate) only: Vec<String>,
    #[command(flatten)]
    pub(crate) scale: Scale,
}

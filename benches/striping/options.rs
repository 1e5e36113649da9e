//! Command-line options: parts and amounts.

use clap::Parser;
use workspace_benches::options::Scale;

/// Measures data nodes and object stores.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench striping")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// links: one file over 1, 2 and 4 nodes with links of 200 Mbit/s, by default in one run (needs
    /// root). overhead: a
    /// front end with nodes beside one server. globus: two nodes of ours beside two of the Globus
    /// server. failover: time from the end of a node to the next byte. object: one file to an object
    /// store and back, beside rclone, and the memory of our server.
    #[arg(long, value_name = "PART", value_parser = ["links", "overhead", "globus", "failover", "object"])]
    pub(crate) only: Vec<String>,
    #[command(flatten)]
    pub(crate) scale: Scale,
}

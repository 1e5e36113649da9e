//! Data nodes and object stores: sums of links, overhead, failover, and throughput beside others.
//!
//! The nodes of `links` are in network namespaces with links of 200 Mbit/s. All others are on
//! loopback. Files are in memory where that has room.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod failover;
mod links;
mod loopback;
mod object;
mod options;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use workspace_benches::frame;
use workspace_benches::ratio::Line;

use crate::options::Options;

fn main() -> ExitCode {
    frame::finish(measure())
}

/// Runs every selected measurement.
fn measure() -> Result<Vec<Line>> {
    let options = Options::parse();
    let parts: [frame::Part<'_>; 5] = [
        ("links", &|| links::measure(&options)),
        ("overhead", &|| loopback::beside_one_server(&options)),
        ("globus", &|| loopback::beside_globus(&options)),
        ("failover", &|| failover::measure(&options)),
        ("object", &|| object::measure(&options)),
    ];
    frame::measure(&options.scale, &options.only, &parts)
}

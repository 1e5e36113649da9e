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

mod copy;
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
    frame::print_conditions(&options.extent, options.runs());
    let mut lines: Vec<Line> = Vec::new();
    if options.wants("links") {
        lines.extend(links::measure(&options)?);
    }
    if options.wants("overhead") {
        lines.extend(loopback::beside_one_server(&options)?);
    }
    if options.wants("globus") {
        lines.extend(loopback::beside_globus(&options)?);
    }
    if options.wants("failover") {
        lines.extend(failover::measure(&options)?);
    }
    if options.wants("object") {
        lines.extend(object::measure(&options)?);
    }
    Ok(lines)
}

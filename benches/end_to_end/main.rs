//! Our programs against the Globus programs in the same run, as one table of ratios.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod bulk;
mod options;
mod servers;
mod sessions;
mod small;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use workspace_benches::frame;
use workspace_benches::pair::Pair;
use workspace_benches::ratio::Line;

use crate::options::Options;

fn main() -> ExitCode {
    frame::finish(measure())
}

/// Runs every selected measurement.
fn measure() -> Result<Vec<Line>> {
    let options = Options::parse();
    let Some(pair) = Pair::find()? else {
        return Ok(Vec::new());
    };
    frame::print_conditions(&options.extent, options.runs());
    let mut lines: Vec<Line> = Vec::new();
    if options.wants("bulk") {
        for folder in options.folders() {
            lines.extend(bulk::measure(&pair, &options, &folder)?);
        }
    }
    if options.wants("small") {
        for folder in options.folders() {
            lines.extend(small::loopback(&pair, &options, &folder)?);
        }
    }
    if options.wants("link") {
        lines.extend(small::over_link(&pair, &options)?);
    }
    if options.wants("servers") {
        lines.extend(servers::measure(&pair, &options)?);
    }
    if options.wants("memory") {
        lines.extend(sessions::memory(&pair, &options)?);
    }
    if options.wants("logins") {
        lines.extend(sessions::logins(&pair, &options)?);
    }
    Ok(lines)
}

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
use workspace_benches::machine;
use workspace_benches::pair::Pair;
use workspace_benches::ratio::{HEAD, Line};

use crate::options::Options;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every selected measurement and prints the table.
fn measure() -> Result<()> {
    let options = Options::parse();
    let Some(pair) = Pair::find()? else {
        return Ok(());
    };
    println!(
        "{}",
        options.extent.prioritize(machine::use_real_time_class)
    );
    println!("{}", machine::caption());
    println!(
        "medians of {} alternating runs; above 1 our programs are better\n",
        options.runs()
    );
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
    println!("{HEAD}");
    for line in &lines {
        println!("{}", line.row());
    }
    Ok(())
}

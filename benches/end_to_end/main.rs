//! Our programs against the Globus programs in the same run: one table of ratios.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to the person who runs it"
)]

mod bulk;
mod options;
mod pair;
mod sessions;
mod small;

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
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

/// Runs every measurement that was asked for and prints the table.
fn measure() -> Result<()> {
    let Some(options) = Options::parse(std::env::args().skip(1))? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    let Some(pair) = pair::Pair::find()? else {
        return Ok(());
    };
    println!("{}", machine());
    println!(
        "medians of {} alternating runs; above 1 we are better\n",
        options.runs
    );
    let mut lines: Vec<Line> = Vec::new();
    if options.wants("bulk") {
        lines.extend(bulk::measure(&pair, &options)?);
    }
    if options.wants("small") {
        lines.extend(small::loopback(&pair, &options)?);
    }
    if options.wants("link") {
        lines.extend(small::over_link(&pair, &options)?);
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

/// Returns what ran this, for the caption of the table.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("\t: unknown processor");
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{}, {cpus} CPUs, Linux {}",
        cpu.trim_start_matches(['\t', ' ', ':']),
        kernel.trim()
    )
}

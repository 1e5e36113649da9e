//! The frame of a bench of ratios: its first lines, its table, and its exit code.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

use std::process::ExitCode;

use anyhow::Result;

use crate::machine;
use crate::options::Extent;
use crate::ratio::{HEAD, Line};

/// Raises the priority if that was requested, and prints the conditions of the run.
pub fn print_conditions(extent: &Extent, runs: usize) {
    println!("{}", extent.prioritize(machine::use_real_time_class));
    println!("{}", machine::caption());
    println!("medians of {runs} alternating runs; above 1 our programs are better\n");
}

/// Prints the table of a run, or the error that ended it.
#[must_use]
pub fn finish(measured: Result<Vec<Line>>) -> ExitCode {
    match measured {
        Ok(lines) if lines.is_empty() => ExitCode::SUCCESS,
        Ok(lines) => {
            println!("{HEAD}");
            for line in &lines {
                println!("{}", line.row());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

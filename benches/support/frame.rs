//! The frame of a bench of ratios: its first lines, its parts, its table, and its exit code.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

use std::process::ExitCode;

use anyhow::Result;

use crate::machine;
use crate::options::{Scale, wants};
use crate::ratio::{HEAD, Line};

/// A part of a bench: its name on the command line, and its measurement.
pub type Part<'a> = (&'a str, &'a dyn Fn() -> Result<Vec<Line>>);

/// Prints the conditions of the run, and makes the measurements that `only` selects.
pub fn measure(scale: &Scale, only: &[String], parts: &[Part<'_>]) -> Result<Vec<Line>> {
    println!("{}", scale.extent.prioritize(machine::use_real_time_class));
    println!("{}", machine::caption());
    let runs = scale.runs();
    println!("medians of {runs} alternating runs; above 1 our programs are better\n");
    let mut lines = Vec::new();
    for (name, part) in parts {
        if wants(only, name) {
            lines.extend(part()?);
        }
    }
    Ok(lines)
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

//! Figures 1 to 6 of the XIO paper: latency and throughput of a stack, compared with the socket.
//!
//! As in the paper, latency is half the round trip of a message, and throughput is that of messages
//! sent back to back until the answer to the last. Both ends are processes, on one machine or in
//! two namespaces joined by an emulated link. Each variant of a figure has a connection. In each
//! turn the variants run one slice each, in random order, and are compared with the first of the
//! turn.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod exchange;
mod figures;
mod pipes;
mod programs;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, value_parser};
use workspace_benches::machine;
use workspace_benches::options::{Extent, folder};

use crate::figures::{FIGURES, Figure};

/// Repeats figures 1 to 6 of the XIO paper.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench latency")]
struct Options {
    /// One figure only, 1 to 6; may be repeated
    #[arg(long, value_name = "FIGURE", value_parser = value_parser!(u16).range(1..=6))]
    only: Vec<u16>,
    /// Number of turns, in place of the figure's own
    #[arg(long, value_name = "N")]
    turns: Option<usize>,
    /// Folder for pictures
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    pictures: Option<PathBuf>,
    #[command(flatten)]
    extent: Extent,
}

impl Options {
    /// Returns whether this is a test run.
    fn is_quick(&self) -> bool {
        self.extent.is_quick()
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match bench(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latency: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(words: &[String]) -> Result<()> {
    if let Some(done) = worker::run(words) {
        return done;
    }
    let options = Options::parse();
    println!("{}", machine::caption());
    let all = options.only.is_empty();
    let wanted = |figure: &&Figure| all || options.only.contains(&figure.number);
    // The ends of a link and its emulator sleep often and wait least in the real-time class; a
    // program that keeps its processor busy is steadier outside it.
    for (far, raise) in [
        (false, machine::raise_priority as fn() -> bool),
        (true, machine::use_real_time_class),
    ] {
        let figures = FIGURES
            .iter()
            .filter(wanted)
            .filter(|figure| figure.is_far() == far);
        for (nth, figure) in figures.enumerate() {
            if nth == 0 {
                println!("{}", options.extent.prioritize(raise));
            }
            figure.run(&options)?;
        }
    }
    Ok(())
}

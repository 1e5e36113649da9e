//! Redoes figures 1 to 6 of the XIO paper: what a stack costs beside the socket, in latency and in throughput.
//!
//! As in the paper, latency is half of the time that a message takes there and back, and throughput is
//! that of messages sent back to back until the answer to the last. Both ends are processes, on one
//! machine or in two namespaces that an emulated link joins. All variants of a figure have a
//! connection each, take turns by lot in slices, and are set against the first in the same turn.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to the person who runs it"
)]

mod figures;
mod pipes;
mod programs;
mod talk;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, value_parser};
use workspace_benches::machine;
use workspace_benches::options::{Extent, folder};

use crate::figures::{FIGURES, Figure};

/// Redoes figures 1 to 6 of the XIO paper.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench latency")]
struct Options {
    /// One figure only, 1 to 6; may be said again
    #[arg(long, value_name = "FIGURE", value_parser = value_parser!(u16).range(1..=6))]
    only: Vec<u16>,
    /// In place of what each figure has
    #[arg(long, value_name = "N")]
    turns: Option<usize>,
    /// Draws pictures into this folder
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    pictures: Option<PathBuf>,
    #[command(flatten)]
    extent: Extent,
}

impl Options {
    /// Whether this only shows that all works.
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
        (false, machine::weigh_more as fn() -> bool),
        (true, machine::go_first),
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

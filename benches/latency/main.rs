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

use anyhow::{Context, Result, bail};
use workspace_benches::{machine, picture};

use crate::figures::{FIGURES, Figure};

const USAGE: &str = "\
usage: cargo xtask bench latency [--quick] [--only FIGURE] [--turns N] [--pictures FOLDER]

  --only FIGURE      1 to 6
  --turns N          in place of what each figure has
  --pictures FOLDER  for the pictures; none are drawn otherwise
  --quick            as little as shows that all works";

/// What the person who runs the bench chose.
struct Options {
    only: Option<usize>,
    turns: Option<usize>,
    pictures: Option<PathBuf>,
    quick: bool,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        // Cargo passes `--bench` when it measures; as a test, little shows that all works.
        let measure = words.iter().any(|word| word == "--bench");
        let mut options = Self {
            only: None,
            turns: None,
            pictures: None,
            quick: !measure,
        };
        let mut words = words.iter().filter(|word| *word != "--bench");
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word}: of what?\n{USAGE}"))
            };
            match word.as_str() {
                "--only" => options.only = Some(value()?.parse().context(USAGE)?),
                "--turns" => options.turns = Some(value()?.parse().context(USAGE)?),
                "--pictures" => options.pictures = Some(picture::folder(value()?)),
                "--quick" => options.quick = true,
                _ => bail!("{word}: unknown\n{USAGE}"),
            }
        }
        Ok(options)
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
    let options = Options::parse(words)?;
    println!("{}", machine::caption());
    let wanted = |figure: &&Figure| options.only.is_none_or(|only| only == figure.number);
    // What sleeps often, as ends of a link and its emulator do, waits least in the real-time class;
    // what keeps its processor busy is steadier outside it.
    for (far, priority) in [
        (false, machine::weigh_more as fn() -> bool),
        (true, machine::go_first),
    ] {
        let figures = FIGURES
            .iter()
            .filter(wanted)
            .filter(|figure| figure.is_far() == far);
        for (nth, figure) in figures.enumerate() {
            if nth == 0 && !priority() {
                println!("no priority: expect noise");
            }
            figure.run(&options)?;
        }
    }
    Ok(())
}

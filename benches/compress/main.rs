//! The measurements of the paper on the compression driver, and `strategy=auto` against fixed
//! codecs.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod auto;
mod data;
mod options;
mod overhead;
mod run;
mod sizes;
mod sketch;
mod speed;
mod streams;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;

use crate::options::Options;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match bench(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compress: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(words: &[String]) -> Result<()> {
    if let Some(done) = worker::run(words) {
        return done;
    }
    let options = Options::parse();
    let sets = data::make(&options)?;
    if options.wants("sizes") {
        sizes::run(&sets)?;
    }
    if options.wants("speed") {
        speed::run(&options, &sets)?;
    }
    if options.wants("streams") {
        streams::run(&options, &sets)?;
    }
    if options.wants("overhead") {
        overhead::run(&options, &sets)?;
    }
    if options.wants("auto") {
        auto::run(&options, &sets)?;
    }
    Ok(())
}

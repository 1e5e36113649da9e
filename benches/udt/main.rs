//! Our UDT beside libudt: on loopback, over long lossy links, and beside other flows.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench talks to the person who runs it"
)]

mod flow;
mod links;
mod loopback;
mod mixed;
mod options;
mod peer;
mod pour;
mod sharing;
mod sketch;
mod soak;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use workspace_benches::machine;

use crate::options::Options;
use crate::peer::Program;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match bench(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("udt: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(words: &[String]) -> Result<()> {
    if let Some(done) = worker::run(words) {
        return done;
    }
    let options = Options::parse();
    let Some(program) = Program::compile()? else {
        return Ok(());
    };
    println!("{}", options.extent.prioritize(machine::raise_priority));
    println!("{}", machine::caption());
    let libudt = program.flow();
    if options.wants("loopback") {
        loopback::run(&options, &libudt)?;
    }
    if options.wants("soak") {
        soak::run(&options)?;
    }
    if options.wants("emulator") {
        links::check(&options)?;
    }
    if options.wants("links") {
        links::run(&options, &libudt)?;
    }
    if options.wants("mixed") {
        mixed::run(&options, &libudt)?;
    }
    if options.wants("sharing") {
        sharing::run(&options, &libudt)?;
    }
    Ok(())
}

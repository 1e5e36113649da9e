//! xio-perf: parse, measure, report, exit.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program's output"
)]

mod both;
mod ends;
mod flags;
mod flow;
mod goal;
mod payload;
mod report;
mod tally;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use crate::flags::{Command, Flags};

fn main() -> ExitCode {
    let flags = Flags::parse();
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start")
        .and_then(|runtime| {
            let outcome = runtime.block_on(async {
                match &flags.command {
                    Command::Serve(serve) => ends::serve(serve).await,
                    Command::Run(run) => ends::run(run).await,
                }
            });
            // A thread that waits for a disk must not keep the program.
            runtime.shutdown_background();
            outcome
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xio-perf: {}", report::chain(&error));
            ExitCode::FAILURE
        }
    }
}

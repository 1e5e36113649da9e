//! xio-perf: parses the command line, runs the sessions and sets the exit status.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program's output"
)]

mod both;
mod budget;
mod ends;
mod flags;
mod flow;
mod payload;
mod report;
mod tally;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;

use crate::flags::{Command, Flags};

/// Longest wait for the tasks of aborted connections: without a shutdown packet a peer over UDT
/// waits for three quarters of a minute, and a thread blocked by a disk must not delay the exit.
const SHUTDOWN: Duration = Duration::from_secs(1);

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
            runtime.shutdown_timeout(SHUTDOWN);
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

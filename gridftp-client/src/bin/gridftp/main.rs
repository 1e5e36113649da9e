//! gridftp: work on files of servers other than copies; parse, run, report, exit.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program's output")]

mod bytes;
mod change;
mod check;
mod end;
mod examples;
mod flags;
mod list;
mod places;
mod rates;
mod receipts;
mod size;
mod speed;
mod sum;
mod walk;
mod work;

use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory as _;
use gridftp_client::program::accounts::PlaceAccess;
use gridftp_client::program::exit::Status;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::{
    ended, print_completions, print_man, stopped_by_signal, wait_for,
};
use gridftp_client::program::settings;

use crate::flags::{Command, Flags};
use crate::work::{Common, Work};

/// The name of the program, as its messages begin.
const PROGRAM: &str = "gridftp";

fn main() -> ExitCode {
    gridftp_data::forbid_core_dumps();
    let (flags, places) = match settings::parse::<Flags>(PROGRAM) {
        Ok(parsed) => parsed,
        Err((status, _)) => return status.into(),
    };
    let plain = Report::of_lines(PROGRAM, false, false);
    if let Some(shell) = flags.completions {
        return print_completions(shell, Flags::command(), &plain).into();
    }
    let Some(command) = &flags.command else {
        return print_man(Flags::command(), &plain).into();
    };
    match command {
        Command::Proxy(args) => {
            let report = args.report(PROGRAM);
            ended(args.run(&report), &report)
        }
        Command::Doctor(args) => {
            let report = args.report(PROGRAM);
            ended(args.run(&report), &report)
        }
        Command::Ls(args) => run((&args.common, &places), async |work| {
            list::ls(args, work).await
        }),
        Command::Stat(args) => run((&args.common, &places), async |work| {
            list::stat(args, work).await
        }),
        Command::Tree(args) => run((&args.common, &places), async |work| {
            list::tree(args, work).await
        }),
        Command::Cat(args) => run((&args.common, &places), async |work| {
            bytes::cat(args, work).await
        }),
        Command::Head(args) => run((&args.common, &places), async |work| {
            bytes::head(args, work).await
        }),
        Command::Mkdir(args) => run((&args.common, &places), async |work| {
            change::mkdir(args, work).await
        }),
        Command::Rm(args) => run((&args.common, &places), async |work| {
            // It walks trees: the others are smaller.
            Box::pin(change::rm(args, work)).await
        }),
        Command::Mv(args) => run((&args.common, &places), async |work| {
            change::mv(args, work).await
        }),
        Command::Ln(args) => run((&args.common, &places), async |work| {
            change::ln(args, work).await
        }),
        Command::Chmod(args) => run((&args.common, &places), async |work| {
            change::chmod(args, work).await
        }),
        Command::Touch(args) => run((&args.common, &places), async |work| {
            change::touch(args, work).await
        }),
        Command::Du(args) => run((&args.common, &places), async |work| {
            size::du(args, work).await
        }),
        Command::Df(args) => run((&args.common, &places), async |work| {
            size::df(args, work).await
        }),
        Command::Sum(args) => run((&args.common, &places), async |work| {
            sum::sum(args, work).await
        }),
        Command::Check(args) => run((&args.common, &places), async |work| {
            check::check(args, work).await
        }),
        Command::CheckReceipt(args) => run((&args.common, &places), async |work| {
            receipts::check(args, work).await
        }),
        Command::Speed(args) => speed::run(args),
        Command::Places(args) => places::run(args),
    }
}

/// Runs a command until it is done or a signal asks to stop.
fn run(
    (common, places): (&Common, &[PlaceAccess]),
    command: impl AsyncFnOnce(&mut Work<'_>) -> anyhow::Result<()>,
) -> ExitCode {
    let report = Arc::new(common.report());
    let work = async {
        let mut work = Work::new(common, &report)?.with_places(places);
        let done = stopped_by_signal(Box::pin(command(&mut work))).await;
        match done {
            Some(done) => done?,
            None => {
                report.fatal(&"stopped by a signal", None);
                return Ok(Status::Interrupted);
            }
        }
        Ok(work.end().await)
    };
    ended(wait_for(work, &report), &report)
}

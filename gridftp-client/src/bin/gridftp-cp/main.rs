//! gridftp-cp: parse, run, report, exit.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program's output")]

mod accounts;
mod connection;
mod doctor;
mod exit;
mod flags;
mod grid;
mod list;
mod proxy;
mod report;

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use gridftp_client::error::TransferError;
use gridftp_client::{Location, Totals, copy};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::accounts::Accounts;
use crate::exit::Status;
use crate::flags::{Command, Flags};
use crate::report::Report;

fn main() -> ExitCode {
    gridftp_data::forbid_core_dumps();
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _gone = error.print();
            if error.kind() == ErrorKind::InvalidSubcommand {
                let _gone = writeln!(
                    std::io::stderr(),
                    "A file called proxy is copied as ./proxy."
                );
            }
            let status = if error.use_stderr() {
                Status::Usage
            } else {
                Status::Done
            };
            return status.into();
        }
    };
    if let Some(shell) = flags.completions {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Flags::command(), "gridftp-cp", &mut text);
        return print(&flags, &text).into();
    }
    if flags.man {
        let mut text = Vec::new();
        let mut command = Flags::command();
        command.build();
        write_pages(command, &mut text).expect("memory takes all that is written to it");
        return print(&flags, &text).into();
    }
    if let Some(Command::Proxy(args)) = &flags.command {
        let report = args.report();
        return ended(args.run(&report), &report);
    }
    if let Some(Command::Doctor(args)) = &flags.command {
        let report = args.report();
        let done = args.run(&report);
        return ended(done, &report);
    }
    // Many files may be under way at a time; where it cannot be raised, fewer are.
    let _ = gridftp_data::raise_descriptors();
    let piped = flags.locations.last().is_some_and(|last| last == "-");
    let report = Arc::new(Report::new(&flags, piped));
    let status = wait_for(run(&flags, &report), &report);
    ended(status, &report)
}

/// Runs the work of a command to its end, and tells of an error in its words.
fn wait_for(work: impl Future<Output = anyhow::Result<Status>>, report: &Report) -> Status {
    // One more than can run at once, since each may have to wait a moment for the storage.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            report.fatal(&format!("start: {error}"), None);
            return Status::Failed;
        }
    };
    let status = runtime.block_on(work).unwrap_or_else(|error| {
        report.fatal(&format!("{error:#}"), None);
        Status::Usage
    });
    // A thread that waits for standard input must not keep the program.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    status
}

/// Tells of output that was lost.
fn ended(status: Status, report: &Report) -> ExitCode {
    let Some(error) = report.lost() else {
        return status.into();
    };
    report.err(&format!("gridftp-cp: output: write: {error}"));
    match status {
        Status::Done => Status::Failed.into(),
        other => other.into(),
    }
}

/// Writes the man page of a command, and then those of the commands in it.
fn write_pages(command: clap::Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    clap_mangen::Man::new(command.clone()).render(text)?;
    for inner in command.get_subcommands() {
        write_pages(inner.clone(), text)?;
    }
    Ok(())
}

/// Writes the whole output of a program that does nothing else.
fn print(flags: &Flags, text: &[u8]) -> Status {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Status::Done,
        // A reader that has gone away wants no more.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Status::Done,
        Err(error) => {
            let report = Report::new(flags, true);
            report.err(&format!("gridftp-cp: output: write: {error}"));
            Status::Failed
        }
    }
}

async fn run(flags: &Flags, report: &Arc<Report>) -> anyhow::Result<Status> {
    flags.check()?;
    let mut accounts = Accounts::new(&flags.connection);
    let mut parse = |text: &OsStr| locate(text, &mut accounts, report);
    if let Some(url) = &flags.list {
        let location = parse(url.as_ref())?;
        let options = flags.copy_options()?;
        let listed = stopped_by_signal(Box::pin(list::run(&location, options, report))).await;
        let ended = |done| finish(done, report, |()| Status::Done);
        return Ok(listed.map_or(Status::Interrupted, ended));
    }
    let [sources @ .., destination] = flags.locations.as_slice() else {
        anyhow::bail!("usage: no source and destination");
    };
    anyhow::ensure!(
        !sources.is_empty(),
        "usage: no destination; write SOURCE... DEST"
    );
    let sources = sources
        .iter()
        .map(|text| Ok(flags.connection.grid.of_source(parse(text)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let destination = flags.connection.grid.of_destination(parse(destination)?);
    let totals = Arc::new(Totals::default());
    let work = copy(
        &sources,
        &destination,
        flags.copy_options()?,
        Arc::clone(report) as Arc<_>,
        Arc::clone(&totals),
    );
    let shown = async {
        tokio::select! {
            done = work => done,
            () = report.follow(&totals) => unreachable!("it follows until it is dropped"),
        }
    };
    let Some(done) = stopped_by_signal(Box::pin(shown)).await else {
        let left = left_behind(&destination, flags);
        report.fatal(&format!("stopped by a signal; {left}"), None);
        return Ok(Status::Interrupted);
    };
    Ok(finish(done, report, |summary| {
        report.end(&summary);
        summary.failed.map_or(Status::Done, Status::of)
    }))
}

/// Reads a location, and completes its account.
fn locate(text: &OsStr, accounts: &mut Accounts<'_>, report: &Report) -> anyhow::Result<Location> {
    let mut location = Location::parse_os(text)?;
    if let Location::Remote(remote) = &location
        && remote.site.password.is_some()
    {
        report.warn(
            "the password in the URL shows in the list of processes; use --netrc, or be asked",
        );
    }
    accounts.complete(&mut location)?;
    Ok(location)
}

/// The remains of a stopped copy at its destination.
fn left_behind(destination: &Location, flags: &Flags) -> &'static str {
    match destination {
        Location::Remote(_) => {
            "the server keeps or drops the bytes of unfinished files as of any upload that breaks off"
        }
        Location::Local(path) if path.is_dir() || !path.exists() => {
            "files not finished are not at their destination names"
        }
        Location::Local(path)
            if path.is_file() && flags.offset.is_none() && flags.length.is_none() =>
        {
            "the destination is as it was"
        }
        Location::Local(path) if path.is_file() => {
            "the part of the destination may be replaced only in part"
        }
        _ => "the output that was written is not all there is",
    }
}

fn finish<T>(
    done: Result<T, TransferError>,
    report: &Report,
    well: impl FnOnce(T) -> Status,
) -> Status {
    match done {
        Ok(value) => well(value),
        Err(error) => {
            report.fatal(&error, Some(&error));
            Status::of(error.class())
        }
    }
}

/// The terminal's end, unless whoever started us has it ignored, as `nohup` does.
fn hang_up() -> std::io::Result<Option<Signal>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let ignored = mask.is_some_and(|mask| mask & 1 != 0);
    (!ignored).then(|| signal(SignalKind::hangup())).transpose()
}

/// Runs `work` until it is done or a signal asks to stop, and then drops it.
async fn stopped_by_signal<T>(work: impl Future<Output = T>) -> Option<T> {
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        hang_up(),
    ) else {
        return Some(work.await);
    };
    let hung_up = async {
        match &mut hang_up {
            Some(hang_up) => hang_up.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        done = work => Some(done),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        _ = hung_up => None,
    }
}

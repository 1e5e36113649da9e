//! The run of a program: its threads, its signals, and its end.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::ExitCode;

use clap_complete::Shell;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Location;
use crate::error::TransferError;
use crate::program::accounts::Accounts;
use crate::program::complete::with_names;
use crate::program::exit::Status;
use crate::program::report::Report;

/// Runs the work of a command to its end, and tells of an error in its words.
pub fn wait_for(work: impl Future<Output = anyhow::Result<Status>>, report: &Report) -> Status {
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
pub fn ended(status: Status, report: &Report) -> ExitCode {
    let Some(error) = report.lost() else {
        return status.into();
    };
    report.warned(&format!("output: write: {error}"));
    match status {
        Status::Done => Status::Failed.into(),
        other => other.into(),
    }
}

/// Writes completions for `shell` to standard output.
pub fn print_completions(shell: Shell, mut command: clap::Command, report: &Report) -> Status {
    let mut text = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, &name, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    print(with_names(shell, &command, text).as_bytes(), report)
}

/// Writes the man pages of a program to standard output.
pub fn print_man(mut command: clap::Command, report: &Report) -> Status {
    let mut text = Vec::new();
    command.build();
    write_pages(command, &mut text).expect("memory takes all that is written to it");
    print(&text, report)
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
fn print(text: &[u8], report: &Report) -> Status {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Status::Done,
        // A reader that has gone away wants no more.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Status::Done,
        Err(error) => {
            report.warned(&format!("output: write: {error}"));
            Status::Failed
        }
    }
}

/// Reads a location, and completes its account.
pub fn locate(
    text: &OsStr,
    accounts: &mut Accounts<'_>,
    report: &Report,
) -> anyhow::Result<Location> {
    let mut location = Location::parse_os(text)?;
    if let Location::Remote(remote) = &location
        && remote.site.password.is_some()
    {
        report.warn(
            "the password in the URL shows in the list of processes; use --netrc, or be asked",
        );
    }
    accounts.complete(&mut location, text)?;
    Ok(location)
}

/// Tells of an error, and returns the exit status.
pub fn finish<T>(
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
pub async fn stopped_by_signal<T>(work: impl Future<Output = T>) -> Option<T> {
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

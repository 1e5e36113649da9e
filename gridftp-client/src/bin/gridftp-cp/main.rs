//! gridftp-cp: parse, run, report, exit.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program's output")]

mod choice;
mod flags;
mod globus;
mod help;
mod list;
mod manner;
mod partials;
mod tuning;
mod values;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use gridftp_client::error::TransferError;
use gridftp_client::options::RateLimit;
use gridftp_client::program::accounts::{Accounts, PlaceAccess};
use gridftp_client::program::complete;
use gridftp_client::program::connection::ConnectionFlags;
use gridftp_client::program::exit::Status;
use gridftp_client::program::failed_list;
use gridftp_client::program::receipts::Receipts;
use gridftp_client::program::records::Records;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::{
    ended, finish, locate, print_completions, print_man, stopped_by_signal, wait_for,
};
use gridftp_client::program::settings;
use gridftp_client::{
    CopyOptions, Event, Location, Observer as _, Summary, Totals, Unfinished, copy, counted,
};

use crate::flags::{Command, Flags};

/// The name of the program, as its messages begin.
const PROGRAM: &str = "gridftp-cp";

fn main() -> ExitCode {
    gridftp_data::forbid_core_dumps();
    if let Some(words) = globus::words() {
        return globus::run(words);
    }
    if let Some(word) = word_to_complete() {
        let report = Report::of_lines(PROGRAM, false, false);
        let words = complete::words(&word, connection_of);
        words.iter().for_each(|word| report.out(word));
        return Status::Done.into();
    }
    let (flags, places) = match settings::parse::<Flags>(PROGRAM) {
        Ok(flags) => flags,
        Err((status, kind)) => {
            if kind == Some(ErrorKind::InvalidSubcommand) {
                // Nobody is left to tell when standard error is closed.
                let _gone = writeln!(
                    std::io::stderr(),
                    "A file called proxy is copied as ./proxy."
                );
            }
            return status.into();
        }
    };
    if let Some(shell) = flags.completions {
        return print_completions(shell, Flags::command(), &lines(&flags)).into();
    }
    if flags.man {
        return print_man(Flags::command(), &lines(&flags)).into();
    }
    if let Some(Command::Proxy(args)) = &flags.command {
        let report = args.report(PROGRAM);
        return ended(args.run(&report), &report);
    }
    if let Some(Command::Doctor(args)) = &flags.command {
        let report = args.report(PROGRAM);
        let done = args.run(&report);
        return ended(done, &report);
    }
    // Many files may be under way at a time; where it cannot be raised, fewer are.
    let _ = gridftp_data::raise_descriptors();
    let piped = flags.locations.last().is_some_and(|last| last == "-");
    let is_copy = flags.list.is_none() && !flags.partials.is_set();
    let report = Arc::new(match is_copy {
        false => lines(&flags).of_entries(flags.verbose),
        true => lines(&flags)
            .of_copies(flags.verbose, piped)
            .with_explanation(flags.explain)
            .with_stats(flags.stats),
    });
    let status = wait_for(run(&flags, &places, &report), &report);
    ended(status, &report)
}

/// The word of `--complete=WORD`, which the functions of shells ask to complete.
fn word_to_complete() -> Option<OsString> {
    let first = std::env::args_os().nth(1)?;
    let word = first.as_bytes().strip_prefix(b"--complete=")?;
    Some(OsStr::from_bytes(word).to_owned())
}

/// The flags of connections to `dir`, a URL or a place, and its URL.
fn connection_of(dir: &OsStr) -> Option<(ConnectionFlags, OsString)> {
    let words = [OsStr::new(PROGRAM), dir, OsStr::new("-")].map(OsStr::to_owned);
    let mut flags: Flags = settings::parse_silently(words.to_vec())?;
    let url = std::mem::take(flags.locations.first_mut()?);
    Some((flags.connection, url))
}

/// The report in the form that the flags choose.
fn lines(flags: &Flags) -> Report {
    Report::of_lines(PROGRAM, flags.json, flags.quiet).with_debug(flags.debug)
}

async fn run(
    flags: &Flags,
    places: &[PlaceAccess],
    report: &Arc<Report>,
) -> anyhow::Result<Status> {
    flags.check()?;
    let mut accounts = Accounts::new(&flags.connection).with_places(places);
    let mut parse = |text: &OsStr| locate(text, &mut accounts, report);
    if let Some(url) = &flags.list {
        let location = parse(url.as_ref())?;
        let options = flags.copy_options()?;
        let listed = stopped_by_signal(Box::pin(list::run(&location, options, report))).await;
        let ended = |done| finish(done, report, |()| Status::Done);
        return Ok(listed.map_or(Status::Interrupted, ended));
    }
    if flags.partials.is_set() {
        let places = flags.locations.iter().map(|text| parse(text));
        let places = places.collect::<anyhow::Result<Vec<_>>>()?;
        let options = flags.copy_options()?;
        let work = partials::run(&flags.partials, &places, &options, report);
        let told = stopped_by_signal(Box::pin(work)).await;
        return Ok(told.map_or(Status::Interrupted, |done| finish(done, report, |it| it)));
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
    let options = flags.copy_options()?;
    let totals = Arc::new(Totals::default());
    if flags.failed_list.is_some() {
        failed_list::check(&sources)?;
    }
    let (failed, log) = (flags.failed_list.as_deref(), flags.log_file.as_deref());
    let receipts = receipts(flags, &options, report)?;
    let records = Records::open(report, failed, log)?.with_receipts(receipts);
    let records = records.with_fail_fast(flags.fail_fast);
    let records = Arc::new(records.with_dry_run(flags.dry_run));
    let limit = options.connect.rate_limit.clone();
    let work = copy(
        &sources,
        &destination,
        options,
        Arc::clone(&records) as Arc<_>,
        Arc::clone(&totals),
    );
    let shown = async {
        tokio::select! {
            done = work => done,
            () = report.follow(&totals) => unreachable!("it follows until it is dropped"),
            () = keep_to(flags, &limit) => unreachable!("it follows until it is dropped"),
        }
    };
    let Some(done) = stopped_by_signal(Box::pin(shown)).await else {
        let left = left_behind(&destination, flags, totals.unfinished());
        records.break_off(&format!("stopped by a signal; {left}"), None);
        return Ok(Status::Interrupted);
    };
    Ok(end(done, &records))
}

/// Tells the end of a copy, and returns the exit status.
fn end(done: Result<Summary, TransferError>, records: &Records) -> Status {
    match done {
        Ok(summary) => {
            records.end(&summary);
            match summary.failed {
                None if records.has_lost() => Status::Failed,
                failed => failed.map_or(Status::Done, Status::of),
            }
        }
        Err(error) => {
            records.break_off(&error, Some(&error));
            Status::of(error.class())
        }
    }
}

/// Keeps to the rates of the day.
async fn keep_to(flags: &Flags, limit: &Option<RateLimit>) {
    match (&flags.bwlimit, limit) {
        (Some(schedule), Some(limit)) => schedule.follow(limit).await,
        _ => std::future::pending().await,
    }
}

/// The receipts of a copy, signed where this user has a credential.
fn receipts(
    flags: &Flags,
    options: &CopyOptions,
    report: &Report,
) -> anyhow::Result<Option<Receipts>> {
    let Some(path) = &flags.receipt else {
        return Ok(None);
    };
    let signer = match Receipts::signer(&options.connect.grid) {
        Ok(signer) => Some(signer),
        Err(error) if options.connect.grid.credential.is_some() => return Err(error.into()),
        Err(error) => {
            report.event(&Event::Note(&format!("receipts are not signed: {error}")));
            None
        }
    };
    Ok(Some(Receipts::open(path, options, signer)?))
}

/// The remains of a stopped copy at its destination, and their use to the next run of its command.
fn left_behind(destination: &Location, flags: &Flags, unfinished: Unfinished) -> String {
    let is_part = flags.offset.is_some() || flags.length.is_some();
    let state = match destination {
        Location::Remote(_) if is_part && unfinished != Unfinished::default() => {
            "the part of the destination may be replaced only in part"
        }
        Location::Remote(_) => return next_run(unfinished),
        Location::Local(path) if path.is_dir() || !path.exists() => {
            "files not finished are not at their destination names"
        }
        Location::Local(path) if path.is_file() && !is_part => "the destination is as it was",
        Location::Local(path) if path.is_file() => {
            "the part of the destination may be replaced only in part"
        }
        _ => "the output that was written is not all there is",
    };
    let is_whole = matches!(destination, Location::Local(_)) && !is_part;
    match unfinished {
        Unfinished { kept: 1.., .. } => format!("{state}; {}", next_run(unfinished)),
        Unfinished { lost: 1.., .. } if is_whole => format!("{state}; {}", next_run(unfinished)),
        _ => state.to_owned(),
    }
}

/// The use of unfinished files to the next run of the same command.
fn next_run(Unfinished { kept, lost, .. }: Unfinished) -> String {
    let goes_on = "the same command goes on where this one stopped";
    let files = counted(lost, "unfinished file", "unfinished files");
    match (kept, lost) {
        (0, 0) => "no file was under way".to_owned(),
        (_, 0) => goes_on.to_owned(),
        (0, 1) => format!("the bytes of {files} are lost: the same command begins it anew"),
        (0, _) => format!("the bytes of {files} are lost: the same command begins them anew"),
        (_, _) => format!("{goes_on}, but the bytes of {files} are lost"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn variables_have_the_effects_of_flags() {
        let lines = [
            "gridftp-cp a ftp://h/b",
            "gridftp-cp --recursive --delete a ftp://h/b",
            "gridftp-cp --cert own a ftp://h/b",
            "gridftp-cp --list ftp://h/b",
            "gridftp-cp doctor ftp://h/",
            "gridftp-cp doctor --cert own ftp://h/",
            "gridftp-cp proxy init",
            "gridftp-cp proxy info --exists",
            "gridftp-cp proxy destroy",
        ];
        assert_eq!(settings::audit::faults(&Flags::command(), &lines), [""; 0]);
    }

    #[test]
    fn the_next_run_is_told_in_a_line() {
        for ([kept, lost], text) in [
            ([0, 0], "no file was under way"),
            ([9, 0], "the same command goes on where this one stopped"),
            (
                [0, 1],
                "the bytes of 1 unfinished file are lost: the same command begins it anew",
            ),
            (
                [0, 2],
                "the bytes of 2 unfinished files are lost: the same command begins them anew",
            ),
            (
                [1, 1],
                "the same command goes on where this one stopped, but the bytes of 1 unfinished file \
                 are lost",
            ),
        ] {
            let mut unfinished = Unfinished::default();
            (unfinished.kept, unfinished.lost) = (kept, lost);
            assert_eq!(next_run(unfinished), text);
        }
    }

    #[test]
    fn lost_bytes_of_a_download_are_told() {
        let flags = Flags::parse_from(["gridftp-cp", "from", "to"]);
        let to = Location::Local("/no such directory/to".into());
        let mut unfinished = Unfinished::default();
        let state = "files not finished are not at their destination names";
        assert_eq!(left_behind(&to, &flags, unfinished), state);
        unfinished.lost = 1;
        let told = format!("{state}; {}", next_run(unfinished));
        assert_eq!(left_behind(&to, &flags, unfinished), told);
    }
}

//! `gridftp speed`: measures how fast bytes go to a server and come from it, and draws it.

use std::cell::Cell;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueHint;
use ftp_wire::command::Mode;
use ftp_wire::facts::EntryKind;
use gridftp_client::error::TransferError;
use gridftp_client::file::{ReadOptions, WriteOptions};
use gridftp_client::names;
use gridftp_client::program::events::named;
use gridftp_client::program::exit::Status;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::{ended, stopped_by_signal, wait_for};
use gridftp_client::program::values::size;
use indicatif::HumanBytes;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::end::data_error;
use crate::work::{Common, Place, Work};

/// Bytes that are written at once.
const PIECE: usize = 256 * 1024;
/// Steps of a picture.
const STEPS: u32 = 16;
/// Characters of the longest bar.
const BAR: usize = 16;
/// Size of the file of zeros that storage for measurements has.
const ENDLESS: u64 = i64::MAX.unsigned_abs();
/// Longest time for the removal of the file.
const REMOVAL: Duration = Duration::from_secs(10);

/// The options of `gridftp speed`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
The bytes of this end come from memory and go there. At the server they go to a file, which is read \
back and removed, and to memory where it serves storage that holds nothing (--storage null of \
gridftp-server) or the devices /dev/null and /dev/zero.

{}", named(&["speed", "skip"])))]
pub(crate) struct SpeedArgs {
    /// A directory at the server
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    place: OsString,

    /// Longest time of one measurement
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Most bytes of the file at the server; K, M and G are accepted
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size)]
    size: u64,

    /// Data connections, in MODE E [default: one, in MODE S]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parallel: Option<u32>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The state of all measurements.
struct Run<'a> {
    args: &'a SpeedArgs,
    /// The file at the server.
    file: Place,
    /// Whether it may be there.
    made: Cell<bool>,
    /// Whether a signal asks to stop.
    stop: Cell<bool>,
}

/// One measurement.
struct Measured {
    course: Course,
    bytes: u64,
    took: Duration,
    samples: Vec<u64>,
}

/// The way of the bytes: direction, source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    UpToMemory,
    DownFromMemory,
    UpToDisk,
    DownFromDisk,
}

impl Course {
    const fn words(self) -> [&'static str; 3] {
        match self {
            Self::UpToMemory => ["up", "memory", "memory"],
            Self::DownFromMemory => ["down", "memory", "memory"],
            Self::UpToDisk => ["up", "memory", "disk"],
            Self::DownFromDisk => ["down", "disk", "memory"],
        }
    }
}

/// Counts bytes as they pass.
struct Meter<'a> {
    run: &'a Run<'a>,
    begun: Instant,
    bytes: u64,
    /// The bytes so far, and the time.
    marks: Vec<(Duration, u64)>,
}

impl<'a> Meter<'a> {
    fn new(run: &'a Run<'a>) -> Self {
        Self {
            run,
            begun: Instant::now(),
            bytes: 0,
            marks: Vec::new(),
        }
    }

    /// Counts a piece; says whether there is time for more.
    fn count(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        let now = self.begun.elapsed();
        let before = self.marks.last().map_or(Duration::ZERO, |mark| mark.0);
        if now - before >= Duration::from_millis(5) {
            self.marks.push((now, self.bytes));
        }
        now < Duration::from_secs(self.run.args.seconds) && !self.run.stop.get()
    }

    fn end(mut self, course: Course) -> Measured {
        let took = self.begun.elapsed();
        self.marks.push((took, self.bytes));
        Measured {
            course,
            bytes: self.bytes,
            took,
            samples: samples(&self.marks, took),
        }
    }
}

/// The rates in equal parts of the time, in bytes a second.
fn samples(marks: &[(Duration, u64)], took: Duration) -> Vec<u64> {
    let part = took / STEPS;
    let mut before = 0;
    let rates = (1..=STEPS).map(|step| {
        // The number of bytes at the end of the part lies on the line between two marks.
        let at = part * step;
        let behind = marks.iter().find(|(time, _)| *time >= at);
        let ahead = marks.iter().rev().find(|(time, _)| *time < at);
        let (from, low) = ahead.copied().unwrap_or_default();
        let (to, high) = behind.or_else(|| marks.last()).copied().unwrap_or_default();
        let span = (to.saturating_sub(from)).as_nanos().max(1);
        let share = u128::from(high - low) * at.saturating_sub(from).as_nanos().min(span) / span;
        let bytes = low + u64::try_from(share).unwrap_or(0);
        let rate = per_second(bytes.saturating_sub(before), part);
        before = bytes;
        rate
    });
    rates.collect()
}

fn per_second(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / took.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Measures, and returns the exit status.
pub(crate) fn run(args: &SpeedArgs) -> ExitCode {
    let report = Arc::new(args.common.report());
    let work = async {
        let mut work = Work::with(&args.common, &report, |options| {
            options.mode = args.parallel.map(|_| Mode::Extended);
        })?;
        let place = work.remote(&args.place)?;
        let name = format!(".gridftp-speed-{:016x}", RandomState::new().hash_one(0));
        let run = Run {
            args,
            file: place.with_path(names::join(&place.path, name.as_bytes())),
            made: Cell::new(false),
            stop: Cell::new(false),
        };
        let mut all = Box::pin(measure_all(&run, &mut work, &place));
        let done = stopped_by_signal(&mut all).await;
        if done.is_none() {
            // A file that ends early can be removed at once, one that breaks off later only.
            run.stop.set(true);
            let _second = tokio::time::timeout(REMOVAL, stopped_by_signal(all)).await;
        } else {
            drop(all);
        }
        if run.made.get() {
            let removed = tokio::time::timeout(REMOVAL, Box::pin(remove(&work, &run.file))).await;
            if !matches!(removed, Ok(Ok(()))) {
                let url = run.file.url();
                report.warn(&format!("{url}: it may be left behind, remove it"));
            }
        }
        let Some(measured) = done else {
            report.fatal(&"stopped by a signal", None);
            return Ok(Status::Interrupted);
        };
        match measured {
            Ok(measured) => tell(&measured, &report),
            Err(error) => work.fail(&place, &error),
        }
        Ok(work.end().await)
    };
    ended(wait_for(work, &report), &report)
}

/// Removes the file, and the part that a server keeps of an upload that broke off.
async fn remove(work: &Work<'_>, file: &Place) -> Result<(), TransferError> {
    let mut end = work.another(file);
    let client = end.client().await?;
    if client.abilities().held {
        let line = [b"SITE DELHELD ", file.path.as_slice()].concat();
        // There is none as a rule.
        let _none = client.raw(&line).await;
    }
    if client.exists(&file.path).await? {
        client.remove(&file.path).await?;
    }
    end.close().await;
    Ok(())
}

async fn measure_all(
    run: &Run<'_>,
    work: &mut Work<'_>,
    place: &Place,
) -> Result<Vec<Measured>, TransferError> {
    let root = work.at(place).await.stat(&place.path).await?;
    if !root.entry.kind.is_dir() {
        let what = "is no directory";
        return Err(crate::change::source(place, what, "name the one it is in"));
    }
    let is_void = async |work: &mut Work<'_>, path: &[u8]| {
        let found = work.at(place).await.stat(path).await;
        found
            .is_ok_and(|found| found.entry.kind == EntryKind::Char || found.size() == Some(ENDLESS))
    };
    let zeros = names::join(&place.path, b"zero");
    let own = is_void(work, &zeros).await;
    let (zeros, void) = match own {
        true => (zeros, names::join(&place.path, b"null")),
        false => (b"/dev/zero".to_vec(), b"/dev/null".to_vec()),
    };
    let mut measured = Vec::new();
    let none = "the server has no storage that holds nothing, and no such device";
    if own || is_void(work, &void).await {
        let limit = u64::MAX;
        let up = upload(
            run,
            work,
            &place.with_path(void),
            (Course::UpToMemory, limit),
        )
        .await;
        keep(work, Course::UpToMemory, up, &mut measured);
    } else {
        skip(work, Course::UpToMemory, none);
    }
    if own || is_void(work, &zeros).await {
        let zeros = place.with_path(zeros);
        let down = download(run, work, &zeros, Course::DownFromMemory).await;
        keep(work, Course::DownFromMemory, down, &mut measured);
    } else {
        skip(work, Course::DownFromMemory, none);
    }
    if own {
        let none = "the server stores nothing";
        skip(work, Course::UpToDisk, none);
        skip(work, Course::DownFromDisk, none);
        return Ok(measured);
    }
    run.made.set(true);
    measured.push(upload(run, work, &run.file, (Course::UpToDisk, run.args.size)).await?);
    measured.push(download(run, work, &run.file, Course::DownFromDisk).await?);
    Ok(measured)
}

/// Keeps a measurement; one that the server refuses is left out.
fn keep(
    work: &Work<'_>,
    course: Course,
    done: Result<Measured, TransferError>,
    measured: &mut Vec<Measured>,
) {
    match done {
        Ok(one) => measured.push(one),
        Err(error) => skip(work, course, &error.to_string()),
    }
}

fn skip(work: &Work<'_>, course: Course, why: &str) {
    let [direction, from, to] = course.words();
    if work.report.is_json() {
        return work.report.emit(&json!({
            "event": "skip", "direction": direction, "from": from, "to": to, "why": why,
        }));
    }
    if !work.report.is_quiet() {
        let text = format!("{direction}, {from} to {to}: left out, {why}");
        work.report.warned(&text);
    }
}

async fn upload(
    run: &Run<'_>,
    work: &mut Work<'_>,
    place: &Place,
    (course, most): (Course, u64),
) -> Result<Measured, TransferError> {
    let end = work.at(place).await;
    let mut options = WriteOptions::default();
    options.streams = run.args.parallel.unwrap_or(1);
    let failed = |error| data_error(&place.path, error);
    let client = end.take().await?;
    let mut writer = client.into_writer(place.path.clone(), options);
    writer.begin().await.map_err(failed)?;
    // Bytes that no layer can compress.
    let random = RandomState::new();
    let words = (0..PIECE / 8).flat_map(|word| random.hash_one(word).to_ne_bytes());
    let piece: Vec<u8> = words.collect();
    let mut meter = Meter::new(run);
    while meter.bytes < most {
        let left = usize::try_from(most - meter.bytes).unwrap_or(usize::MAX);
        let piece = piece.get(..left).unwrap_or(&piece);
        writer.write_all(piece).await.map_err(failed)?;
        if !meter.count(piece.len()) {
            break;
        }
    }
    match writer.finish().await.map_err(failed) {
        Ok(client) => work.at(place).await.keep(Some(client)),
        // Bytes that are discarded make no file of their size.
        Err(TransferError::Size { .. }) if course == Course::UpToMemory => {}
        Err(error) => return Err(error),
    }
    Ok(meter.end(course))
}

async fn download(
    run: &Run<'_>,
    work: &mut Work<'_>,
    place: &Place,
    course: Course,
) -> Result<Measured, TransferError> {
    let mut options = ReadOptions::default();
    options.streams = run.args.parallel.unwrap_or(1);
    let end = work.at(place).await;
    let mut reader = end.reader(&place.path, options).await?;
    let mut meter = Meter::new(run);
    let read = loop {
        match reader.piece().await {
            Ok(piece) if piece.is_empty() => break Ok(()),
            Ok(piece) if meter.count(piece.len()) => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(data_error(&place.path, error)),
        }
    };
    let measured = meter.end(course);
    end.keep(reader.stop().await);
    read.map(|()| measured)
}

/// Tells the measurements: as a bar each, beside the course of its rate.
fn tell(all: &[Measured], report: &Report) {
    let rate = |one: &Measured| per_second(one.bytes, one.took);
    let fastest = all.iter().map(rate).max().unwrap_or(0);
    for one in all {
        let [direction, from, to] = one.course.words();
        let rate = rate(one);
        if report.is_json() {
            report.emit(&json!({
                "event": "speed", "direction": direction, "from": from, "to": to,
                "bytes": one.bytes, "seconds": one.took.as_secs_f64(),
                "bytes_per_second": rate, "samples": one.samples,
            }));
            continue;
        }
        let length = share(rate, fastest, BAR);
        let bar = "█".repeat(length) + &" ".repeat(BAR - length);
        let (picture, rate) = (picture(&one.samples), HumanBytes(rate).to_string());
        report.out(&format!(
            "{direction:<5} {from:>6} to {to:<6} {rate:>12}/s  {bar}  {picture}"
        ));
    }
}

/// The part of `steps` that `rate` is of the highest, at least one for any.
fn share(rate: u64, highest: u64, steps: usize) -> usize {
    let all = u128::from(rate) * steps as u128;
    let part = all.div_ceil(u128::from(highest.max(1)));
    usize::try_from(part).unwrap_or(steps).min(steps)
}

/// The course of a rate in blocks of eight heights.
fn picture(samples: &[u64]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = samples.iter().copied().max().unwrap_or(0);
    let height = |rate| HEIGHTS.get(share(rate, highest, HEIGHTS.len() - 1));
    samples.iter().filter_map(|rate| height(*rate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_lie_between_marks() {
        let second = Duration::from_secs(1);
        let steady = samples(&[(second * 8, 800), (second * 16, 1600)], second * 16);
        assert_eq!(steady, [100; 16]);
        let late = samples(&[(second * 8, 0), (second * 16, 1600)], second * 16);
        assert_eq!(late.split_at(8), (&[0; 8][..], &[200; 8][..]));
        assert_eq!(picture(&late), "        ████████");
        assert_eq!(samples(&[(Duration::ZERO, 0)], Duration::ZERO), [0; 16]);
    }

    #[test]
    fn a_small_rate_shows() {
        assert_eq!(
            [share(1, 1000, 16), share(1000, 1000, 16), share(0, 0, 16)],
            [1, 16, 0]
        );
    }
}

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
use ftp_wire::memory::MemoryLimits;
use gridftp_client::error::TransferError;
use gridftp_client::file::{ReadOptions, WriteFrom, WriteOptions};
use gridftp_client::names;
use gridftp_client::program::events::named;
use gridftp_client::program::exit::Status;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::{ended, stopped_by_signal, wait_for};
use gridftp_client::program::values::{size, time};
use indicatif::HumanBytes;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::end::data_error;
use crate::rates::{per_second, picture, samples, share};
use crate::work::{Common, Place, Work};

/// Bytes that are written at once.
const PIECE: usize = 256 * 1024;
/// Characters of the longest bar.
const BAR: usize = 16;
/// Size of the file of zeros that storage for measurements has.
const ENDLESS: u64 = i64::MAX.unsigned_abs();
/// Time for the data that is under way when the server ends a download.
const GRACE: Duration = Duration::from_secs(5);
/// The reason why a server cannot be measured memory to memory.
const NO_VOID: &str =
    "the server has no MEMORY in FEAT, no storage that holds nothing and no such device";
/// Longest time for the removal of the file.
const REMOVAL: Duration = Duration::from_secs(10);

/// The options of `gridftp speed`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
The bytes of this end come from memory and go there. At the server they go to a file, which is read \
back and removed, and to its memory: gridftp-server has that for everyone, for as long as its \
--max-measurement allows (MEMORY in FEAT); others need storage that holds nothing, or serve the \
devices /dev/null and /dev/zero. Each line ends with the means of the server: memory, storage, device \
or file.

{}", named(&["speed", "skip"])))]
pub(crate) struct SpeedArgs {
    /// A directory at the server
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    place: OsString,

    /// Longest time of one measurement, in seconds, or as 90s or 2m
    #[arg(long, value_name = "TIME", default_value = "5", value_parser = time(1..=3600))]
    seconds: Duration,

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

/// The way of one measurement.
struct Way {
    course: Course,
    /// The means of the server.
    by: &'static str,
    place: Place,
    /// Its module of `ERET` or `ESTO`.
    module: Option<String>,
    /// Most bytes that are sent.
    bytes: u64,
    /// Longest time.
    time: Duration,
}

impl Run<'_> {
    /// The way of a file.
    fn way(&self, course: Course, by: &'static str, place: Place) -> Way {
        Way {
            course,
            by,
            place,
            module: None,
            bytes: match course {
                Course::UpToDisk => self.args.size,
                _ => u64::MAX,
            },
            time: self.args.seconds,
        }
    }

    /// The way of the server's memory.
    fn memory_way(&self, course: Course, place: &Place, most: MemoryLimits) -> Way {
        let most = most.within(MemoryLimits::new(u64::MAX, self.args.seconds.as_secs()));
        let mut time = Duration::from_secs(most.seconds);
        if course == Course::DownFromMemory {
            // The server ends it, and keeps the session.
            time += GRACE;
        }
        Way {
            module: Some(most.call()),
            bytes: most.bytes,
            time,
            ..self.way(course, "memory", place.clone())
        }
    }
}

/// One measurement.
struct Measured {
    course: Course,
    by: &'static str,
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
    way: &'a Way,
    begun: Instant,
    bytes: u64,
    /// The bytes so far, and the time.
    marks: Vec<(Duration, u64)>,
}

impl<'a> Meter<'a> {
    fn new(run: &'a Run<'a>, way: &'a Way) -> Self {
        Self {
            run,
            way,
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
        now < self.way.time && !self.run.stop.get()
    }

    fn end(mut self) -> Measured {
        let took = self.begun.elapsed();
        self.marks.push((took, self.bytes));
        Measured {
            course: self.way.course,
            by: self.way.by,
            bytes: self.bytes,
            took,
            samples: samples(&self.marks, took),
        }
    }
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
    let own = is_void(work, place, &names::join(&place.path, b"zero")).await;
    let limits = work.at(place).await.client().await?.abilities().memory;
    if let Some(most) = limits.filter(|most| most.seconds < run.args.seconds.as_secs()) {
        let text = format!("the server measures for {} s at most", most.seconds);
        work.report.warn(&text);
    }
    let mut measured = Vec::new();
    for course in [Course::UpToMemory, Course::DownFromMemory] {
        let way = match limits {
            Some(most) => Some(run.memory_way(course, place, most)),
            None => void_way(run, work, place, course, own).await,
        };
        let Some(way) = way else {
            skip(work, course, NO_VOID);
            continue;
        };
        match measure(run, work, &way).await {
            Ok(one) => measured.push(one),
            // One that the server refuses is left out.
            Err(error) => skip(work, course, &error.to_string()),
        }
    }
    if own {
        let none = "the server stores nothing";
        skip(work, Course::UpToDisk, none);
        skip(work, Course::DownFromDisk, none);
        return Ok(measured);
    }
    run.made.set(true);
    for course in [Course::UpToDisk, Course::DownFromDisk] {
        let way = run.way(course, "file", run.file.clone());
        measured.push(measure(run, work, &way).await?);
    }
    Ok(measured)
}

/// Says whether a file holds nothing: a device, or one of storage for measurements.
async fn is_void(work: &mut Work<'_>, place: &Place, path: &[u8]) -> bool {
    let found = work.at(place).await.stat(path).await;
    found.is_ok_and(|found| found.entry.kind == EntryKind::Char || found.size() == Some(ENDLESS))
}

/// The way of a file that holds nothing: one of storage for measurements where it is the server's
/// `own`, else a device.
async fn void_way(
    run: &Run<'_>,
    work: &mut Work<'_>,
    place: &Place,
    course: Course,
    own: bool,
) -> Option<Way> {
    let name = match course {
        Course::UpToMemory => "null",
        _ => "zero",
    };
    if own {
        let path = names::join(&place.path, name.as_bytes());
        return Some(run.way(course, "storage", place.with_path(path)));
    }
    let path = format!("/dev/{name}").into_bytes();
    let is_there = is_void(work, place, &path).await;
    is_there.then(|| run.way(course, "device", place.with_path(path)))
}

async fn measure(run: &Run<'_>, work: &mut Work<'_>, way: &Way) -> Result<Measured, TransferError> {
    match way.course {
        Course::UpToMemory | Course::UpToDisk => upload(run, work, way).await,
        Course::DownFromMemory | Course::DownFromDisk => download(run, work, way).await,
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

async fn upload(run: &Run<'_>, work: &mut Work<'_>, way: &Way) -> Result<Measured, TransferError> {
    let place = &way.place;
    let end = work.at(place).await;
    let mut options = WriteOptions::default();
    options.streams = run.args.parallel.unwrap_or(1);
    if let Some(module) = &way.module {
        options.from = WriteFrom::Module(module.clone());
    }
    let failed = |error| data_error(&place.path, error);
    let client = end.take().await?;
    let mut writer = client.into_writer(place.path.clone(), options);
    writer.begin().await.map_err(failed)?;
    // Bytes that no layer can compress.
    let random = RandomState::new();
    let words = (0..PIECE / 8).flat_map(|word| random.hash_one(word).to_ne_bytes());
    let piece: Vec<u8> = words.collect();
    let mut meter = Meter::new(run, way);
    while meter.bytes < way.bytes {
        let left = usize::try_from(way.bytes - meter.bytes).unwrap_or(usize::MAX);
        let piece = piece.get(..left).unwrap_or(&piece);
        writer.write_all(piece).await.map_err(failed)?;
        if !meter.count(piece.len()) {
            break;
        }
    }
    match writer.finish().await.map_err(failed) {
        Ok(client) => work.at(place).await.keep(Some(client)),
        // Bytes that are discarded make no file of their size.
        Err(TransferError::Size { .. }) if way.course == Course::UpToMemory => {}
        Err(error) => return Err(error),
    }
    Ok(meter.end())
}

async fn download(
    run: &Run<'_>,
    work: &mut Work<'_>,
    way: &Way,
) -> Result<Measured, TransferError> {
    let place = &way.place;
    let mut options = ReadOptions::default();
    options.streams = run.args.parallel.unwrap_or(1);
    options.module.clone_from(&way.module);
    let end = work.at(place).await;
    let mut reader = end.reader(&place.path, options).await?;
    let mut meter = Meter::new(run, way);
    let read = loop {
        match reader.piece().await {
            Ok(piece) if piece.is_empty() => break Ok(()),
            Ok(piece) if meter.count(piece.len()) => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(data_error(&place.path, error)),
        }
    };
    let measured = meter.end();
    end.keep(reader.stop().await);
    read.map(|()| measured)
}

/// Tells the measurements: as a bar each, beside the course of its rate.
fn tell(all: &[Measured], report: &Report) {
    let rate = |one: &Measured| per_second(one.bytes, one.took);
    let fastest = all.iter().map(rate).max().unwrap_or(0);
    for one in all {
        let [direction, from, to] = one.course.words();
        let (rate, by) = (rate(one), one.by);
        if report.is_json() {
            report.emit(&json!({
                "event": "speed", "direction": direction, "from": from, "to": to,
                "by": one.by, "bytes": one.bytes, "seconds": one.took.as_secs_f64(),
                "bytes_per_second": rate, "samples": one.samples,
            }));
            continue;
        }
        let length = share(rate, fastest, BAR);
        let bar = "█".repeat(length) + &" ".repeat(BAR - length);
        let (picture, rate) = (picture(&one.samples), HumanBytes(rate).to_string());
        report.out(&format!(
            "{direction:<5} {from:>6} to {to:<6} {rate:>12}/s  {bar}  {picture}  {by}"
        ));
    }
}

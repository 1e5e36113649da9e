//! `Tuning`: the streams of a file and the files at once, chosen while a copy runs.
//!
//! A path of [`NEAR`](super::widths::NEAR) or more is measured in periods. The [`Climber`] takes them and asks for a
//! setting; the channels of the next files take its streams, and the engine starts and ends
//! connections to have its files at once. The setting that served best is kept for the next run.

mod bounds;
mod climb;
mod distance;
mod measure;
mod memory;
mod over_udt;
mod polite;
mod run;
mod udt;
mod widened;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ftp_wire::command::Mode;
use gridftp_data::Watch;
use tokio::sync::Notify;

use self::bounds::{Bounds, Setting};
use self::climb::{Climber, Period};
use self::distance::RoundTrip;
use self::measure::Meter;
use self::over_udt::InForce;
use self::polite::Polite;
use self::udt::UdtStep;
use self::widened::Widened;
pub(super) use self::worker::Worker;
use super::lock;
use super::queue::Queue;
use super::window::Bound;
use crate::explain::Way;
use crate::options::{CopyOptions, RateLimit};
use crate::stripes::Width;

/// Streams of a large file on a long path of which nothing is known.
const STREAMS: u32 = 4;
/// Streams of a file at most.
pub(super) const MOST_STREAMS: u32 = 16;
/// Files at once at most in MODE E, and in MODE S; servers count the sessions of an address.
const MOST_FILES: (u32, u32) = (16, 32);
/// Data connections of all files at most.
const MOST_CONNECTIONS: u32 = 32;
/// A period of data that passes this machine, and of data between servers, whose markers come every
/// few seconds.
const PERIOD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Cost of a file beside that of its bytes, in bytes.
const FILE: u64 = 64 << 10;

/// The way of the data of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) round_trip: Duration,
    pub(super) mode: Mode,
    /// Whether data goes between two servers, so that only their markers tell of it.
    pub(super) is_between: bool,
    /// Whether the round trips of the data are known here: the sender of data between two servers may
    /// not tell them.
    pub(super) tells: bool,
    /// Whether the rate of the data can be bounded.
    pub(super) limits: bool,
    /// Files at once at most by the rules, which hold before the first measurement.
    pub(super) files: u32,
    /// Data connections of a file at most, where a server tells that.
    pub(super) connections: Option<u32>,
    /// Whether data may go over UDT instead.
    pub(super) over_udt: bool,
}

/// The setting of a copy, and the channels that have it.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    state: Mutex<State>,
    changed: Notify,
    /// Bytes that may be under way on a connection, for as many commands ahead as the path needs.
    pub(crate) under_way: Bound,
    in_force: Mutex<InForce>,
}

#[derive(Debug, Default)]
struct State {
    run: Option<Run>,
    /// The connections of each channel with transfers; `None` where they are no choice.
    channels: Vec<Option<Width>>,
    /// Whether a channel came or went in this period.
    is_stirred: bool,
    /// Workers with a session, and those on the way to one.
    working: u32,
    connecting: u32,
    /// Workers whose pipelines end so that they can leave.
    draining: u32,
    /// Files at once; `None` leaves them to the rules.
    files: Option<u32>,
}

/// The data and the ends of files, of a copy so far or of a period.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    bytes: u64,
    files: u64,
}

impl Moved {
    fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            files: self.files.saturating_sub(before.files),
        }
    }

    /// The bytes, with the cost of the files.
    fn cost(self) -> u64 {
        self.bytes.saturating_add(self.files.saturating_mul(FILE))
    }
}

/// The state of a copy that is measured.
#[derive(Debug)]
struct Run {
    climber: Climber,
    /// The connections of a file that was widened alone.
    widened: Widened,
    polite: Option<Polite>,
    meter: Meter,
    bounds: Bounds,
    /// Whether the numbers are chosen, and not only measured to be polite.
    climbs: bool,
    udt: UdtStep,
    /// Whether the senders or the receivers of the last period have found their path lossy.
    is_lossy: bool,
    /// Transfers with data under way at the end of the last period.
    moving: u32,
    /// Whether all data went over the stack of the caller.
    is_over_one_stack: bool,
    /// Whether the files at once are those of an earlier run, or all that a server takes.
    is_known: bool,
    /// The settings of earlier runs, of small files and of large ones, until files are under way.
    known: [Option<Setting>; 2],
}

/// A channel with transfers.
#[derive(Debug)]
pub(crate) struct Channel<'a> {
    tuning: &'a Tuning,
    width: Option<Width>,
}

impl Tuning {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Channels with transfers.
    fn channels(&self) -> u32 {
        self.state().channels()
    }

    /// The streams of the next large file on a long path.
    pub(crate) fn streams(&self) -> u32 {
        let state = self.state();
        let asked = state.run.as_ref().map(|run| run.climber.streams());
        asked.unwrap_or(STREAMS)
    }

    /// Files at once; `None` leaves them to the rules.
    pub(super) fn files(&self) -> Option<u32> {
        self.state().files
    }

    /// Files at once at most, where the rules allow so many.
    pub(crate) fn most_files(&self, rules: u32) -> u32 {
        let state = self.state();
        let most = state.run.as_ref().map(|run| run.bounds.most.files);
        most.map_or(rules, |most| most.max(rules))
    }

    /// Counts a channel in until the result is dropped; `width` where its streams are a choice.
    pub(crate) fn channel(&self, width: Option<Width>) -> Channel<'_> {
        let mut state = self.state();
        state.channels.push(width);
        state.is_stirred = true;
        Channel {
            tuning: self,
            width,
        }
    }

    /// Says whether the pipeline that asks is to end, so that its worker can leave.
    pub(crate) fn drains(&self) -> bool {
        self.state().drains()
    }

    /// Waits until more files at once are wanted than there are connections, and one waits.
    pub(super) async fn lacks(&self, queue: &Queue) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().lacks() && queue.has_files() {
                return;
            }
            changed.await;
        }
    }

    /// Notes that a server takes no further connection.
    pub(super) fn note_refused(&self) {
        let mut state = self.state();
        if !state.lacks() {
            return;
        }
        let most = state.workers().max(1);
        state.files = Some(most);
        if let Some(run) = &mut state.run {
            run.is_known = true;
            run.refuse(most);
        }
    }

    /// Whether the senders of the copy are measured.
    pub(super) fn measures(&self) -> bool {
        self.state().run.is_some()
    }

    /// Notes a transfer whose path is to be measured.
    pub(super) fn note(&self, watch: &Arc<Watch>, way: Way) {
        if let Some(run) = &mut self.state().run {
            run.meter.note(watch, way);
        }
    }

    /// Notes the end of a transfer.
    pub(super) fn note_end(&self, watch: &Watch) {
        if let Some(run) = &mut self.state().run {
            run.meter.end(watch);
        }
    }
}

impl State {
    fn channels(&self) -> u32 {
        u32::try_from(self.channels.len()).unwrap_or(u32::MAX)
    }

    fn lacks(&self) -> bool {
        self.files.is_some_and(|files| self.workers() < files)
    }

    /// The setting in force; no number of files where channels came or went.
    fn in_force(&self) -> Setting {
        let mut streams = self.channels.iter().flatten().map(|width| width.streams);
        let first = streams.next().unwrap_or(1);
        let files = match self.is_stirred {
            true => 0,
            false => self.channels(),
        };
        Setting {
            streams: if streams.all(|other| other == first) {
                first
            } else {
                0
            },
            files,
        }
    }
}

impl State {
    /// Takes a period; gives the setting that is asked for where it is another.
    fn take(
        &mut self,
        took: Duration,
        moved: Moved,
        waits: bool,
        options: &CopyOptions,
    ) -> Option<Setting> {
        let mut in_force = self.in_force();
        self.is_stirred = false;
        let has_streams = self.channels.iter().any(Option::is_some);
        let channels = self.channels();
        let run = self.run.as_mut()?;
        let path = run.meter.take(took);
        (run.is_lossy, run.moving) = (path.is_lossy, path.moving);
        let before = run.climber.asked();
        if channels > 0 {
            run.start(has_streams);
        }
        let now = Setting {
            streams: in_force.streams.max(1),
            files: channels.max(1),
        };
        let limit = options.connect.rate_limit.as_ref();
        let yields = run.be_polite(&path.round_trips, per_second(moved.bytes, took), now, limit);
        if options.concurrency.is_some() {
            in_force.files = run.climber.asked().files;
        }
        // The last files: connections without one wait for those of others.
        let is_end = !waits && channels != 1;
        // Its sender finds the number of its connections, and meanwhile nothing compares.
        let is_widened = matches!(*self.channels, [Some(width)] if width.widens());
        if let (true, Some(streams)) = (is_widened, path.carrying) {
            let round_trip = path.round_trips.iter().map(|(longest, _)| *longest).max();
            run.widened.note(streams, took, moved, round_trip);
        }
        if run.climbs && !is_end && !is_widened {
            let refused = run.climber.handle(&Period {
                took,
                bytes: moved.cost(),
                in_force,
                has_streams,
                waits,
                sender: path.sender,
            });
            if let Some(most) = refused {
                run.refuse(most);
            }
        }
        let asked = run.climber.asked();
        let is_known = run.is_known || run.climber.best().is_some();
        self.files = match yields {
            _ if options.concurrency.is_some() => None,
            Some(most) if !run.climbs || !is_known => Some(most),
            None if !run.climbs => None,
            _ => is_known.then_some(asked.files),
        };
        (asked != before).then_some(asked)
    }
}

impl Run {
    /// Takes the setting of an earlier run, once files are under way.
    fn start(&mut self, has_streams: bool) {
        let known = std::mem::take(&mut self.known);
        if let Some(known) = known.get(usize::from(has_streams)).copied().flatten() {
            self.climber = Climber::new(known, self.bounds);
            self.is_known = true;
        }
    }

    /// Keeps to the most files at once that a server takes.
    fn refuse(&mut self, most: u32) {
        self.bounds.refuse(most);
        let bounds = match &mut self.polite {
            Some(polite) => {
                polite.refuse(most);
                polite.bounds()
            }
            None => self.bounds,
        };
        self.climber.bound(bounds);
    }

    /// Leaves the path to others where its round trip says so; gives the most files at once then.
    fn be_polite(
        &mut self,
        round_trips: &[RoundTrip],
        rate: f64,
        now: Setting,
        limit: Option<&RateLimit>,
    ) -> Option<u32> {
        let polite = self.polite.as_mut()?;
        let before = polite.bounds();
        polite.handle(round_trips, rate, now);
        if polite.bounds() != before {
            self.climber.bound(polite.bounds());
        }
        if let Some(limit) = limit {
            limit.yield_to(polite.rate());
        }
        let most = polite.bounds().most.files;
        (most < self.bounds.most.files).then_some(most)
    }
}

impl Drop for Channel<'_> {
    fn drop(&mut self) {
        let mut state = self.tuning.state();
        let at = state.channels.iter().position(|one| *one == self.width);
        if let Some(at) = at {
            state.channels.swap_remove(at);
        }
        state.is_stirred = true;
    }
}

/// The bounds of a copy on this route.
fn bounds(options: &CopyOptions, route: Route) -> Bounds {
    let extended = route.mode == Mode::Extended;
    let most = match extended {
        true => (MOST_STREAMS, MOST_FILES.0),
        false => (1, MOST_FILES.1),
    };
    let one = Setting {
        streams: 1,
        files: 1,
    };
    let mut bounds = Bounds {
        least: one,
        most: Setting {
            streams: most.0.min(route.connections.unwrap_or(u32::MAX)).max(1),
            files: most.1.max(route.files),
        },
        connections: MOST_CONNECTIONS,
    };
    if let Some(streams) = options.parallel.filter(|_| extended) {
        (bounds.least.streams, bounds.most.streams) = (streams, streams);
    }
    if let Some(files) = options.concurrency {
        (bounds.least.files, bounds.most.files) = (files, files);
    }
    for setting in [&mut bounds.least, &mut bounds.most] {
        setting.streams = options.hold_streams(setting.streams);
        setting.files = options.hold_files(setting.files);
    }
    // Those of the caller and of the rules are in force before any other.
    let streams = if extended { STREAMS } else { 1 };
    let streams = options.parallel.filter(|_| extended).unwrap_or(streams);
    let files = options.concurrency.unwrap_or(route.files);
    bounds.connections = bounds.connections.max(streams.saturating_mul(files));
    bounds
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-3)
}

#[cfg(test)]
mod tests;

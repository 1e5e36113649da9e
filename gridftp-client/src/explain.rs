//! `Explanation`: where the time of a copy went, and the one change that would help most.
//!
//! Each 20 ms the stages of all running transfers are sampled, so that long and short ones count by
//! their time. The wait for the network is divided by the kernel's times of the sender, where that is
//! TCP, and by the work of the server's storage, where the server tells both.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ftp_wire::waits::Waits;
use gridftp_data::{Stage, Watch};
use xio_core::PathStats;

use self::bounded::Bounded;
pub use self::cause::Cause;
use crate::rate_limit::RateLimit;

mod bounded;
mod cause;

/// Time between two samples.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Fewest samples of an explanation: one second.
const LEAST: u64 = 50;

/// Part of the segments that are sent again on a path that loses some: one in ten thousand.
const LOSS: f64 = 1e-4;

/// The direction of a transfer's data, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Download,
    Upload,
    /// From one server to another, of which this end sees the replies alone.
    Between,
}

/// The part of a server in transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Sender,
    Receiver,
}

/// The shares of the time of a copy.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// Causes with their shares of the time, which sum to 1, the largest first.
    pub shares: Vec<(Cause, f64)>,
    /// The kernel's measurements of what this end sent, or else of what the server sent.
    pub path: Option<PathStats>,
    /// Whether [`CopyOptions::max_parallel`](field@crate::CopyOptions::max_parallel) was reached.
    pub streams_bound: bool,
    /// Whether [`CopyOptions::max_concurrency`](field@crate::CopyOptions::max_concurrency) was reached.
    pub files_bound: bool,
}

/// The numbers that served a copy best, as far as they were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuned {
    /// Data connections of a large file; `None` where there were small ones.
    pub streams: Option<u32>,
    /// Files at once.
    pub files: u32,
    /// Bytes a second with them.
    pub rate: u64,
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            streams,
            files,
            rate,
        } = self;
        f.write_str("served best:")?;
        if let Some(streams) = streams {
            write!(f, " --parallel {streams}")?;
        }
        let rate = rate / 1000;
        write!(f, " --concurrency {files}, {rate} kB/s")
    }
}

/// Samples of a copy.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<State>);

/// Numbers of samples; each is shared by the transfers that moved data then.
#[derive(Debug, Default)]
struct State {
    running: Vec<(Weak<Watch>, Way)>,
    /// Whether any transfer was of this end.
    any: bool,
    bounded: Bounded,
    all: u64,
    /// Those with data under way.
    moving: u64,
    hashing: f64,
    ending: f64,
    down: Here,
    up: Here,
    /// The connections of uploads that waited for the network.
    sending: f64,
    path: Option<PathStats>,
    /// The waits that the sending and the receiving server have told.
    told: [Option<Waits>; 2],
    /// Whether the caller's bounds of streams and of files at once were reached.
    reached: [bool; 2],
}

/// The samples of the transfers of this end in one direction.
#[derive(Debug, Default)]
struct Here {
    storage: f64,
    digests: f64,
    peer: f64,
}

impl Samples {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Explains by this bound, where it is reached.
    pub(crate) fn limit(&self, limit: Option<RateLimit>) {
        self.state().bounded.limit = limit;
    }

    /// Notes that the caller's bounds of streams or of files at once are reached.
    pub(crate) fn reach(&self, [streams, files]: [bool; 2]) {
        let [of_streams, of_files] = &mut self.state().reached;
        *of_streams |= streams;
        *of_files |= files;
    }

    /// Whether the caller's bounds of streams and of files at once were reached.
    #[cfg(test)]
    pub(crate) fn reached(&self) -> [bool; 2] {
        self.state().reached
    }

    /// Samples a transfer until its watch is dropped.
    pub(crate) fn begin(&self, watch: &Arc<Watch>, way: Way) {
        watch.measure();
        let mut state = self.state();
        state.running.push((Arc::downgrade(watch), way));
        state.any |= way != Way::Between;
    }

    /// Adds the path of a transfer whose data is through.
    pub(crate) fn end(&self, watch: &Watch) {
        if let Some(path) = watch.path() {
            let mut state = self.state();
            state.path = Some(state.path.map_or(path, |all| all.and(path)));
        }
    }

    /// Adds what a server tells of the waits of a session.
    pub(crate) fn told(&self, role: Role, waits: Waits) {
        let [sender, receiver] = &mut self.state().told;
        let told = match role {
            Role::Sender => sender,
            Role::Receiver => receiver,
        };
        *told = Some(told.map_or(waits, |before| before.and(waits)));
    }

    /// Takes a sample now, when so many bytes have moved; `hashes` says whether a server hashes
    /// stored files.
    pub(crate) fn take(&self, bytes: u64, hashes: bool) {
        self.state().take(bytes, hashes);
    }

    /// The explanation of a copy so far; `None` of less than a second, and without a transfer of this
    /// end or a word of the sending server.
    pub(crate) fn explanation(&self) -> Option<Explanation> {
        self.state().explanation()
    }
}

impl State {
    fn take(&mut self, bytes: u64, hashes: bool) {
        self.running.retain(|(watch, _)| watch.strong_count() > 0);
        self.all += 1;
        let stages = self.running.iter().filter_map(|(watch, way)| {
            let stage = watch.upgrade()?.stage();
            (stage != Stage::Opening).then_some((stage, *way))
        });
        let stages: Vec<_> = stages.collect();
        // Where data moves, the other waits hold nothing up.
        let moves = |(stage, _): &&(Stage, Way)| matches!(stage, Stage::Moving { .. });
        let moving = stages.iter().filter(moves).count();
        match (moving, hashes, stages.is_empty()) {
            (0, true, _) => self.hashing += 1.0,
            (0, false, false) => self.ending += 1.0,
            (0, false, true) => {}
            _ => {
                self.moving += 1;
                self.bounded.take(bytes, !self.any);
            }
        }
        let weight = 1.0 / f64::from(u32::try_from(moving).unwrap_or(u32::MAX).max(1));
        for (stage, way) in stages {
            let Stage::Moving {
                storage,
                hashes,
                connections,
            } = stage
            else {
                continue;
            };
            let here = match way {
                Way::Download => &mut self.down,
                Way::Upload => &mut self.up,
                // The servers tell.
                Way::Between => continue,
            };
            let storing = weight * f64::from(storage) / f64::from(connections.max(1));
            here.storage += storing;
            // While bytes are hashed, all other connections wait for this end.
            if hashes {
                here.digests += weight - storing;
                continue;
            }
            here.peer += weight - storing;
            if way == Way::Upload {
                self.sending += f64::from(connections.saturating_sub(storage));
            }
        }
    }

    /// The parts of the wait for the network in which the path, the receiver and the buffer were
    /// full, and connections idle; `None` where nothing is measured.
    fn network(&self) -> Option<[f64; 4]> {
        let path = self.path?;
        let busy = path.busy?.as_secs_f64();
        // The kernel has nothing to send while a bound holds the data back.
        let sending = self.sending * LOOK.as_secs_f64() * self.unbounded();
        if busy <= 0.0 || sending <= 0.0 {
            return None;
        }
        let worked = (busy / sending).min(1.0);
        let full = [path.receiver_full, path.buffer_full].map(Option::unwrap_or_default);
        let [window, receiver, buffer] = parts(busy, full).map(|part| worked * part);
        Some([window, receiver, buffer, 1.0 - worked])
    }

    /// As [`network`](Self::network), of what a server sent.
    fn network_of(&self, sender: &Waits) -> Option<[f64; 4]> {
        let busy = sender.busy.as_secs_f64();
        let rest = sender.moving.saturating_sub(sender.storage);
        let rest = rest.saturating_sub(sender.digests);
        // A bound on the rate keeps data back, too.
        let unbounded = self.unbounded();
        let idle = (share_of(sender.unready, rest) - (1.0 - unbounded)).max(0.0) / unbounded;
        let idle = if idle.is_finite() { idle } else { 0.0 };
        let [window, receiver, buffer] =
            parts(busy, [sender.receiver_full, sender.buffer_full]).map(|part| (1.0 - idle) * part);
        (busy > 0.0).then_some([window, receiver, buffer, idle])
    }

    fn explanation(&self) -> Option<Explanation> {
        if self.all < LEAST {
            return None;
        }
        let [sender, _] = self.told;
        let (waits, idle) = match (self.any, &sender) {
            (true, _) => (self.waits(), self.idle()),
            (false, Some(sender)) => self.waits_between(sender),
            (false, None) => return None,
        };
        let known = [
            (Cause::Idle, idle),
            (Cause::Hashing, self.hashing),
            (Cause::Ending, self.ending),
        ];
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let all = self.all as f64;
        let mut shares: Vec<(Cause, f64)> = known
            .into_iter()
            .chain(waits)
            .map(|(cause, part)| (cause, part / all))
            .filter(|(_, share)| *share > 0.0)
            .collect();
        shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let [streams_bound, files_bound] = self.reached;
        Some(Explanation {
            shares,
            path: self.path.or_else(|| path_of(&sender?)),
            streams_bound,
            files_bound,
        })
    }

    /// The part of the time in which no bound on the rate held the copy back.
    fn unbounded(&self) -> f64 {
        let [limited, yielded] = self.bounded.parts();
        1.0 - limited - yielded
    }

    /// The samples in which nothing moved.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn idle(&self) -> f64 {
        (self.all - self.moving) as f64 - self.hashing - self.ending
    }

    /// The samples of the causes of transfers of this end.
    fn waits(&self) -> Vec<(Cause, f64)> {
        let (down, up) = (&self.down, &self.up);
        let mut waits = vec![
            (Cause::TargetStorage, down.storage),
            (Cause::SourceStorage, up.storage),
            (Cause::Digests, down.digests + up.digests),
        ];
        let [limited, yielded] = self.bounded.parts();
        waits.push((Cause::Limit, limited * (down.peer + up.peer)));
        waits.push((Cause::Polite, yielded * (down.peer + up.peer)));
        let [received, sent] = [down.peer, up.peer].map(|wait| wait * self.unbounded());
        let [sender, receiver] = self.told.each_ref().map(Option::as_ref);
        let all = received + down.storage + down.digests;
        let (received, work) = set_apart(received, work_of(sender, all, Cause::ServerReading));
        waits.extend(work);
        let network = sender.and_then(|sender| self.network_of(sender));
        waits.extend(divide(
            received,
            network,
            work_of(None, 0.0, Cause::ServerWriting),
            [Cause::Sender, Cause::Server],
        ));
        let all = sent + up.storage + up.digests;
        let work = work_of(receiver, all, Cause::ServerWriting);
        let others = [Cause::Network, Cause::Machine];
        waits.extend(divide(sent, self.network(), work, others));
        waits
    }

    /// The samples of the causes of transfers between two servers, and those in which nothing moved.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn waits_between(&self, sender: &Waits) -> (Vec<(Cause, f64)>, f64) {
        let all = self.all as f64 - self.hashing;
        // The sum of the servers' sessions, of which several may move data at once.
        let moving = (sender.moving.as_secs_f64() / LOOK.as_secs_f64()).min(self.moving as f64);
        let [_, receiver] = &self.told;
        let [limited, yielded] = self.bounded.parts();
        let work = work_of(Some(sender), moving, Cause::ServerReading);
        let (sent, mut waits) = set_apart(moving, work);
        waits.push((Cause::Limit, limited * sent));
        waits.push((Cause::Polite, yielded * sent));
        let (sent, network) = (sent * self.unbounded(), self.network_of(sender));
        let work = work_of(receiver.as_ref(), moving, Cause::ServerWriting);
        waits.extend(divide(sent, network, work, [Cause::Network, Cause::Server]));
        (waits, all - moving - self.ending)
    }
}

/// The parts of `busy` seconds in which the window, the receiver and the buffer were full.
fn parts(busy: f64, full: [Duration; 2]) -> [f64; 3] {
    let [receiver, buffer] = full.map(|time| (time.as_secs_f64() / busy).min(1.0));
    [(1.0 - receiver - buffer).max(0.0), receiver, buffer]
}

/// The part of `whole` that is `time`.
fn share_of(time: Duration, whole: Duration) -> f64 {
    let share = time.as_secs_f64() / whole.as_secs_f64();
    if share.is_finite() {
        share.min(1.0)
    } else {
        0.0
    }
}

/// The work of a server in `all` samples: of its storage, which is `storing`, and of its digests.
fn work_of(server: Option<&Waits>, all: f64, storing: Cause) -> [(Cause, f64); 2] {
    let waits = server.copied().unwrap_or_default();
    [
        (storing, all * share_of(waits.storage, waits.moving)),
        (
            Cause::ServerDigests,
            all * share_of(waits.digests, waits.moving),
        ),
    ]
}

/// Takes the work of a server out of a wait for it; gives the rest of the wait, and that work.
fn set_apart(mut wait: f64, work: [(Cause, f64); 2]) -> (f64, Vec<(Cause, f64)>) {
    let work = work.map(|(cause, part)| {
        let part = part.min(wait);
        wait -= part;
        (cause, part)
    });
    (wait, work.to_vec())
}

/// Divides a wait for the network by the parts of [`State::network`]; during the `work` of the receiving
/// server a receiver has no room. A part that nothing tells is `unknown`, and that without data to send
/// `idle`.
fn divide(
    wait: f64,
    network: Option<[f64; 4]>,
    work: [(Cause, f64); 2],
    [unknown, idle]: [Cause; 2],
) -> Vec<(Cause, f64)> {
    let Some(parts) = network else {
        let (rest, mut waits) = set_apart(wait, work);
        waits.push((unknown, rest));
        return waits;
    };
    let [window, receiver, buffer, unready] = parts.map(|part| part * wait);
    let (receiver, mut waits) = set_apart(receiver, work);
    waits.extend([
        (Cause::Path, window),
        (Cause::Receiver, receiver),
        (Cause::Buffer, buffer),
        (idle, unready),
    ]);
    waits
}

/// The path of what a server sent, where it was measured.
fn path_of(sender: &Waits) -> Option<PathStats> {
    let mut path = PathStats::new();
    path.round_trip = Some(sender.round_trip);
    (path.sent, path.retransmitted) = (Some(sender.sent), Some(sender.retransmitted));
    (sender.sent > 0).then_some(path)
}

impl Explanation {
    /// The cause of most of the time.
    #[must_use]
    pub fn first(&self) -> Option<Cause> {
        self.shares.first().map(|(cause, _)| *cause)
    }

    /// The part of the segments that this end has sent again.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        self.path?.resent()
    }

    /// The one change that would help most, where there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let is_lossy = self.loss() > Some(LOSS);
        let mut remedy = self.first()?.remedy(is_lossy)?.to_owned();
        for (is_bound, exact, bound) in [
            (self.streams_bound, "--parallel", "--max-parallel"),
            (self.files_bound, "--concurrency", "--max-concurrency"),
        ] {
            if is_bound {
                remedy = remedy.replace(exact, bound);
            }
        }
        Some(remedy)
    }
}

/// Lines: the shares above one percent, the path, the remedy.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time went to:")?;
        for (cause, share) in &self.shares {
            if *share >= 0.01 {
                write!(f, "\n{:>5.0} %  {}", share * 100.0, cause.text())?;
            }
        }
        if let (Some(path), Some(loss)) = (self.path, self.loss()) {
            let round_trip = path.round_trip.unwrap_or_default();
            let loss = loss * 100.0;
            write!(
                f,
                "\nthe path: round trip {round_trip:.1?}, {loss:.3} % of the segments retransmitted"
            )?;
        }
        match self.remedy() {
            Some(remedy) => write!(f, "\nmost would help: {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

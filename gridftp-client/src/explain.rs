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
    /// Of downloads and of uploads.
    storage: [f64; 2],
    peer: [f64; 2],
    /// The connections of uploads that did not read the storage.
    sending: f64,
    path: Option<PathStats>,
    /// The waits that the sending and the receiving server have told.
    told: [Option<Waits>; 2],
    /// Whether the caller's bounds of streams and of files at once were reached.
    reached: [bool; 2],
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
                connections,
            } = stage
            else {
                continue;
            };
            let here = f64::from(storage) / f64::from(connections.max(1));
            let [down, up] = &mut self.storage;
            let [from, to] = &mut self.peer;
            let (at_storage, at_peer) = match way {
                Way::Download => (down, from),
                Way::Upload => (up, to),
                // The servers tell.
                Way::Between => continue,
            };
            *at_storage += weight * here;
            *at_peer += weight * (1.0 - here);
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
    fn network_of(sender: &Waits) -> Option<[f64; 4]> {
        let busy = sender.busy.as_secs_f64();
        let [window, receiver, buffer] = parts(busy, [sender.receiver_full, sender.buffer_full]);
        (busy > 0.0).then_some([window, receiver, buffer, 0.0])
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
        let [written, read] = self.storage;
        let [received, sent] = self.peer;
        let mut waits = vec![
            (Cause::TargetStorage, written),
            (Cause::SourceStorage, read),
        ];
        let [limited, yielded] = self.bounded.parts();
        waits.push((Cause::Limit, limited * (received + sent)));
        waits.push((Cause::Polite, yielded * (received + sent)));
        let [received, sent] = [received, sent].map(|wait| wait * self.unbounded());
        let [sender, receiver] = &self.told;
        let reading = (storage_share(sender.as_ref()) * (received + written)).min(received);
        waits.push((Cause::ServerReading, reading));
        let network = sender.as_ref().and_then(Self::network_of);
        waits.extend(divide(received - reading, network, 0.0, Cause::Sender));
        let writing = storage_share(receiver.as_ref()) * (sent + read);
        waits.extend(divide(sent, self.network(), writing, Cause::Network));
        waits
    }

    /// The samples of the causes of transfers between two servers, and those in which nothing moved.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn waits_between(&self, sender: &Waits) -> (Vec<(Cause, f64)>, f64) {
        let all = self.all as f64 - self.hashing;
        // The sum of the servers' sessions, of which several may move data at once.
        let moving = (sender.moving.as_secs_f64() / LOOK.as_secs_f64()).min(self.moving as f64);
        let [_, receiver] = &self.told;
        let reading = storage_share(Some(sender)) * moving;
        let writing = storage_share(receiver.as_ref()) * moving;
        let [limited, yielded] = self.bounded.parts();
        let sent = moving - reading;
        let mut waits = vec![
            (Cause::ServerReading, reading),
            (Cause::Limit, limited * sent),
            (Cause::Polite, yielded * sent),
        ];
        let (sent, network) = (sent * self.unbounded(), Self::network_of(sender));
        waits.extend(divide(sent, network, writing, Cause::Network));
        (waits, all - moving - self.ending)
    }
}

/// The parts of `busy` seconds in which the window, the receiver and the buffer were full.
fn parts(busy: f64, full: [Duration; 2]) -> [f64; 3] {
    let [receiver, buffer] = full.map(|time| (time.as_secs_f64() / busy).min(1.0));
    [(1.0 - receiver - buffer).max(0.0), receiver, buffer]
}

/// The part of a server's time in which its storage worked.
fn storage_share(waits: Option<&Waits>) -> f64 {
    let share = waits.map(|waits| waits.storage.as_secs_f64() / waits.moving.as_secs_f64());
    share
        .filter(|share| share.is_finite())
        .unwrap_or(0.0)
        .min(1.0)
}

/// Divides a wait for the network by the parts of [`State::network`]; `writing` is the work of the
/// receiving server's storage, for which a receiver has no room. What is not known is `unknown`.
fn divide(wait: f64, network: Option<[f64; 4]>, writing: f64, unknown: Cause) -> Vec<(Cause, f64)> {
    let Some(parts) = network else {
        let writing = writing.min(wait);
        return vec![(Cause::ServerWriting, writing), (unknown, wait - writing)];
    };
    let [window, receiver, buffer, idle] = parts.map(|part| part * wait);
    let writing = writing.min(receiver);
    vec![
        (Cause::ServerWriting, writing),
        (Cause::Path, window),
        (Cause::Receiver, receiver - writing),
        (Cause::Buffer, buffer),
        (Cause::Machine, idle),
    ]
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
        let mut remedy = self.remedy_of_cause()?.to_owned();
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

    fn remedy_of_cause(&self) -> Option<&'static str> {
        Some(match self.first()? {
            Cause::Idle => {
                "more files at once (--concurrency) if there are many small ones, or servers that are nearer"
            }
            Cause::Hashing => {
                "a digest that costs the server less (--verify=ALGORITHM), or a faster disk there"
            }
            Cause::SourceStorage => {
                "a faster disk for the source, or more files at once (--concurrency) on one that serves many"
            }
            Cause::TargetStorage => {
                "a faster disk for the destination, or more files at once (--concurrency) on one that serves many"
            }
            Cause::ServerReading | Cause::ServerWriting => {
                "a faster disk at the server, or more files at once (--concurrency) on one that serves many"
            }
            Cause::Sender => {
                "`gridftp speed` with the server, which tells its disk and the path apart"
            }
            Cause::Network => return None,
            Cause::Path if self.loss() > Some(LOSS) => {
                "a path without loss; until then BBR at the sender (modprobe tcp_bbr, net.ipv4.tcp_allowed_congestion_control), or UDT (--stack udt) with a server that offers it (net-stacks)"
            }
            Cause::Path => "more streams (--parallel), if the link is not full",
            Cause::Receiver => {
                "a larger receive buffer at the receiver (net.ipv4.tcp_rmem), or a faster disk there"
            }
            Cause::Buffer => {
                "a larger send buffer at the sender (net.ipv4.tcp_wmem, --tcp-buffer), or more streams (--parallel)"
            }
            Cause::Machine => "a faster processor, or less protection (--protect)",
            Cause::Limit => "a higher --bwlimit",
            Cause::Polite => "a copy without --polite, which would slow the others down",
            Cause::Ending => "a faster disk at the server, which writes what has arrived",
        })
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

//! `Explanation`: where the time of a copy went, and the one change that would help most.
//!
//! Each 20 ms the stages of all running transfers are sampled, so that long and short ones count by
//! their time. The wait for the network is divided by the kernel's times of the sender, where that is
//! this end and TCP.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use gridftp_data::{Stage, Watch};
use xio_core::PathStats;

use crate::rate_limit::RateLimit;

/// Time between two samples.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Fewest samples of an explanation: one second.
const LEAST: u64 = 50;

/// Part of the segments that are sent again on a path that loses some: one in ten thousand.
const LOSS: f64 = 1e-4;

/// A place where the time of a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing moved: commands and their replies, new connections, listings, pauses.
    Idle,
    /// Digests of stored files.
    Hashing,
    /// Reading the files of this machine.
    SourceStorage,
    /// Writing the files of this machine.
    TargetStorage,
    /// The network or the server, of which this end cannot tell which: it received.
    Sender,
    /// The network, of which nothing is measured: this end sent, and its transfers have not ended,
    /// or run over no TCP.
    Network,
    /// The path: its congestion window was full.
    Path,
    /// The receive window: the receiver had no room for more.
    Receiver,
    /// The socket buffer of this machine had no room for more.
    Buffer,
    /// This machine, by encryption and the like: its connections had nothing to send.
    Machine,
    /// The bound that this end keeps to ([`RateLimit`]).
    Limit,
    /// The server's final reply, behind all data: it writes and verifies the file.
    Ending,
}

impl Cause {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Hashing => "hashing",
            Self::SourceStorage => "source_storage",
            Self::TargetStorage => "target_storage",
            Self::Sender => "sender",
            Self::Network => "network",
            Self::Path => "path",
            Self::Receiver => "receiver",
            Self::Buffer => "buffer",
            Self::Machine => "machine",
            Self::Limit => "limit",
            Self::Ending => "ending",
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Idle => "no data under way (commands, connections, listings)",
            Self::Hashing => "digests of stored files",
            Self::SourceStorage => "reading files here",
            Self::TargetStorage => "writing files here",
            Self::Sender => "waiting for the server or the path",
            Self::Network => "waiting for the network",
            Self::Path => "waiting for the path (congestion window)",
            Self::Receiver => "waiting for the receiver (its window)",
            Self::Buffer => "waiting for room in the socket buffer here",
            Self::Machine => "this machine (encryption and the like)",
            Self::Limit => "keeping to --bwlimit",
            Self::Ending => "waiting for the server's final reply",
        }
    }
}

/// The direction of a transfer's data, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Download,
    Upload,
}

/// The shares of the time of a copy.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// Causes with their shares of the time, which sum to 1, the largest first.
    pub shares: Vec<(Cause, f64)>,
    /// The kernel's measurements of what this end sent.
    pub path: Option<PathStats>,
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
    limit: Option<RateLimit>,
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
}

impl Samples {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Explains by this bound, where it is reached.
    pub(crate) fn limit(&self, limit: Option<RateLimit>) {
        self.state().limit = limit;
    }

    /// Samples a transfer until its watch is dropped.
    pub(crate) fn begin(&self, watch: &Arc<Watch>, way: Way) {
        watch.measure();
        let mut state = self.state();
        state.running.push((Arc::downgrade(watch), way));
        state.any = true;
    }

    /// Adds the path of a transfer whose data is through.
    pub(crate) fn end(&self, watch: &Watch) {
        if let Some(path) = watch.path() {
            let mut state = self.state();
            state.path = Some(state.path.map_or(path, |all| all.and(path)));
        }
    }

    /// Takes a sample now; `hashes` says whether a server hashes stored files.
    pub(crate) fn take(&self, hashes: bool) {
        self.state().take(hashes);
    }

    /// The explanation of a copy that moved so many bytes so far; `None` of less than a second, and
    /// without a transfer of this end.
    pub(crate) fn explanation(&self, bytes: u64) -> Option<Explanation> {
        self.state().explanation(bytes)
    }
}

impl State {
    fn take(&mut self, hashes: bool) {
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
            _ => self.moving += 1,
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
        let sending = self.sending * LOOK.as_secs_f64();
        if busy <= 0.0 || sending <= 0.0 {
            return None;
        }
        let worked = (busy / sending).min(1.0);
        let part = |time: Option<Duration>| {
            let time = time.unwrap_or_default().as_secs_f64();
            worked * (time / busy).min(1.0)
        };
        let (receiver, buffer) = (part(path.receiver_full), part(path.buffer_full));
        let window = (worked - receiver - buffer).max(0.0);
        Some([window, receiver, buffer, 1.0 - worked])
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn explanation(&self, bytes: u64) -> Option<Explanation> {
        if self.all < LEAST || !self.any {
            return None;
        }
        let [written, read] = self.storage;
        let [received, sent] = self.peer;
        let moved_for = LOOK * u32::try_from(self.moving).unwrap_or(u32::MAX);
        let limits = |limit: &RateLimit| limit.is_reached(bytes, moved_for);
        let parts = match (self.limit.as_ref().is_some_and(limits), self.network()) {
            (true, _) => vec![(Cause::Limit, received + sent)],
            (false, Some([window, receiver, buffer, idle])) => vec![
                (Cause::Sender, received),
                (Cause::Path, sent * window),
                (Cause::Receiver, sent * receiver),
                (Cause::Buffer, sent * buffer),
                (Cause::Machine, sent * idle),
            ],
            (false, None) => vec![(Cause::Sender, received), (Cause::Network, sent)],
        };
        let known = [
            (
                Cause::Idle,
                (self.all - self.moving) as f64 - self.hashing - self.ending,
            ),
            (Cause::Hashing, self.hashing),
            (Cause::SourceStorage, read),
            (Cause::TargetStorage, written),
            (Cause::Ending, self.ending),
        ];
        let mut shares: Vec<(Cause, f64)> = known
            .into_iter()
            .chain(parts)
            .map(|(cause, part)| (cause, part / self.all as f64))
            .filter(|(_, share)| *share > 0.0)
            .collect();
        shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        Some(Explanation {
            shares,
            path: self.path,
        })
    }
}

impl Explanation {
    /// The cause of most of the time.
    #[must_use]
    pub fn first(&self) -> Option<Cause> {
        self.shares.first().map(|(cause, _)| *cause)
    }

    /// The part of the segments that this end has sent again.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn loss(&self) -> Option<f64> {
        let path = self.path?;
        let sent = path.sent.filter(|sent| *sent > 0)?;
        Some(path.retransmitted? as f64 / sent as f64)
    }

    /// The one change that would help most, where there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
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
            Cause::Sender => {
                "`gridftp speed` with the server, which tells its disk and the path apart"
            }
            Cause::Network => return None,
            Cause::Path if self.loss() > Some(LOSS) => {
                "a path without loss; until then BBR, if this machine has none (modprobe tcp_bbr), or --stack udt"
            }
            Cause::Path => "more streams (--parallel), if the link is not full",
            Cause::Receiver => {
                "a larger receive buffer at the receiver (net.ipv4.tcp_rmem), or a faster disk there"
            }
            Cause::Buffer => {
                "a larger send buffer here (net.ipv4.tcp_wmem, --tcp-buffer), or more streams (--parallel)"
            }
            Cause::Machine => "a faster processor, or less protection (--protect)",
            Cause::Limit => "a higher --bwlimit",
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
mod tests {
    use super::*;

    fn watch(moving: bool) -> Arc<Watch> {
        let watch = Arc::new(Watch::new());
        if moving {
            watch.open(false);
        }
        watch
    }

    fn shares(samples: &Samples) -> Vec<(Cause, f64)> {
        for _ in 0..LEAST {
            samples.take(false);
        }
        samples.explanation(0).unwrap().shares
    }

    #[test]
    fn transfers_share_a_sample_and_those_that_open_count_where_none_moves() {
        let samples = Samples::default();
        for _ in 0..LEAST {
            samples.take(false);
        }
        assert!(samples.explanation(0).is_none());
        let (opening, up) = (watch(false), watch(true));
        let samples = Samples::default();
        samples.begin(&opening, Way::Upload);
        samples.begin(&up, Way::Upload);
        assert_eq!(shares(&samples), [(Cause::Network, 1.0)]);
        let (down, samples) = (watch(true), Samples::default());
        samples.begin(&down, Way::Download);
        samples.begin(&up, Way::Upload);
        let mut both = shares(&samples);
        both.sort_by_key(|(cause, _)| cause.name());
        assert_eq!(both, [(Cause::Network, 0.5), (Cause::Sender, 0.5)]);
        drop((down, up));
        let samples = Samples::default();
        samples.begin(&opening, Way::Download);
        drop(opening);
        assert_eq!(shares(&samples), [(Cause::Idle, 1.0)]);
        assert!(samples.state().running.is_empty());
        for _ in 0..LEAST {
            samples.take(true);
        }
        assert_eq!(shares(&samples).len(), 2);
        assert_eq!(samples.explanation(0).unwrap().first(), Some(Cause::Idle));
    }

    /// The shares of an upload that waited for a second, with these times of its connection in ms.
    fn upload(busy: u64, receiver: u64, buffer: u64, limit: Option<u64>) -> Explanation {
        let (up, samples) = (watch(true), Samples::default());
        samples.begin(&up, Way::Upload);
        samples.limit(limit.map(|limit| RateLimit::new(Some(limit))));
        let mut path = PathStats::new();
        let time = |ms| Some(Duration::from_millis(ms));
        (path.busy, path.receiver_full, path.buffer_full) =
            (time(busy), time(receiver), time(buffer));
        (path.sent, path.retransmitted) = (Some(100), Some(1));
        samples.state().path = Some(path);
        for _ in 0..LEAST {
            samples.take(false);
        }
        samples.explanation(1000).unwrap()
    }

    #[test]
    fn the_times_of_the_sender_divide_the_wait() {
        for (times, expected) in [
            (
                (1000, 500, 100),
                &[
                    (Cause::Receiver, 0.5),
                    (Cause::Path, 0.4),
                    (Cause::Buffer, 0.1),
                ][..],
            ),
            ((300, 0, 0), &[(Cause::Machine, 0.7), (Cause::Path, 0.3)]),
            ((0, 0, 0), &[(Cause::Network, 1.0)]),
        ] {
            let shares = upload(times.0, times.1, times.2, None).shares;
            assert_eq!(shares.len(), expected.len(), "{shares:?}");
            for ((cause, share), (expected, part)) in shares.iter().zip(expected) {
                let is_near = (share - part).abs() < 1e-9;
                assert!(cause == expected && is_near, "{shares:?}");
            }
        }
        let explanation = upload(1000, 500, 100, None);
        assert!(explanation.remedy().unwrap().contains("tcp_rmem"));
        let text = explanation.to_string();
        assert!(
            text.contains("\n   50 %  waiting for the receiver"),
            "{text}"
        );
        assert!(text.contains("1.000 % of the segments"), "{text}");
    }

    #[test]
    fn a_limit_that_is_reached_explains_the_wait() {
        assert_eq!(upload(1000, 500, 0, Some(1050)).first(), Some(Cause::Limit));
        assert_eq!(
            upload(1000, 900, 0, Some(1200)).first(),
            Some(Cause::Receiver)
        );
    }
}

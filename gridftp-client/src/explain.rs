//! `Explanation`: where the time of a copy went, and the one change that would help most.
//!
//! Each 20 ms the stages of all running transfers are looked at, so that long and short ones count by
//! their time. The wait for the network is divided by the kernel's times of the sender, where that is
//! this end.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use gridftp_data::{Stage, Watch};
use xio_core::PathStats;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Least looks for an explanation: one second.
const LEAST: u64 = 50;

/// Part of the segments that are sent again on a path that loses some: one in ten thousand.
const LOSS: f64 = 1e-4;

/// A place where the time of a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Commands and their replies, and connections on their way: nothing moved.
    RoundTrips,
    /// Reading the files of this machine.
    SourceStorage,
    /// Writing the files of this machine.
    TargetStorage,
    /// The network or the server, of which this end cannot tell which: it received.
    Sender,
    /// The path: its congestion window was full.
    Path,
    /// The receiver had no room for more.
    Receiver,
    /// The socket buffer of this machine had no room for more.
    Buffer,
    /// The bound that this end keeps to ([`RateLimit`](crate::options::RateLimit)).
    Limit,
    /// The server's last word on a file: it writes and verifies it.
    Ending,
}

impl Cause {
    const ALL: [Self; 8] = [
        Self::RoundTrips,
        Self::SourceStorage,
        Self::TargetStorage,
        Self::Sender,
        Self::Path,
        Self::Receiver,
        Self::Buffer,
        Self::Ending,
    ];

    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundTrips => "round_trips",
            Self::SourceStorage => "source_storage",
            Self::TargetStorage => "target_storage",
            Self::Sender => "sender",
            Self::Path => "path",
            Self::Receiver => "receiver",
            Self::Buffer => "buffer",
            Self::Limit => "limit",
            Self::Ending => "ending",
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::RoundTrips => "round trips, with no data under way",
            Self::SourceStorage => "reading files here",
            Self::TargetStorage => "writing files here",
            Self::Sender => "waiting for the server or the path",
            Self::Path => "the path (congestion window)",
            Self::Receiver => "the receiver (its window)",
            Self::Buffer => "the socket buffer here",
            Self::Limit => "keeping to --bwlimit",
            Self::Ending => "the server's last word on files (writing, verification)",
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

/// The looks at a copy.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: Vec<(Weak<Watch>, Way)>,
    /// Whether any transfer was of this end.
    any: bool,
    looks: u64,
    none: f64,
    /// Of downloads and of uploads.
    storage: [f64; 2],
    peer: [f64; 2],
    ending: f64,
    path: Option<PathStats>,
}

impl Looks {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a transfer that begins.
    pub(crate) fn begin(&self, watch: &Arc<Watch>, way: Way) {
        watch.measure();
        let mut state = self.state();
        state.running.push((Arc::downgrade(watch), way));
        state.any = true;
    }

    /// Takes note of the path of a transfer that ends.
    pub(crate) fn end(&self, watch: &Watch) {
        if let Some(path) = watch.path() {
            let mut state = self.state();
            state.path = Some(state.path.map_or(path, |all| all.and(path)));
        }
    }

    /// Looks at the transfers until it is dropped.
    pub(crate) async fn run(&self) -> Infallible {
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tick.tick().await;
            self.state().look();
        }
    }

    /// The explanation so far; `None` of less than a second, and without a transfer of this end.
    pub(crate) fn explanation(&self) -> Option<Explanation> {
        self.state().explanation()
    }
}

impl State {
    fn look(&mut self) {
        self.running.retain(|(watch, _)| watch.strong_count() > 0);
        self.looks += 1;
        let stages = self.running.iter().filter_map(|(watch, way)| {
            let stage = watch.upgrade()?.stage();
            (stage != Stage::Opening).then_some((stage, *way))
        });
        let stages: Vec<_> = stages.collect();
        // Where data moves, what else waits holds nothing up.
        let moves = |(stage, _): &&(Stage, Way)| matches!(stage, Stage::Moving { .. });
        let moving = stages.iter().filter(moves).count();
        match (moving, stages.is_empty()) {
            (0, true) => self.none += 1.0,
            (0, false) => self.ending += 1.0,
            _ => {}
        }
        let weight = 1.0 / f64::from(u32::try_from(moving).unwrap_or(u32::MAX).max(1));
        for (stage, way) in stages {
            if let Stage::Moving {
                storage,
                connections,
            } = stage
            {
                let here = f64::from(storage) / f64::from(connections.max(1));
                let index = usize::from(way == Way::Upload);
                if let (Some(storage), Some(peer)) =
                    (self.storage.get_mut(index), self.peer.get_mut(index))
                {
                    *storage += weight * here;
                    *peer += weight * (1.0 - here);
                }
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn explanation(&self) -> Option<Explanation> {
        if self.looks < LEAST || !self.any {
            return None;
        }
        let [written, read] = self.storage;
        let [received, sent] = self.peer;
        let (receiver, buffer) = self.path.map_or((0.0, 0.0), |path| {
            let part = |time: Option<Duration>| match (time, path.busy) {
                (Some(time), Some(busy)) if !busy.is_zero() => {
                    (time.as_secs_f64() / busy.as_secs_f64()).min(1.0)
                }
                _ => 0.0,
            };
            (part(path.receiver_full), part(path.buffer_full))
        });
        let part = |cause| match cause {
            Cause::RoundTrips => self.none,
            Cause::SourceStorage => read,
            Cause::TargetStorage => written,
            Cause::Sender => received,
            Cause::Path => sent * (1.0 - receiver - buffer).max(0.0),
            Cause::Receiver => sent * receiver,
            Cause::Buffer => sent * buffer,
            Cause::Limit => 0.0,
            Cause::Ending => self.ending,
        };
        let mut shares: Vec<(Cause, f64)> = Cause::ALL
            .map(|cause| (cause, part(cause) / self.looks as f64))
            .into_iter()
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
    /// Takes the waits for the network for those of a limit, which the copy has reached.
    pub(crate) fn limited(&mut self) {
        let is_network = |cause| {
            matches!(
                cause,
                Cause::Sender | Cause::Path | Cause::Receiver | Cause::Buffer
            )
        };
        let limited = self.shares.extract_if(.., |(cause, _)| is_network(*cause));
        let limited: f64 = limited.map(|(_, share)| share).sum();
        let place = self.shares.partition_point(|(_, share)| *share > limited);
        self.shares.insert(place, (Cause::Limit, limited));
    }

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

    /// The one change that would help most.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self.first()? {
            Cause::RoundTrips => {
                "more files at once (--concurrency), or fewer and larger files: the servers answer, and nothing moves"
            }
            Cause::SourceStorage => {
                "a faster disk for the source, or more files at once (--concurrency) on one that serves many"
            }
            Cause::TargetStorage => {
                "a faster disk for the destination, or more files at once (--concurrency) on one that serves many"
            }
            Cause::Sender => {
                "a look from the sending end: `gridftp speed` with the server tells its disk from the path"
            }
            Cause::Path if self.loss() > Some(LOSS) => {
                "a path without loss; until then BBR at the sender (`modprobe tcp_bbr`), or --stack udt where the server allows it"
            }
            Cause::Path => "more streams (--parallel), if the link is not full",
            Cause::Receiver => {
                "a larger net.ipv4.tcp_rmem at the receiver, or a faster disk there: it takes no more"
            }
            Cause::Limit => "a higher --bwlimit",
            Cause::Buffer => {
                "a larger net.ipv4.tcp_wmem at the sender, or more streams (--parallel)"
            }
            Cause::Ending => "a faster disk at the server: it works on files whose data is there",
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
                "\nthe path: round trip {round_trip:.1?}, {loss:.3} % of the segments sent again"
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

    fn shares(looks: &Looks) -> Vec<(Cause, f64)> {
        for _ in 0..LEAST {
            looks.state().look();
        }
        looks.explanation().unwrap().shares
    }

    #[test]
    fn transfers_share_a_look_and_those_that_end_count_where_none_moves() {
        let looks = Looks::default();
        for _ in 0..LEAST {
            looks.state().look();
        }
        assert!(looks.explanation().is_none());
        let (opening, up) = (watch(false), watch(true));
        let looks = Looks::default();
        looks.begin(&opening, Way::Upload);
        looks.begin(&up, Way::Upload);
        assert_eq!(shares(&looks), [(Cause::Path, 1.0)]);
        let (down, looks) = (watch(true), Looks::default());
        looks.begin(&down, Way::Download);
        looks.begin(&up, Way::Upload);
        let mut both = shares(&looks);
        both.sort_by_key(|(cause, _)| cause.name());
        assert_eq!(both, [(Cause::Path, 0.5), (Cause::Sender, 0.5)]);
        drop((down, up));
        let looks = Looks::default();
        looks.begin(&opening, Way::Download);
        drop(opening);
        assert_eq!(shares(&looks), [(Cause::RoundTrips, 1.0)]);
        assert!(looks.state().running.is_empty());
    }

    #[test]
    fn the_times_of_the_sender_divide_the_wait() {
        let (up, looks) = (watch(true), Looks::default());
        looks.begin(&up, Way::Upload);
        let mut path = PathStats::new();
        let seconds = |n| Some(Duration::from_secs(n));
        (path.busy, path.receiver_full, path.buffer_full) = (seconds(10), seconds(5), seconds(1));
        (path.sent, path.retransmitted) = (Some(100), Some(1));
        looks.state().path = Some(path);
        let shares = shares(&looks);
        let expected = [
            (Cause::Receiver, 0.5),
            (Cause::Path, 0.4),
            (Cause::Buffer, 0.1),
        ];
        for ((cause, share), (expected, part)) in shares.iter().zip(expected) {
            assert!(
                *cause == expected && (share - part).abs() < 1e-9,
                "{shares:?}"
            );
        }
        let explanation = looks.explanation().unwrap();
        assert!(explanation.remedy().unwrap().contains("tcp_rmem"));
        let text = explanation.to_string();
        assert!(text.contains("\n   50 %  the receiver"), "{text}");
        assert!(text.contains("1.000 % of the segments"), "{text}");
    }
}

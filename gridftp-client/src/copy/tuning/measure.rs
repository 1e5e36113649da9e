//! `Meter`: the measurements of the senders of a period, from the watches of its transfers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use gridftp_data::{Limit, RemoteSend, Stage, Watch};
use xio_core::PathStats;

use super::climb::Sender;
use super::distance::{Distances, RoundTrip};
use crate::explain::Way;

/// Transfers of one period that are measured.
const MOST: usize = 1024;

/// A transfer, with its measurements of the periods before.
#[derive(Debug)]
struct Measured {
    /// Held by its transfer alone, so that others see when that is given up.
    watch: Weak<Watch>,
    way: Way,
    told: Option<PathStats>,
    /// Time in which data moved, as a sender at another host has told it.
    moving: Duration,
}

/// The measurements of one period.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) sender: Option<Sender>,
    pub(super) round_trips: Vec<RoundTrip>,
    /// Transfers with data under way at the end of the period.
    pub(super) moving: u32,
    /// Connections of the one transfer that moves data; `None` of several and of none, and of data
    /// between servers whose sender does not tell.
    pub(super) carrying: Option<u32>,
    /// Whether a connection with data under way has found the path lossy.
    pub(super) is_lossy: bool,
}

/// Transfers that are measured.
#[derive(Debug, Default)]
pub(super) struct Meter {
    transfers: Vec<Measured>,
    distances: Distances,
    /// The measurements of the transfers that ended in this period.
    ended: Sent,
}

/// The measurements of the senders in a period.
#[derive(Debug, Default)]
struct Sent {
    path: Option<PathStats>,
    /// The sum of the times of their connections.
    time: Duration,
}

impl Measured {
    /// Takes what is new in a watch.
    fn take(&mut self, watch: &Watch, all: &mut Sent, distances: &mut Distances) {
        for (peer, round_trip) in watch.take_round_trips() {
            distances.add(self.way, peer, round_trip);
        }
        let remote = watch.remote_sender();
        if let Some(RemoteSend {
            moving,
            connections,
            ..
        }) = remote
        {
            let before = std::mem::replace(&mut self.moving, moving);
            let since = moving.saturating_sub(before).saturating_mul(connections);
            all.time = all.time.saturating_add(since);
        }
        if let Some(now) = remote.map(|remote| remote.path).or_else(|| watch.path()) {
            let before = self.told.replace(now).unwrap_or_default();
            let since = now.since(before);
            all.path = Some(all.path.map_or(since, |all| all.and(since)));
        }
    }

    /// Connections with data under way, 0 where nobody tells them; `None` without such data.
    fn connections(&self, watch: &Watch) -> Option<u32> {
        let Stage::Moving { connections, .. } = watch.stage() else {
            return None;
        };
        Some(match self.way {
            Way::Between => watch.remote_sender().map_or(0, |told| told.connections),
            Way::Download | Way::Upload => connections,
        })
    }
}

impl Meter {
    /// Has a transfer measured until its end.
    pub(super) fn note(&mut self, watch: &Arc<Watch>, way: Way) {
        if self.transfers.len() >= MOST {
            return;
        }
        watch.measure();
        self.transfers.push(Measured {
            watch: Arc::downgrade(watch),
            way,
            told: None,
            moving: Duration::ZERO,
        });
    }

    /// Takes the rest of a transfer that ends.
    pub(super) fn end(&mut self, watch: &Watch) {
        let same = |it: &Measured| std::ptr::eq(it.watch.as_ptr(), watch);
        if let Some(at) = self.transfers.iter().position(same) {
            let mut transfer = self.transfers.swap_remove(at);
            transfer.take(watch, &mut self.ended, &mut self.distances);
        }
    }

    /// The measurements since the last call.
    pub(super) fn take(&mut self, took: Duration) -> Path {
        let mut all = std::mem::take(&mut self.ended);
        let mut carrying = Vec::new();
        let mut is_lossy = false;
        for transfer in &mut self.transfers {
            let Some(watch) = transfer.watch.upgrade() else {
                continue;
            };
            if let Some(connections) = transfer.connections(&watch) {
                if transfer.way == Way::Upload {
                    all.time = all.time.saturating_add(took.saturating_mul(connections));
                }
                carrying.push(connections);
                let remote = watch.remote_sender().map(|remote| remote.path);
                let paths = [watch.path(), watch.arrival(), remote];
                is_lossy |= paths.into_iter().flatten().any(|path| path.is_lossy);
            }
            transfer.take(&watch, &mut all, &mut self.distances);
        }
        self.transfers.retain(|it| it.watch.strong_count() > 0);
        Path {
            sender: all.path.map(|path| sender(&path, all.time)),
            round_trips: self.distances.take(took),
            moving: u32::try_from(carrying.len()).unwrap_or(u32::MAX),
            carrying: <[u32; 1]>::try_from(carrying)
                .ok()
                .and_then(|[only]| (only > 0).then_some(only)),
            is_lossy,
        }
    }
}

/// The limit and the loss of senders; `time` is the sum of the times of their connections.
fn sender(path: &PathStats, time: Duration) -> Sender {
    Sender {
        limit: Limit::of(path, time),
        loss: path.resent().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_a_part_of_the_sent_segments() {
        let mut path = PathStats::new();
        (path.sent, path.retransmitted) = (Some(1000), Some(10));
        let sender = sender(&path, Duration::from_secs(2));
        assert!((sender.loss - 0.01).abs() < 1e-9);
        assert_eq!(sender.limit, None);
    }

    #[test]
    fn a_transfer_is_measured_until_its_end() {
        let mut meter = Meter::default();
        let watch = Arc::new(Watch::new());
        meter.note(&watch, Way::Upload);
        assert!(meter.take(Duration::from_secs(1)).sender.is_none());
        assert_eq!(meter.transfers.len(), 1);
        meter.note(&Arc::new(Watch::new()), Way::Upload);
        // One that is given up is not held.
        meter.take(Duration::from_secs(1));
        assert_eq!(meter.transfers.len(), 1);
        assert_eq!(Arc::strong_count(&watch), 1);
        meter.end(&watch);
        assert!(meter.transfers.is_empty());
        let (many, mut meter) = (Arc::new(Watch::new()), Meter::default());
        for _ in 0..2 * MOST {
            meter.note(&many, Way::Download);
        }
        assert_eq!(meter.transfers.len(), MOST);
    }

    /// The sender of a transfer has told so many seconds of data, of which so many ms were busy, all
    /// connections together, and so many without room at the receiver.
    fn tell(watch: &Watch, connections: u32, seconds: u64, [busy, full]: [u64; 2]) {
        let mut now = RemoteSend::default();
        (now.connections, now.moving) = (connections, Duration::from_secs(seconds));
        let [busy, full] = [busy, full].map(|ms| Some(Duration::from_millis(ms)));
        (now.path.busy, now.path.receiver_full) = (busy, full);
        (now.path.sent, now.path.retransmitted) = (Some(100 * seconds), Some(seconds));
        now.path.round_trip = Some(Duration::from_millis(40));
        watch.follow_sender(now);
    }

    #[test]
    fn a_server_that_sends_tells_its_limit() {
        let period = Duration::from_secs(10);
        for way in [Way::Download, Way::Between] {
            let (mut meter, watch) = (Meter::default(), Arc::new(Watch::new()));
            meter.note(&watch, way);
            watch.open(false);
            let path = meter.take(period);
            assert!(path.sender.is_none() && path.round_trips.is_empty());
            // The times are those between its markers, whenever they come.
            let mut limits = Vec::new();
            for (seconds, busy, full) in
                [(8, 32_000, 0), (20, 80_000, 40_000), (30, 90_000, 40_000)]
            {
                tell(&watch, 4, seconds, [busy, full]);
                let path = meter.take(period);
                let sender = path.sender.unwrap();
                assert!((sender.loss - 0.01).abs() < 1e-9);
                let round_trip = Duration::from_millis(40);
                assert_eq!(path.round_trips, [(round_trip, round_trip)]);
                limits.push(sender.limit.unwrap());
            }
            assert_eq!(limits, [Limit::Path, Limit::Receiver, Limit::Source]);
            // Without a marker in it, a period tells nothing.
            assert_eq!(meter.take(period).sender.unwrap().limit, None);
        }
    }

    #[test]
    fn the_connections_between_servers_are_those_that_the_sender_tells() {
        let (mut meter, watch) = (Meter::default(), Arc::new(Watch::new()));
        meter.note(&watch, Way::Between);
        watch.open(false);
        let mut take = || {
            let path = meter.take(Duration::from_secs(10));
            (path.moving, path.carrying, path.is_lossy)
        };
        assert_eq!(take(), (1, None, false));
        tell(&watch, 8, 1, [0, 0]);
        assert_eq!(take(), (1, Some(8), false));
        let mut lossy = watch.remote_sender().unwrap();
        lossy.path.is_lossy = true;
        watch.follow_sender(lossy);
        assert_eq!(take(), (1, Some(8), true));
    }
}

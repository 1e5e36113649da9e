//! `Meter`: the measurements of the senders of a period, from the watches of its transfers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use gridftp_data::{Limit, Stage, Watch};
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
}

/// The measurements of one period.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) sender: Option<Sender>,
    pub(super) round_trips: Vec<RoundTrip>,
    /// Transfers with data under way at the end of the period.
    pub(super) moving: u32,
    /// Connections of the one transfer that moves data; `None` of several and of none.
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
    ended: Option<PathStats>,
    is_between: bool,
}

impl Measured {
    /// Takes what is new in a watch.
    fn take(&mut self, watch: &Watch, all: &mut Option<PathStats>, distances: &mut Distances) {
        for (peer, round_trip) in watch.take_round_trips() {
            distances.add(self.way, peer, round_trip);
        }
        if let Some(now) = watch.path() {
            let before = self.told.replace(now).unwrap_or_default();
            let since = now.since(before);
            *all = Some(all.map_or(since, |all| all.and(since)));
        }
    }
}

impl Meter {
    /// `is_between` says whether no data passes this machine.
    pub(super) fn new(is_between: bool) -> Self {
        Self {
            is_between,
            ..Self::default()
        }
    }

    /// Has a transfer measured until its end.
    pub(super) fn note(&mut self, watch: &Arc<Watch>, way: Way) {
        if self.is_between || self.transfers.len() >= MOST {
            return;
        }
        watch.measure();
        self.transfers.push(Measured {
            watch: Arc::downgrade(watch),
            way,
            told: None,
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
        let (mut all, mut connections) = (self.ended.take(), 0);
        let mut carrying = Vec::new();
        let mut is_lossy = false;
        for transfer in &mut self.transfers {
            let Some(watch) = transfer.watch.upgrade() else {
                continue;
            };
            if let Stage::Moving { connections: n, .. } = watch.stage() {
                connections += if transfer.way == Way::Upload { n } else { 0 };
                carrying.push(n);
                let mut paths = [watch.path(), watch.arrival()].into_iter().flatten();
                is_lossy |= paths.any(|path| path.is_lossy);
            }
            transfer.take(&watch, &mut all, &mut self.distances);
        }
        self.transfers.retain(|it| it.watch.strong_count() > 0);
        Path {
            sender: all.map(|all| sender(&all, took.saturating_mul(connections))),
            round_trips: self.distances.take(),
            moving: u32::try_from(carrying.len()).unwrap_or(u32::MAX),
            carrying: <[u32; 1]>::try_from(carrying).ok().map(|[only]| only),
            is_lossy,
        }
    }
}

/// The limit and the loss of senders; `time` is the sum of the times of their connections.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn sender(path: &PathStats, time: Duration) -> Sender {
    let sent = path.sent.unwrap_or(0) as f64;
    let loss = path.retransmitted.unwrap_or(0) as f64 / sent.max(1.0);
    Sender {
        limit: Limit::of(path, time),
        loss: loss.min(1.0),
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
        let mut meter = Meter::new(false);
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
        let (many, mut meter) = (Arc::new(Watch::new()), Meter::new(false));
        for _ in 0..2 * MOST {
            meter.note(&many, Way::Download);
        }
        assert_eq!(meter.transfers.len(), MOST);
        let mut between = Meter::new(true);
        between.note(&many, Way::Upload);
        assert!(between.transfers.is_empty());
    }
}

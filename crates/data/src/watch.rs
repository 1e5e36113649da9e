//! `Watch`: the state of a running transfer, readable from outside.

mod ending;
mod parts;
mod proof;
mod remote;
mod times;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byte_ranges::RangeSet;
use mode_e::{Gather, Limits};
use tokio::sync::Notify;
use xio_core::PathStats;

use self::ending::Ending;
pub use self::proof::Told;
pub use self::remote::RemoteSend;
use self::times::Clock;
pub use self::times::{Stage, Times};
use crate::digest::Digest;
use crate::error::Result;

const CLOSED: u8 = 0;
const FRESH: u8 = 1;
const REUSED: u8 = 2;

/// Bound on the peers with a round trip in memory; the other end chooses their addresses.
const MOST_PEERS: usize = 64;

/// The state of one transfer, for markers and progress bars.
///
/// One watch serves one transfer and is shared with its future by reference. Reading it does not
/// delay the transfer.
#[derive(Debug)]
pub struct Watch {
    opened: AtomicU8,
    opening: Notify,
    bytes: AtomicU64,
    connections: AtomicU32,
    /// Those that carry payload; 0 where that is not counted.
    carrying: AtomicU32,
    /// The most of them at any time.
    most_carrying: AtomicU32,
    clock: Clock,
    path: Mutex<Option<PathStats>>,
    /// The path of received data, likewise.
    arrival: Mutex<Option<PathStats>>,
    /// The sender at another host, as it told last.
    remote: Mutex<Option<RemoteSend>>,
    /// The last round trip of each peer that was not taken.
    round_trips: Mutex<Vec<(Option<IpAddr>, Duration)>>,
    /// Locked once a block by the transfer, once a tick by the reader of the watch.
    arrived: Mutex<Gather>,
    /// Whether to skip the rest of the file.
    cut: AtomicBool,
    digest: Mutex<Digest>,
    /// The digest that the sender of the data told on the data channel.
    told: Mutex<Option<Told>>,
    ending: Ending,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Creates the watch of a transfer that has not begun.
    pub fn new() -> Self {
        Self {
            opened: AtomicU8::new(CLOSED),
            opening: Notify::new(),
            bytes: AtomicU64::new(0),
            connections: AtomicU32::new(0),
            carrying: AtomicU32::new(0),
            most_carrying: AtomicU32::new(0),
            clock: Clock::default(),
            path: Mutex::default(),
            arrival: Mutex::default(),
            remote: Mutex::default(),
            round_trips: Mutex::default(),
            arrived: Mutex::new(Gather::new(Limits::default())),
            cut: AtomicBool::new(false),
            digest: Mutex::default(),
            told: Mutex::default(),
            ending: Ending::default(),
        }
    }

    /// Waits until the data connection is open; returns whether it is reused.
    ///
    /// # Cancel safety
    /// Nothing is lost: once the connection is open, every later call returns at once.
    pub async fn opened(&self) -> bool {
        loop {
            let change = self.opening.notified();
            match self.opened.load(Ordering::Acquire) {
                CLOSED => change.await,
                state => return state == REUSED,
            }
        }
    }

    /// Whether the data connection is open.
    pub fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire) != CLOSED
    }

    /// Payload bytes sent, or received and written, so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of data connections so far.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Number of data connections that carry payload: those that take blocks where this end sends
    /// and may add connections, those that brought any and have not ended ahead of the others where
    /// this end receives; else all of them.
    pub fn carrying(&self) -> u32 {
        match self.carrying.load(Ordering::Relaxed) {
            0 => self.connections(),
            carrying => carrying,
        }
    }

    /// Number of data connections that carried payload, as [`carrying`](Self::carrying) at its most.
    pub fn most_carrying(&self) -> u32 {
        match self.most_carrying.load(Ordering::Relaxed) {
            0 => self.connections(),
            most => most,
        }
    }

    /// The kernel's measurements of the path during a transfer that this end sends, its connections
    /// together, so far; `None` where no layer tells, and without [`measure`](Self::measure). All of
    /// it is told at the end.
    pub fn path(&self) -> Option<PathStats> {
        *self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel's measurements of the path during a transfer that this end receives: the sums of
    /// its connections, and the last round trip; as [`path`](Self::path), but without those of the
    /// end.
    pub fn arrival(&self) -> Option<PathStats> {
        *self.arrival.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last smoothed round trip of the data connections to each peer, of either direction, of
    /// those that were measured since the last call; measured as [`path`](Self::path).
    pub fn take_round_trips(&self) -> Vec<(Option<IpAddr>, Duration)> {
        std::mem::take(&mut *self.lock_round_trips())
    }

    fn lock_round_trips(&self) -> MutexGuard<'_, Vec<(Option<IpAddr>, Duration)>> {
        self.round_trips
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_round_trip(&self, peer: Option<IpAddr>, round_trip: Duration) {
        let mut all = self.lock_round_trips();
        if let Some((_, last)) = all.iter_mut().find(|(known, _)| *known == peer) {
            *last = round_trip;
        } else if all.len() < MOST_PEERS {
            all.push((peer, round_trip));
        }
    }

    /// Adds measurements of sent data that were not told before; their round trip is the last.
    pub(crate) fn add_path(&self, more: PathStats) {
        add(&self.path, more);
    }

    /// As [`add_path`](Self::add_path), of received data.
    pub(crate) fn add_arrival(&self, more: PathStats) {
        add(&self.arrival, more);
    }

    /// Notes the end of all data, and the rest of the path of sent data.
    pub(crate) fn end(&self, path: impl FnOnce() -> Option<PathStats>) {
        self.clock.end();
        if let Some(path) = self.measures().then(path).flatten() {
            self.add_path(path);
        }
    }

    /// Ranges written since the last call, in wire offsets.
    pub fn take_received(&self) -> RangeSet {
        self.arrived().take_new()
    }

    /// All ranges written so far, in wire offsets; valid also after an error.
    pub fn received(&self) -> RangeSet {
        self.arrived().received().clone()
    }

    /// Ends a tagged send cleanly without the rest of its bytes: the peer has refused the file and
    /// discards its data.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Reports that the data connections are open; `reused` if they served before.
    ///
    /// With [`connected`](Self::connected), [`moved`](Self::moved) and [`record`](Self::record) this
    /// lets a watch follow a transfer that runs on another host.
    pub fn open(&self, reused: bool) {
        let state = if reused { REUSED } else { FRESH };
        if self
            .opened
            .compare_exchange(CLOSED, state, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            self.clock.open();
            self.opening.notify_waiters();
        }
    }

    /// Counts data connections.
    pub fn connected(&self, more: u32) {
        self.connections.fetch_add(more, Ordering::Relaxed);
    }

    /// Sets the number of connections that take blocks.
    pub(crate) fn carry(&self, connections: u32) {
        self.carrying.store(connections, Ordering::Relaxed);
        self.most_carrying.fetch_max(connections, Ordering::Relaxed);
    }

    /// Counts a connection that brought payload.
    pub(crate) fn carried(&self) {
        let before = self.carrying.fetch_add(1, Ordering::Relaxed);
        self.most_carrying.fetch_max(before + 1, Ordering::Relaxed);
    }

    /// Counts a connection out that ended ahead of the others.
    pub(crate) fn uncarried(&self) {
        self.carrying.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts payload bytes.
    pub fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds written ranges, in wire offsets.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) when all written ranges are too many.
    pub fn record(&self, ranges: &RangeSet) -> Result<()> {
        let mut arrived = self.arrived();
        for range in ranges.iter() {
            arrived.record(range.start(), range.len())?;
        }
        Ok(())
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// The state of a receive. The lock is never held across a wait.
    pub(crate) fn arrived(&self) -> MutexGuard<'_, Gather> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds measurements to a sum; their round trip is the last.
fn add(sum: &Mutex<Option<PathStats>>, more: PathStats) {
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = sum.map_or(more, |sum| sum.and(more));
    if more.round_trip.is_some() {
        all.round_trip = more.round_trip;
        all.round_trip_variation = more.round_trip_variation;
    }
    *sum = Some(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_round_trip_is_told_once_for_each_peer() {
        let watch = Watch::new();
        let ms = Duration::from_millis;
        let peer = |n| Some(IpAddr::from([192, 0, 2, n]));
        for (at, now) in [(1, 40), (2, 80), (1, 60)] {
            watch.note_round_trip(peer(at), ms(now));
        }
        let expected = [(peer(1), ms(60)), (peer(2), ms(80))];
        assert_eq!(watch.take_round_trips(), expected);
        assert!(watch.take_round_trips().is_empty());
        for at in 0..=u8::MAX {
            watch.note_round_trip(peer(at), ms(1));
        }
        assert_eq!(watch.take_round_trips().len(), MOST_PEERS);
    }

    #[test]
    fn the_path_has_the_round_trip_of_the_last_look() {
        let watch = Watch::new();
        let mut look = PathStats::new();
        for ms in [90, 30] {
            (look.round_trip, look.sent) = (Some(Duration::from_millis(ms)), Some(5));
            watch.add_path(look);
        }
        watch.add_path(PathStats::new());
        look.sent = Some(10);
        assert_eq!(watch.path(), Some(look));
        assert_eq!(watch.arrival(), None);
    }
}

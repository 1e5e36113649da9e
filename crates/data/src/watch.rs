//! `Watch`: the state of a running transfer, readable from outside.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byte_ranges::RangeSet;
use digest_tree::{Hash, Piece};
use ftp_wire::command::Tag;
use ftp_wire::receipt::Receipt;
use gridftp_dsi::GroupValue;
use mode_e::{Gather, Limits};
use mode_e::{MAX_SECTIONS, SectionValue};
use tokio::sync::Notify;
use tokio::time::Instant;
use xio_core::PathStats;

use crate::digest::Digest;
use crate::earlier::Earlier;
use crate::error::{Error, Result, Wait};

const CLOSED: u8 = 0;
const FRESH: u8 = 1;
const REUSED: u8 = 2;

/// Bound on the peers with a round trip in memory; the other end chooses their addresses.
const MOST_PEERS: usize = 64;

/// A moment of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// No data connection is open yet.
    Opening,
    /// Data moves.
    Moving {
        /// Connections for which this end's storage works; the others wait for the peer.
        storage: u32,
        /// Data connections.
        connections: u32,
    },
    /// All data is through.
    Ended,
}

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
    /// Whether the transfer waits for the local producer or consumer.
    local: AtomicBool,
    /// Reads and writes of the storage in progress.
    storage: AtomicU32,
    /// Whether all data is through.
    ended: AtomicBool,
    /// Whether times and the path of sent data are to be measured, which costs a system call a
    /// connection and two looks at the clock a block.
    measures: AtomicBool,
    times: Mutex<Times>,
    path: Mutex<Option<PathStats>>,
    /// The last round trip of each peer that was not taken.
    round_trips: Mutex<Vec<(Option<IpAddr>, Duration)>>,
    /// Locked once a block by the transfer, once a tick by the reader of the watch.
    arrived: Mutex<Gather>,
    /// Whether to skip the rest of the file.
    cut: AtomicBool,
    digest: Mutex<Digest>,
    /// The digest that the sender of the data told on the data channel.
    told: Mutex<Option<Told>>,
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
            local: AtomicBool::new(false),
            storage: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            measures: AtomicBool::new(false),
            times: Mutex::default(),
            path: Mutex::default(),
            round_trips: Mutex::default(),
            arrived: Mutex::new(Gather::new(Limits::default())),
            cut: AtomicBool::new(false),
            digest: Mutex::default(),
            told: Mutex::default(),
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

    /// The stage of the transfer now.
    pub fn stage(&self) -> Stage {
        if self.ended.load(Ordering::Relaxed) {
            return Stage::Ended;
        }
        if !self.is_open() {
            return Stage::Opening;
        }
        let connections = self.connections().max(1);
        let storage = match self.is_local() {
            true => connections,
            false => self.storage.load(Ordering::Relaxed).min(connections),
        };
        Stage::Moving {
            storage,
            connections,
        }
    }

    /// Has the times of the transfer and the path of its data measured.
    pub fn measure(&self) {
        self.measures.store(true, Ordering::Relaxed);
    }

    pub(crate) fn measures(&self) -> bool {
        self.measures.load(Ordering::Relaxed)
    }

    /// The kernel's measurements of the path during a transfer that this end sends, its connections
    /// together, so far; `None` where no layer tells, and without [`measure`](Self::measure). All of
    /// it is told at the end.
    pub fn path(&self) -> Option<PathStats> {
        *self.path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time in which data moved, and the part of it in which this end's storage worked, averaged
    /// over the connections; zero before the end of the data, and without
    /// [`measure`](Self::measure).
    pub fn times(&self) -> (Duration, Duration) {
        let times = self.lock_times();
        let storage = times.storage / self.connections().max(1);
        (times.moving, storage.min(times.moving))
    }

    fn lock_times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, where it is measured.
    fn now(&self) -> Option<Instant> {
        self.measures().then(Instant::now)
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

    /// Adds measurements that were not told before; their round trip is the last.
    pub(crate) fn add_path(&self, more: PathStats) {
        let mut path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = path.map_or(more, |path| path.and(more));
        if more.round_trip.is_some() {
            all.round_trip = more.round_trip;
            all.round_trip_variation = more.round_trip_variation;
        }
        *path = Some(all);
    }

    /// Notes the end of all data, and the rest of the path of sent data.
    pub(crate) fn end(&self, path: impl FnOnce() -> Option<PathStats>) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(now) = self.now() {
            let mut times = self.lock_times();
            if let Some(opened) = times.opened {
                times.moving = now - opened;
            }
            drop(times);
            if let Some(path) = path() {
                self.add_path(path);
            }
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

    /// The receipt of a finished tagged transfer; `None` for any other.
    pub fn receipt(&self) -> Option<Receipt> {
        let (digest, bytes) = (self.digest(), self.bytes());
        digest
            .is_wanted()
            .then(|| Receipt::new(bytes, digest.value(bytes)))
    }

    /// Has the tagged transfer that begins now go on with the bytes of an earlier attempt: with their
    /// values its digest is that of the whole file, and without them none is told.
    pub fn go_on(&self, earlier: Option<Earlier>) {
        self.digest().go_on(earlier);
    }

    /// The values of groups of the file that were completed since the last call, in a transfer that
    /// [goes on](Self::go_on). Those of bytes that are [received](Self::received) are among them.
    pub fn take_groups(&self) -> Vec<GroupValue> {
        self.digest().take_groups()
    }

    /// Runs the transfer `work`, and hands the values of the groups that it completes to `take`, `every`
    /// so often and at its end.
    ///
    /// # Cancel safety
    /// As `work`; values that were not handed out are still to be [taken](Self::take_groups).
    pub async fn with_groups<T, F>(
        &self,
        every: Duration,
        work: impl Future<Output = T>,
        take: impl Fn(Vec<GroupValue>) -> F,
    ) -> T
    where
        F: Future<Output = ()>,
    {
        let taking = async {
            loop {
                tokio::time::sleep(every).await;
                take(self.take_groups()).await;
            }
        };
        let done = tokio::select! {
            biased;
            done = work => done,
            never = taking => match never {},
        };
        take(self.take_groups()).await;
        done
    }

    /// The BLAKE3 digest of the whole file after a transfer that proves all bytes
    /// ([`Extent::Whole`](ftp_wire::receipt::Extent::Whole)), where it is known; in lower-case
    /// hexadecimal.
    pub fn file_digest(&self) -> Option<String> {
        let digest = self.whole(self.bytes());
        digest.map(|digest| Hash::from(digest).to_string())
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
            self.lock_times().opened = self.now();
            self.opening.notify_waiters();
        }
    }

    /// Counts data connections.
    pub fn connected(&self, more: u32) {
        self.connections.fetch_add(more, Ordering::Relaxed);
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

    /// Begins the receipt of a tagged transfer from offset `start` on, in a file that begins at
    /// `base`.
    pub(crate) fn prove(&self, tag: Option<Tag>, start: u64, base: u64) {
        if let Some(tag) = tag {
            self.digest().begin(tag.extent, start, base);
        }
    }

    /// Number of bytes from `offset` on that the receipt needs in memory.
    pub(crate) fn to_digest(&self, offset: u64) -> u64 {
        self.digest().left(offset).map_or(0, |(_, left)| left)
    }

    /// Adds `data` at `offset` to the receipt.
    pub(crate) fn show(&self, offset: u64, data: &[u8]) {
        let left = self.digest().left(offset);
        if let Some((at, left)) = left.filter(|_| !data.is_empty()) {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let piece = Piece::of(at, data.get(..left).unwrap_or(data));
            self.digest().add(piece);
        }
    }

    /// The digest of the whole file after `bytes` bytes, where all of them are to be proven and it
    /// is known.
    pub(crate) fn whole(&self, bytes: u64) -> Option<[u8; 32]> {
        self.digest().whole(bytes)
    }

    /// The values of the sections of the file after `bytes` bytes, where its digest is known.
    pub(crate) fn sections(&self, bytes: u64) -> Vec<SectionValue> {
        self.digest().sections(bytes)
    }

    /// Notes the digest that the sender told.
    pub(crate) fn told(&self, digest: [u8; 32]) {
        let sections = Vec::new();
        *self.lock_told() = Some(Told { digest, sections });
    }

    /// Notes the value of the next section that the sender told, of at most as many as there are.
    pub(crate) fn told_section(&self, value: SectionValue) {
        if let Some(told) = &mut *self.lock_told()
            && told.sections.len() < MAX_SECTIONS
        {
            told.sections.push(value);
        }
    }

    fn lock_told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the data that arrived with the digest that its sender told.
    pub(crate) fn compare(&self) -> Result<()> {
        let told = self.lock_told().as_ref().map(|told| told.digest);
        match (told, self.whole(self.bytes())) {
            (Some(sent), Some(here)) if sent != here => Err(Error::corrupt(sent, here)),
            _ => Ok(()),
        }
    }

    /// The digest of the whole file, in lower-case hexadecimal, that the sender of the transfer told.
    pub fn told_digest(&self) -> Option<String> {
        let digest = self.lock_told().as_ref()?.digest;
        Some(Hash::from(digest).to_string())
    }

    /// The ranges of the file, in wire offsets, in which a copy that failed as
    /// [corrupt](crate::ErrorKind::Corrupt) differs from its source; both ends agree on all others.
    /// `None` where the sender told too little.
    pub fn differing(&self) -> Option<RangeSet> {
        let told = self.lock_told();
        let sections = &told.as_ref()?.sections;
        self.digest().differing(self.bytes(), sections)
    }

    /// The digest of the receipt. The lock is never held across a wait; only chunks at the ends of
    /// blocks are hashed under it.
    fn digest(&self) -> MutexGuard<'_, Digest> {
        self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn local(&self, yes: bool) {
        self.local.store(yes, Ordering::Relaxed);
        if let Some(now) = self.now() {
            let mut times = self.lock_times();
            if let Some(since) = times.local.take() {
                times.storage += (now - since) * self.connections().max(1);
            }
            times.local = yes.then_some(now);
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        self.local.load(Ordering::Relaxed)
    }

    /// Counts a read or a write of the storage until the result is dropped.
    pub(crate) fn storing(&self) -> Storing<'_> {
        self.storage.fetch_add(1, Ordering::Relaxed);
        Storing(self, self.now())
    }

    /// The party to blame while nothing is sent.
    pub(crate) fn sending(&self) -> Wait {
        if self.storage.load(Ordering::Relaxed) > 0 {
            Wait::Storage
        } else {
            Wait::Send
        }
    }

    /// The state of a receive. The lock is never held across a wait.
    pub(crate) fn arrived(&self) -> MutexGuard<'_, Gather> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digest of the whole file, and the values of its sections, as its sender computed them.
#[derive(Debug)]
struct Told {
    digest: [u8; 32],
    sections: Vec<SectionValue>,
}

/// A read or a write of the storage in progress.
pub(crate) struct Storing<'a>(&'a Watch, Option<Instant>);

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let Self(watch, since) = self;
        watch.storage.fetch_sub(1, Ordering::Relaxed);
        if let Some(since) = since {
            watch.lock_times().storage += since.elapsed();
        }
    }
}

/// The times of a transfer.
#[derive(Debug, Default)]
struct Times {
    opened: Option<Instant>,
    moving: Duration,
    /// Begin of a wait for the local producer or consumer.
    local: Option<Instant>,
    /// Time of the storage, summed over the connections that it worked for.
    storage: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn times_are_those_of_the_storage_for_each_connection() {
        let second = Duration::from_secs(1);
        for measures in [false, true] {
            let watch = Watch::new();
            if measures {
                watch.measure();
            }
            watch.connected(2);
            watch.open(false);
            let one = watch.storing();
            tokio::time::advance(second).await;
            drop(one);
            watch.local(true);
            tokio::time::advance(second).await;
            watch.local(false);
            tokio::time::advance(second).await;
            watch.end(|| None);
            let expected = (3 * second, second * 3 / 2);
            let expected = if measures {
                expected
            } else {
                Default::default()
            };
            assert_eq!(watch.times(), expected);
        }
    }

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
    }
}

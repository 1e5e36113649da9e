//! `Tally`: what passed so far, counted by all connections of a session.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use xio::{Info, PathStats};

/// What passed so far; connections add to it, reports read it.
#[derive(Debug)]
pub(crate) struct Tally {
    sent: AtomicU64,
    received: AtomicU64,
    streams: AtomicU64,
    made: Instant,
    /// When all connections were open, in nanoseconds from `made`.
    begun: AtomicU64,
    /// When bytes last came, in nanoseconds from `made`.
    arrived: AtomicU64,
    /// When all had passed, where an end only waited after that.
    over: Mutex<Option<Instant>>,
    /// Of `--ping`: nanoseconds a turn.
    turns: Mutex<Histogram<u64>>,
    path: Mutex<PathStats>,
}

impl Tally {
    /// Nothing yet; the session begins now, or with the last connection before the first byte.
    pub(crate) fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            made: Instant::now(),
            begun: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            over: Mutex::new(None),
            turns: Mutex::new(no_turns()),
            path: Mutex::new(PathStats::new()),
        }
    }

    pub(crate) fn add_sent(&self, n: usize) {
        self.sent.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, n: usize) {
        self.received.fetch_add(n as u64, Ordering::Relaxed);
        let at = nanoseconds(self.made.elapsed());
        self.arrived.fetch_max(at, Ordering::Relaxed);
    }

    /// When the session began.
    pub(crate) fn begun(&self) -> Instant {
        self.made + Duration::from_nanos(self.begun.load(Ordering::Relaxed))
    }

    /// When bytes last came.
    pub(crate) fn arrived(&self) -> Instant {
        self.made + Duration::from_nanos(self.arrived.load(Ordering::Relaxed))
    }

    /// What came after `at` was waiting only.
    pub(crate) fn end_at(&self, at: Instant) {
        let mut over = lock(&self.over);
        *over = (*over).max(Some(at));
    }

    /// When all had passed: now, or when nothing was left but waiting.
    pub(crate) fn over(&self) -> Instant {
        lock(&self.over).unwrap_or_else(Instant::now)
    }

    /// One more connection was opened: until a byte passes, the session has not begun.
    pub(crate) fn add_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
        if self.sent() + self.received() == 0 {
            let at = nanoseconds(self.made.elapsed());
            self.begun.fetch_max(at, Ordering::Relaxed);
        }
    }

    /// Adds the turns that one connection timed.
    pub(crate) fn add_turns(&self, turns: &Histogram<u64>) {
        let mut all = lock(&self.turns);
        // Both have the same bounds, which is all that can differ.
        let _fits = all.add(turns);
    }

    /// Adds what a connection's drivers know of the path: counts add up, of times the last stands.
    pub(crate) fn add_path(&self, info: &Info) {
        let mut path = lock(&self.path);
        for stats in info.all::<PathStats>() {
            path.round_trip = stats.round_trip.or(path.round_trip);
            path.round_trip_variation = stats.round_trip_variation.or(path.round_trip_variation);
            path.sent = sum(path.sent, stats.sent);
            path.retransmitted = sum(path.retransmitted, stats.retransmitted);
            path.lost = sum(path.lost, stats.lost);
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    pub(crate) fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }

    pub(crate) fn turns(&self) -> Histogram<u64> {
        lock(&self.turns).clone()
    }

    pub(crate) fn path(&self) -> PathStats {
        *lock(&self.path)
    }
}

/// An empty histogram of nanoseconds up to a minute, three digits exact.
pub(crate) fn no_turns() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).expect("bounds and digits are within what it takes")
}

/// A time as histograms hold it.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time that this process used so far.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// A poisoned lock still guards plain numbers.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn opening_connections_takes_no_time_of_the_session() {
        let second = Duration::from_secs(1);
        let tally = Tally::new();
        for _ in 0..3 {
            tokio::time::advance(second).await;
            tally.add_stream();
        }
        assert_eq!(tally.begun(), Instant::now());
        tokio::time::advance(second).await;
        tally.add_received(1);
        assert_eq!(tally.arrived() - tally.begun(), second);
        tally.add_stream();
        assert_eq!(tally.over() - tally.begun(), second);
    }
}

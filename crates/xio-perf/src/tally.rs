//! `Tally`: counters shared by all connections of a session.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use xio::{Info, PathStats};

/// Counters of a session: connections add to them, reports read them.
#[derive(Debug)]
pub(crate) struct Tally {
    sent: AtomicU64,
    received: AtomicU64,
    streams: AtomicU64,
    made: Instant,
    /// Time at which all connections were open, in nanoseconds from `made`.
    begun: AtomicU64,
    /// Time of the last received bytes, in nanoseconds from `made`.
    arrived: AtomicU64,
    /// End of the transfer, if an end waited after it.
    over: Mutex<Option<Instant>>,
    /// Round-trip times of `--ping` in nanoseconds.
    turns: Mutex<Histogram<u64>>,
    path: Mutex<PathStats>,
}

impl Tally {
    /// Creates empty counters. The session starts now, or with the last connection before any data.
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

    /// Returns the start of the session.
    pub(crate) fn begun(&self) -> Instant {
        self.made + Duration::from_nanos(self.begun.load(Ordering::Relaxed))
    }

    /// Returns the time of the last received bytes.
    pub(crate) fn arrived(&self) -> Instant {
        self.made + Duration::from_nanos(self.arrived.load(Ordering::Relaxed))
    }

    /// Excludes the time after `at` from the session.
    pub(crate) fn end_at(&self, at: Instant) {
        let mut over = lock(&self.over);
        *over = (*over).max(Some(at));
    }

    /// Returns the end of the session: the time of [`end_at`](Self::end_at), or now.
    pub(crate) fn over(&self) -> Instant {
        lock(&self.over).unwrap_or_else(Instant::now)
    }

    /// Counts an opened connection; before any data it moves the start of the session.
    pub(crate) fn add_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
        if self.sent() + self.received() == 0 {
            let at = nanoseconds(self.made.elapsed());
            self.begun.fetch_max(at, Ordering::Relaxed);
        }
    }

    /// Adds the round-trip times of one connection.
    pub(crate) fn add_turns(&self, turns: &Histogram<u64>) {
        let mut all = lock(&self.turns);
        // Both have the same bounds, so that the addition succeeds.
        let _fits = all.add(turns);
    }

    /// Adds a connection's path statistics.
    pub(crate) fn add_path(&self, info: &Info) {
        let mut path = lock(&self.path);
        for stats in info.all::<PathStats>() {
            *path = path.and(*stats);
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

/// Returns an empty histogram of nanoseconds up to a minute, with three significant digits.
pub(crate) fn no_turns() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).expect("the bounds and digits are valid")
}

/// Converts a time to nanoseconds.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the processor time of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

/// Locks a mutex; its numbers are valid after a panic too.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_starts_with_its_last_connection() {
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

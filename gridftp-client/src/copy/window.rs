//! `Window`: how much one connection may have under way, in commands and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

/// Transfers under way on one connection at most; servers queue 1,000 commands, and a file may
/// take a few.
pub(crate) const COMMANDS: usize = 256;
/// Bytes under way on one connection, beyond which no further transfer is asked for, so that no
/// connection takes all the work: at first, and at most where the path holds more.
const BYTES: (u64, u64) = (8 << 20, 256 << 20);
/// Multiple of the bytes that a path holds. A copy that its window limits doubles it each period.
const AHEAD: f64 = 2.0;
/// Share of the window of one transfer of many small files: twice their largest data.
const OF_SMALL: u64 = 512 << 10;
/// Small files that count as one transfer: their jobs cost memory, too.
const SMALL: usize = 16;
/// Transfers that may always be under way: the next is asked for while one runs.
const ALWAYS: usize = 2;

/// Bytes that may be under way on each connection of a copy.
#[derive(Debug, Clone)]
pub(crate) struct Bound(Arc<AtomicU64>);

impl Default for Bound {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(BYTES.0)))
    }
}

impl Bound {
    /// Lets the path of a connection be full, which moves `rate` bytes a second.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not below 0, and bounded"
    )]
    pub(crate) fn fit(&self, rate: f64, round_trip: Duration) {
        let path = (AHEAD * rate * round_trip.as_secs_f64()) as u64;
        self.0
            .store(path.clamp(BYTES.0, BYTES.1), Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts the transfers under way.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    inner: Arc<Inner>,
    bound: Bound,
    /// Transfers under way at most.
    most: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            inner: Arc::default(),
            bound: Bound::default(),
            most: COMMANDS,
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    count: AtomicUsize,
    bytes: AtomicU64,
    less: Notify,
}

/// One transfer under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    window: Window,
    count: usize,
    bytes: u64,
}

impl Window {
    /// The window of one of `connections`, on which each transfer under way holds a local file
    /// open. A connection has at most the bytes of `bound` under way.
    pub(crate) fn of_files(connections: u32, bound: Bound) -> Self {
        Self {
            bound,
            ..Self::within(getrlimit(Resource::Nofile).current, connections)
        }
    }

    /// Half of the `descriptors` that the process may have, shared by all connections; the rest is
    /// for sockets and pipes.
    fn within(descriptors: Option<u64>, connections: u32) -> Self {
        let each = descriptors.unwrap_or(u64::MAX) / 2 / u64::from(connections.max(1));
        Self {
            most: usize::try_from(each).map_or(COMMANDS, |each| each.clamp(ALWAYS, COMMANDS)),
            ..Self::default()
        }
    }

    /// Transfers under way at most.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Waits until one more may be under way.
    pub(crate) async fn room(&self) {
        loop {
            let less = self.inner.less.notified();
            tokio::pin!(less);
            less.as_mut().enable();
            let count = self.inner.count.load(Ordering::Relaxed);
            let bytes = self.inner.bytes.load(Ordering::Relaxed);
            if count < ALWAYS || (count < self.most && bytes < self.bound.bytes()) {
                return;
            }
            less.await;
        }
    }

    /// Counts a transfer in.
    pub(crate) fn enter(&self, bytes: u64) -> UnderWay {
        self.enter_as(1, bytes)
    }

    /// Counts a transfer of so many small files in.
    pub(crate) fn enter_small(&self, files: usize) -> UnderWay {
        self.enter_as(files.div_ceil(SMALL), OF_SMALL)
    }

    fn enter_as(&self, count: usize, bytes: u64) -> UnderWay {
        self.inner.count.fetch_add(count, Ordering::Relaxed);
        self.inner.bytes.fetch_add(bytes, Ordering::Relaxed);
        UnderWay {
            window: self.clone(),
            count,
            bytes,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let inner = &self.window.inner;
        inner.count.fetch_sub(self.count, Ordering::Relaxed);
        inner.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        inner.less.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_together_leave_half_of_the_descriptors() {
        let most = |descriptors, connections| Window::within(descriptors, connections).most;
        assert_eq!(most(Some(1024), 4), 128);
        assert_eq!(most(Some(1024), 16), 32);
        assert_eq!(most(Some(10), 64), ALWAYS);
        assert_eq!(most(Some(1 << 20), 4), COMMANDS);
        assert_eq!(most(None, 0), COMMANDS);
    }

    #[tokio::test(start_paused = true)]
    async fn two_always_fit_and_many_small_ones() {
        let window = Window::default();
        let large: Vec<_> = (0..ALWAYS).map(|_| window.enter(BYTES.0 * 10)).collect();
        let waiting = tokio::spawn({
            let window = window.clone();
            async move { window.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(large);
        waiting.await.unwrap();
        let small: Vec<_> = (0..COMMANDS).map(|_| window.enter(1)).collect();
        assert!(
            tokio::time::timeout(Duration::from_secs(1), window.room())
                .await
                .is_err()
        );
        drop(small);
        window.room().await;
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_small_files_are_under_way_and_no_more() {
        let window = Window {
            bound: Bound(Arc::new(AtomicU64::new(BYTES.1))),
            ..Window::default()
        };
        let mut under_way = Vec::new();
        while timeout(window.room()).await {
            under_way.push(window.enter_small(512));
        }
        assert_eq!(under_way.len() * 512, SMALL * COMMANDS);
        drop(under_way);
        assert!(timeout(window.room()).await);
    }

    async fn timeout(room: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(Duration::from_secs(1), room)
            .await
            .is_ok()
    }

    #[test]
    fn a_long_fast_path_has_more_bytes_under_way() {
        let bound = Bound::default();
        let far = Duration::from_millis(200);
        for (rate, bytes) in [(1e6, BYTES.0), (125e6, 50_000_000), (12.5e9, BYTES.1)] {
            bound.fit(rate, far);
            assert_eq!(bound.bytes(), bytes, "{rate}");
        }
    }

    /// A window that limits a copy to its bytes in a round trip grows until the path does.
    #[test]
    fn a_window_grows_until_the_path_is_full() {
        let (bound, far, link) = (Bound::default(), Duration::from_millis(200), 125e6);
        let rate = |bytes: u64| (f64::from(u32::try_from(bytes).unwrap()) / 0.2).min(link);
        for _ in 0..4 {
            bound.fit(rate(bound.bytes()), far);
        }
        assert!(rate(bound.bytes()) >= link);
    }
}

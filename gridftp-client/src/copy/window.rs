//! `Window`: how much one connection may have under way, in commands and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

/// Transfers under way on one connection at most; servers queue 1,000 commands, and a file may
/// take a few.
pub(crate) const COMMANDS: usize = 256;
/// Bytes under way on one connection, beyond which no further transfer is asked for, so that no
/// connection takes all the work.
const BYTES: u64 = 8 << 20;
/// Transfers that may always be under way: the next is asked for while one runs.
const ALWAYS: usize = 2;

/// Counts the transfers under way.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    inner: Arc<Inner>,
    /// Transfers under way at most.
    most: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            inner: Arc::default(),
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
    bytes: u64,
}

impl Window {
    /// The window of one of `connections`, on which each transfer under way holds a local file
    /// open.
    pub(crate) fn of_files(connections: u32) -> Self {
        Self::within(getrlimit(Resource::Nofile).current, connections)
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
            if count < ALWAYS || (count < self.most && bytes < BYTES) {
                return;
            }
            less.await;
        }
    }

    /// Counts a transfer in.
    pub(crate) fn enter(&self, bytes: u64) -> UnderWay {
        self.inner.count.fetch_add(1, Ordering::Relaxed);
        self.inner.bytes.fetch_add(bytes, Ordering::Relaxed);
        UnderWay {
            window: self.clone(),
            bytes,
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let inner = &self.window.inner;
        inner.count.fetch_sub(1, Ordering::Relaxed);
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
        let large: Vec<_> = (0..ALWAYS).map(|_| window.enter(BYTES * 10)).collect();
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
            tokio::time::timeout(std::time::Duration::from_secs(1), window.room())
                .await
                .is_err()
        );
        drop(small);
        window.room().await;
    }
}

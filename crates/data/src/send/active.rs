//! `Active`: the connections that carry blocks of a running file, and those that wait to.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use xio_core::PathStats;

use super::widen::{Period, Widening};
use crate::limit::Limit;
use crate::watch::Watch;

/// The state of the connections of one transfer, by their index.
#[derive(Debug)]
pub(super) struct Active {
    /// The first connections, which carry blocks.
    number: AtomicUsize,
    /// Whether the number is final, so that the others can end.
    is_final: AtomicBool,
    changed: Notify,
}

/// The next action of a connection that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// To take the next block or the end of the schedule.
    Take,
    /// To end ahead of the others.
    End,
}

impl Active {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number: AtomicUsize::new(number),
            is_final: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// Waits until connection `index` carries blocks, all blocks are taken, or it is not needed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn turn(&self, index: usize) -> Turn {
        loop {
            // The task of the transfer polls this future at each of its wakes, so a connection that
            // carries blocks must not get to the list of the waiting.
            if index < self.number.load(Ordering::Relaxed) {
                return Turn::Take;
            }
            let changed = self.changed.notified();
            if index < self.number.load(Ordering::Relaxed) {
                return Turn::Take;
            }
            if self.is_final.load(Ordering::Relaxed) {
                return Turn::End;
            }
            changed.await;
        }
    }

    /// Has the first `number` connections carry blocks.
    fn set(&self, number: usize) {
        if self.number.swap(number, Ordering::Relaxed) != number {
            self.changed.notify_waiters();
        }
    }

    /// Has every connection take the end of the schedule.
    pub(super) fn drain(&self) {
        self.set(usize::MAX);
    }

    /// Ends the connections that do not carry blocks.
    fn settle(&self) {
        self.is_final.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Measures the transfer in periods, and widens or narrows it until the number is final.
    ///
    /// # Cancel safety
    /// The connections keep their state.
    pub(super) async fn widen(&self, mut widening: Widening, watch: &Watch) -> Infallible {
        let (mut bytes, mut path) = (watch.bytes(), PathStats::new());
        while !widening.is_final() {
            let since = Instant::now();
            sleep(Widening::period(path.round_trip)).await;
            let took = since.elapsed();
            let now = watch.path().unwrap_or_default();
            let passed = now.since(path);
            let limit = Limit::of(&passed, took.saturating_mul(widening.active()));
            let sent = watch.bytes();
            let before = widening.active();
            widening.handle(&Period {
                took,
                bytes: sent.saturating_sub(bytes),
                limit,
                resent: passed.resent().unwrap_or(0.0),
            });
            (bytes, path) = (sent, now);
            // A drained schedule has ended all waits already.
            if widening.active() != before && self.number.load(Ordering::Relaxed) != usize::MAX {
                tracing::debug!(connections = widening.active(), "width of the file changed");
                watch.carry(widening.active());
                self.set(usize::try_from(widening.active()).unwrap_or(usize::MAX));
            }
        }
        self.settle();
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_waits_until_it_is_needed_or_not() {
        let active = Active::new(1);
        assert_eq!(active.turn(0).await, Turn::Take);
        let (turn, ()) = tokio::join!(active.turn(1), async { active.set(2) });
        assert_eq!(turn, Turn::Take);
        let (turn, ()) = tokio::join!(active.turn(2), async { active.settle() });
        assert_eq!(turn, Turn::End);
        active.drain();
        assert_eq!(active.turn(2).await, Turn::Take);
    }
}

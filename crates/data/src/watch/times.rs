//! The part of a `Watch` that tells where the time of its transfer goes: to the storage, to digests, or
//! to waits for the peer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Watch;
use crate::error::Wait;

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
        /// Whether this end hashes bytes that pass, for which all other connections wait.
        hashes: bool,
        /// Data connections that carry payload.
        connections: u32,
    },
    /// All data is through.
    Ended,
}

/// Where the time of a transfer has gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// Time in which data has moved.
    pub moving: Duration,
    /// Part of it in which this end's storage worked, averaged over the connections.
    pub storage: Duration,
    /// Part of it in which this end hashed bytes that passed.
    pub digests: Duration,
}

/// The present work of a transfer, and the times of its past.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Whether the transfer waits for the local producer or consumer.
    local: AtomicBool,
    /// Reads and writes of the storage in progress.
    storage: AtomicU32,
    /// Whether bytes that pass are hashed now.
    hashes: AtomicBool,
    /// Whether all data is through.
    ended: AtomicBool,
    /// Whether times and the path of sent data are to be measured, which costs a system call a
    /// connection and four looks at the clock a block.
    measures: AtomicBool,
    past: Mutex<Past>,
}

/// The times of a transfer.
#[derive(Debug, Default)]
struct Past {
    opened: Option<Instant>,
    moving: Duration,
    /// Begin of a wait for the local producer or consumer.
    local: Option<Instant>,
    /// The waits for it that ended, of all connections together.
    waited: Duration,
    /// Time of the storage, summed over the connections that it worked for.
    storage: Duration,
    digests: Duration,
}

impl Clock {
    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, where it is measured.
    fn now(&self) -> Option<Instant> {
        let measures = self.measures.load(Ordering::Relaxed);
        measures.then(Instant::now)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Notes that the data connections are open.
    pub(super) fn open(&self) {
        self.past().opened = self.now();
    }

    /// Notes the end of all data.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(now) = self.now() {
            let mut past = self.past();
            if let Some(opened) = past.opened {
                past.moving = now - opened;
            }
        }
    }
}

impl Watch {
    /// The stage of the transfer now.
    pub fn stage(&self) -> Stage {
        if self.clock.has_ended() {
            return Stage::Ended;
        }
        if !self.is_open() {
            return Stage::Opening;
        }
        let connections = self.carrying().max(1);
        let storage = match self.is_local() {
            true => connections,
            false => self.clock.storage.load(Ordering::Relaxed),
        };
        Stage::Moving {
            storage: storage.min(connections),
            hashes: self.clock.hashes.load(Ordering::Relaxed),
            connections,
        }
    }

    /// Has the times of the transfer and the path of its data measured.
    pub fn measure(&self) {
        self.clock.measures.store(true, Ordering::Relaxed);
    }

    pub(crate) fn measures(&self) -> bool {
        self.clock.measures.load(Ordering::Relaxed)
    }

    /// Where the time has gone so far; zero before the data, and without [`measure`](Self::measure).
    pub fn times(&self) -> Times {
        let now = self.clock.now().filter(|_| !self.clock.has_ended());
        let past = self.clock.past();
        let moving = match (now, past.opened) {
            (Some(now), Some(opened)) => now.saturating_duration_since(opened),
            _ => past.moving,
        };
        let storage = past.waited + past.storage / self.most_carrying().max(1);
        let storage = storage.min(moving);
        Times {
            moving,
            storage,
            digests: past.digests.min(moving - storage),
        }
    }

    pub(crate) fn local(&self, yes: bool) {
        self.clock.local.store(yes, Ordering::Relaxed);
        if let Some(now) = self.clock.now() {
            let mut past = self.clock.past();
            if let Some(since) = past.local.take() {
                past.waited += now - since;
            }
            past.local = yes.then_some(now);
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        self.clock.local.load(Ordering::Relaxed)
    }

    /// Counts a read or a write of the storage until the result is dropped.
    pub(crate) fn storing(&self) -> Storing<'_> {
        self.clock.storage.fetch_add(1, Ordering::Relaxed);
        Storing(&self.clock, self.clock.now())
    }

    /// The party to blame while nothing is sent.
    pub(crate) fn sending(&self) -> Wait {
        if self.clock.storage.load(Ordering::Relaxed) > 0 {
            Wait::Storage
        } else {
            Wait::Send
        }
    }

    /// Counts the time of `work`, which hashes bytes that pass.
    pub(super) fn hashing(&self, work: impl FnOnce()) {
        self.clock.hashes.store(true, Ordering::Relaxed);
        let since = self.clock.now();
        work();
        self.clock.hashes.store(false, Ordering::Relaxed);
        if let Some(since) = since {
            self.clock.past().digests += since.elapsed();
        }
    }
}

/// A read or a write of the storage in progress.
pub(crate) struct Storing<'a>(&'a Clock, Option<Instant>);

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let Self(clock, since) = self;
        clock.storage.fetch_sub(1, Ordering::Relaxed);
        if let Some(since) = since {
            clock.past().storage += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::command::Tag;
    use ftp_wire::receipt::Extent;

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
            let expected = match measures {
                true => Times {
                    moving: 3 * second,
                    storage: second * 3 / 2,
                    digests: Duration::ZERO,
                },
                false => Times::default(),
            };
            assert_eq!(watch.times(), expected);
            watch.end(|| None);
            tokio::time::advance(second).await;
            assert_eq!(watch.times(), expected);
        }
    }

    #[test]
    fn digests_of_passing_bytes_take_their_time() {
        let bytes = vec![0; 8 << 20];
        for (extent, hashes) in [(Some(Extent::Whole), true), (None, false)] {
            let watch = Watch::new();
            watch.measure();
            watch.prove(extent.map(|extent| Tag::new(1, extent)), 0, 0);
            watch.open(false);
            watch.show(0, &bytes);
            assert_eq!(watch.times().digests > Duration::ZERO, hashes);
            watch.hashing(|| assert_eq!(watch.stage(), moving(true)));
            assert_eq!(watch.stage(), moving(false));
        }
    }

    fn moving(hashes: bool) -> Stage {
        Stage::Moving {
            storage: 0,
            hashes,
            connections: 1,
        }
    }
}

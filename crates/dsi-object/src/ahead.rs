//! `Ahead`: the digest of an upload, computed from its parts as they pass in order.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gridftp_dsi::ChecksumAlgorithm;
use gridftp_dsi::hasher::Hasher;
use tokio::sync::Notify;

/// Longest wait of a part for those before it. It holds its memory meanwhile.
const TURN: Duration = Duration::from_secs(30);

/// A digest in the making.
#[derive(Debug)]
pub(crate) struct Ahead {
    algorithm: ChecksumAlgorithm,
    state: Mutex<State>,
    /// A part was hashed, or hashing was given up.
    moved: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` while a part is hashed, and once hashing was given up.
    hasher: Option<Hasher>,
    /// Offset of the next byte.
    next: u64,
    is_given_up: bool,
}

impl Ahead {
    pub(crate) fn new(algorithm: ChecksumAlgorithm, hasher: Hasher) -> Self {
        Self {
            algorithm,
            state: Mutex::new(State {
                hasher: Some(hasher),
                next: 0,
                is_given_up: false,
            }),
            moved: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hashes a part after all before it. One that waits too long for its turn, or comes again, ends
    /// the computation.
    pub(crate) async fn pass(&self, offset: u64, data: Bytes) {
        let len = data.len() as u64;
        let turn = tokio::time::timeout(TURN, self.turn(offset));
        let hashed = match turn.await.ok().flatten() {
            None => None,
            Some(mut hasher) => {
                let hashing = tokio::task::spawn_blocking(move || {
                    hasher.update(&data);
                    hasher
                });
                hashing.await.ok()
            }
        };
        let mut state = self.state();
        match hashed {
            Some(hasher) => (state.hasher, state.next) = (Some(hasher), offset + len),
            None => state.is_given_up = true,
        }
        drop(state);
        self.moved.notify_waiters();
    }

    /// Waits until all bytes before `offset` are hashed.
    async fn turn(&self, offset: u64) -> Option<Hasher> {
        loop {
            let moved = self.moved.notified();
            {
                let mut state = self.state();
                if state.is_given_up || offset < state.next {
                    return None;
                }
                if offset == state.next && state.hasher.is_some() {
                    return state.hasher.take();
                }
            }
            moved.await;
        }
    }

    /// Whether there will be no digest.
    pub(crate) fn is_given_up(&self) -> bool {
        self.state().is_given_up
    }

    /// The digest of the first `size` bytes, if those and no others were hashed.
    pub(crate) fn digest(&self, algorithm: ChecksumAlgorithm, size: u64) -> Option<String> {
        let mut state = self.state();
        if state.is_given_up || state.next != size || algorithm != self.algorithm {
            return None;
        }
        state.hasher.take().map(Hasher::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead() -> Ahead {
        let algorithm = ChecksumAlgorithm::Md5;
        Ahead::new(algorithm, Hasher::new(algorithm).unwrap())
    }

    fn digest(ahead: &Ahead, size: u64) -> Option<String> {
        ahead.digest(ChecksumAlgorithm::Md5, size)
    }

    #[tokio::test]
    async fn parts_are_hashed_in_order_whichever_comes_first() {
        let ahead = ahead();
        let part =
            |offset, text: &'static str| ahead.pass(offset, Bytes::from_static(text.as_bytes()));
        tokio::join!(part(2, "c"), part(0, "a"), part(1, "b"));
        assert_eq!(digest(&ahead, 2), None);
        let abc = "900150983cd24fb0d6963f7d28e17f72";
        assert_eq!(digest(&ahead, 3).as_deref(), Some(abc));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_part_and_one_that_comes_again_end_the_computation() {
        let missing = ahead();
        missing.pass(1, Bytes::from_static(b"b")).await;
        missing.pass(0, Bytes::from_static(b"a")).await;
        assert_eq!(digest(&missing, 1), None);
        let again = ahead();
        again.pass(0, Bytes::from_static(b"a")).await;
        again.pass(0, Bytes::from_static(b"x")).await;
        assert_eq!(digest(&again, 1), None);
    }
}

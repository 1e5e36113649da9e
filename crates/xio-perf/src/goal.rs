//! `Goal`: how much is to be moved, shared by the connections of a session.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// How much one direction of a session is to move; connections take their parts from it.
#[derive(Debug)]
pub(crate) struct Goal {
    left: AtomicU64,
    limited: bool,
    until: Option<Instant>,
}

impl Goal {
    /// At most `bytes`, and nothing after `until`.
    pub(crate) fn new(bytes: Option<u64>, until: Option<Instant>) -> Self {
        Self {
            left: AtomicU64::new(bytes.unwrap_or(u64::MAX)),
            limited: bytes.is_some(),
            until,
        }
    }

    /// When to stop, reached or not.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether it goes on until the peer has had enough.
    pub(crate) fn is_endless(&self) -> bool {
        !self.limited && self.until.is_none()
    }

    /// How much of `want` is still to come, without taking it.
    pub(crate) fn left(&self, want: usize) -> usize {
        if self.limited {
            let left = self.left.load(Ordering::Relaxed);
            want.min(usize::try_from(left).unwrap_or(usize::MAX))
        } else {
            want
        }
    }

    /// Takes at most `want` bytes; 0 when nothing is left to do.
    pub(crate) fn take(&self, want: usize) -> usize {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return 0;
        }
        if !self.limited {
            return want;
        }
        let want = want as u64;
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(want))
            })
            .map_or(0, |left| left.min(want));
        usize::try_from(taken).unwrap_or(usize::MAX)
    }

    /// Gives back what was taken and not moved.
    pub(crate) fn give_back(&self, unused: usize) {
        if self.limited {
            self.left.fetch_add(unused as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_together_take_no_more_than_there_is() {
        let goal = Goal::new(Some(10), None);
        assert_eq!(goal.take(4), 4);
        goal.give_back(1);
        assert_eq!(goal.take(100), 7);
        assert_eq!(goal.take(1), 0);
        assert!(!goal.is_endless());
        assert!(Goal::new(None, None).is_endless());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_taken_after_the_time() {
        let end = Instant::now() + std::time::Duration::from_secs(1);
        let goal = Goal::new(None, Some(end));
        assert_eq!(goal.take(5), 5);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(goal.take(5), 0);
    }
}

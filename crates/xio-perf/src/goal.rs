//! `Goal`: how much is to be moved, shared by the connections of a session.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How much one direction of a session is to move; connections take their parts from it.
#[derive(Debug)]
pub(crate) struct Goal {
    left: AtomicU64,
    limited: bool,
    time: Option<Duration>,
    begun: OnceLock<Instant>,
}

impl Goal {
    /// At most `bytes`, and nothing after `time`, counted from the first look at it.
    pub(crate) fn new(bytes: Option<u64>, time: Option<Duration>) -> Self {
        Self {
            left: AtomicU64::new(bytes.unwrap_or(u64::MAX)),
            limited: bytes.is_some(),
            time,
            begun: OnceLock::new(),
        }
    }

    /// When to stop, reached or not.
    pub(crate) fn until(&self) -> Option<Instant> {
        let begun = self.begun.get_or_init(Instant::now);
        self.time.map(|time| *begun + time)
    }

    /// Whether it goes on until the peer has had enough.
    pub(crate) fn is_endless(&self) -> bool {
        !self.limited && self.time.is_none()
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

    /// How many bytes are still to come; none where the time is what counts.
    pub(crate) fn missing(&self) -> u64 {
        match self.limited && self.time.is_none() {
            true => self.left.load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// Takes at most `want` bytes; 0 when nothing is left to do.
    pub(crate) fn take(&self, want: usize) -> usize {
        if self.until().is_some_and(|until| Instant::now() >= until) {
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
        let goal = Goal::new(None, Some(Duration::from_secs(1)));
        // What goes before the first look does not count.
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(goal.take(5), 5);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(goal.take(5), 0);
    }
}

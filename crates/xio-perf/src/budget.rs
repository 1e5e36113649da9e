//! `Budget`: the bytes or the time of a session, shared by its connections.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The budget of one direction of a session, from which connections take their parts.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicU64,
    limited: bool,
    time: Option<Duration>,
    begun: OnceLock<Instant>,
}

impl Budget {
    /// Creates a budget of at most `bytes` and `time`, which starts at the first use.
    pub(crate) fn new(bytes: Option<u64>, time: Option<Duration>) -> Self {
        Self {
            left: AtomicU64::new(bytes.unwrap_or(u64::MAX)),
            limited: bytes.is_some(),
            time,
            begun: OnceLock::new(),
        }
    }

    /// Returns the end of the time, if limited.
    pub(crate) fn until(&self) -> Option<Instant> {
        let begun = self.begun.get_or_init(Instant::now);
        self.time.map(|time| *begun + time)
    }

    /// Returns whether neither bytes nor time are limited.
    pub(crate) fn is_endless(&self) -> bool {
        !self.limited && self.time.is_none()
    }

    /// Returns how many of `want` bytes are left, without taking them.
    pub(crate) fn left(&self, want: usize) -> usize {
        if self.limited {
            let left = self.left.load(Ordering::Relaxed);
            want.min(usize::try_from(left).unwrap_or(usize::MAX))
        } else {
            want
        }
    }

    /// Returns the number of missing bytes; 0 if the time is limited.
    pub(crate) fn missing(&self) -> u64 {
        match self.limited && self.time.is_none() {
            true => self.left.load(Ordering::Relaxed),
            false => 0,
        }
    }

    /// Takes at most `want` bytes; returns 0 when the budget is reached.
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

    /// Returns unused bytes to the budget.
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
    fn connections_together_take_the_limit_only() {
        let budget = Budget::new(Some(10), None);
        assert_eq!(budget.take(4), 4);
        budget.give_back(1);
        assert_eq!(budget.take(100), 7);
        assert_eq!(budget.take(1), 0);
        assert!(!budget.is_endless());
        assert!(Budget::new(None, None).is_endless());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_taken_after_the_time() {
        let budget = Budget::new(None, Some(Duration::from_secs(1)));
        // Time before the first use is not counted.
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(budget.take(5), 5);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(budget.take(5), 0);
    }
}

//! `Outage`: the time of a server that is gone, and the moments in which that is told.

use std::time::{Duration, Instant};

/// Interval of telling that a server is still waited for.
const EVERY: Duration = Duration::from_secs(30);

/// A server that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outage {
    since: Instant,
    told: Option<Instant>,
}

impl Outage {
    pub(super) const fn new(since: Instant) -> Self {
        Self { since, told: None }
    }

    /// The time for which the server is still tried, of `within` in all; `None` where that was told a
    /// moment ago.
    pub(super) fn tell(&mut self, now: Instant, within: Duration) -> Option<Duration> {
        let is_early = |told| now.saturating_duration_since(told) < EVERY;
        if self.told.is_some_and(is_early) {
            return None;
        }
        self.told = Some(now);
        Some(within.saturating_sub(now.saturating_duration_since(self.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_once_and_twice_a_minute() {
        let begun = Instant::now();
        let mut outage = Outage::new(begun);
        let told: Vec<_> = (0..100)
            .filter_map(|second| {
                let now = begun + Duration::from_secs(second);
                outage.tell(now, Duration::from_secs(80))
            })
            .collect();
        assert_eq!(told, [80, 50, 20, 0].map(Duration::from_secs));
    }
}

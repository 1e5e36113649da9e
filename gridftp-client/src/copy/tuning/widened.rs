//! `Widened`: the connections with which a file that was widened is proven to go well, and its rate
//! with them.

use std::time::Duration;

use super::{Moved, per_second};

/// Time with the same number of connections that proves it: the sender, which measures in periods of
/// a second or ten round trips, has left a trial by then.
const PROVEN: Duration = Duration::from_secs(5);
const ROUND_TRIPS: u32 = 50;
/// Longest such time: five of the sender's longest periods.
const LONGEST: Duration = Duration::from_secs(50);

/// Periods of a file with the same number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) streams: u32,
    bytes: u64,
    took: Duration,
    /// Time that proves it.
    proves_after: Duration,
}

/// A file that is widened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Widened {
    proves_after: Duration,
    now: Option<Stretch>,
    proven: Option<Stretch>,
}

impl Widened {
    /// Of a copy over a path of this round trip.
    pub(super) fn over(round_trip: Duration) -> Self {
        Self {
            proves_after: PROVEN.max(round_trip.saturating_mul(ROUND_TRIPS)),
            now: None,
            proven: None,
        }
    }

    /// Takes a period with so many connections, and the longest round trip of its data: a full queue
    /// lengthens the trials of the sender.
    pub(super) fn note(
        &mut self,
        streams: u32,
        took: Duration,
        moved: Moved,
        round_trip: Option<Duration>,
    ) {
        // In the first and the last period there is less to move.
        if moved.bytes == 0 || moved.files > 0 {
            return;
        }
        let same = self.now.filter(|now| now.streams == streams);
        let before = same.map_or((0, Duration::ZERO), |now| (now.bytes, now.took));
        let trial = round_trip.unwrap_or_default().saturating_mul(ROUND_TRIPS);
        let least = same.map_or(self.proves_after, |now| now.proves_after);
        let now = Stretch {
            streams,
            bytes: before.0.saturating_add(moved.bytes),
            took: before.1.saturating_add(took),
            proves_after: least.max(trial.min(LONGEST)),
        };
        self.now = Some(now);
        if now.took >= now.proves_after {
            self.proven = Some(now);
        }
    }

    /// The last number of connections that was kept.
    pub(super) fn proven(&self) -> Option<Stretch> {
        self.proven
    }
}

impl Stretch {
    /// Bytes a second.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not below 0, and far below 2^52"
    )]
    pub(super) fn rate(&self) -> u64 {
        per_second(self.bytes, self.took) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_number_that_was_kept() {
        let mut widened = Widened::over(Duration::from_millis(50));
        let mut note = |streams, bytes, times| {
            for _ in 0..times {
                let moved = Moved { bytes, files: 0 };
                widened.note(streams, Duration::from_secs(1), moved, None);
            }
            widened.proven().map(|all| (all.streams, all.rate()))
        };
        assert_eq!(note(4, 100, 4), None);
        assert_eq!(note(8, 150, 5), Some((8, 150)));
        // No longer than a trial, and the last connections.
        assert_eq!(note(16, 160, 4), Some((8, 150)));
        assert_eq!(note(3, 10, 1), Some((8, 150)));
        assert_eq!(note(16, 170, 5), Some((16, 170)));
    }

    #[test]
    fn an_empty_period_and_the_end_of_a_file_do_not_count() {
        let begun = Widened::over(Duration::from_millis(200));
        let mut widened = begun;
        for (bytes, files) in [(0, 0), (10, 1)].repeat(9) {
            widened.note(4, Duration::from_secs(1), Moved { bytes, files }, None);
        }
        assert_eq!(widened, begun);
        // The trials of a longer path last longer.
        assert_eq!(begun.proves_after, Duration::from_secs(10));
        // So do those behind a full queue.
        let moved = Moved { bytes: 1, files: 0 };
        for (streams, millis, seconds) in [(4, 300, 15), (4, 100, 15), (4, 9000, 50), (8, 100, 10)]
        {
            let queued = Some(Duration::from_millis(millis));
            widened.note(streams, Duration::from_secs(1), moved, queued);
            let now = widened.now.map(|now| now.proves_after);
            assert_eq!(now, Some(Duration::from_secs(seconds)));
        }
    }
}

//! `Pace`: the moments at which the received bytes of a file are synced and recorded.
//!
//! A record begins at the latest when 64 MiB or the data of a second, whichever is more, are received
//! since the last one began; a longer record delays the next. The number of bytes is polled each
//! quarter of a second, so 48 MiB are enough: the data of that quarter is at most 16 MiB, or the data
//! of a second is more than 64 MiB.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Time between the begins of two records of a file.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Most bytes that are not on the medium when a record begins, where a second brings fewer.
const STEP: u64 = 64 << 20;
/// Fewest new bytes that are worth a record.
const ENOUGH: u64 = STEP / 4 * 3;

/// The time of the next record of a file.
#[derive(Debug)]
pub(super) struct Pace {
    next_look: Instant,
    /// Number of bytes of the last record.
    recorded: u64,
    /// Fewest new bytes that are worth a record of this file.
    enough: u64,
}

impl Pace {
    /// The pace of a file of which so many bytes are recorded; `takes_any` says whether one byte is
    /// worth a record.
    pub(super) fn new(recorded: u64, takes_any: bool) -> Self {
        Self {
            next_look: Instant::now() + EVERY,
            recorded,
            enough: if takes_any { 1 } else { ENOUGH },
        }
    }

    /// Waits until a record may begin: behind one that took longer than that, not at all.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn look(&mut self) {
        sleep_until(self.next_look).await;
        self.next_look = Instant::now() + LOOK;
    }

    /// Says whether a record of so many bytes begins now.
    pub(super) fn begins(&mut self, bytes: u64) -> bool {
        let begins = bytes >= self.recorded.saturating_add(self.enough);
        if begins {
            self.next_look = Instant::now() + EVERY;
        }
        begins
    }

    /// Notes that a record of so many bytes was written.
    pub(super) fn recorded(&mut self, bytes: u64) {
        self.recorded = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Bytes that have come at `at`, in milliseconds, by rates in MiB a second of the first 10 s and
    /// of the time behind them.
    fn written((first, then): (u64, u64), at: u64) -> u64 {
        (first * at.min(10_000) + then * at.saturating_sub(10_000)) * MIB / 1000
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_begins_behind_64_mib_or_the_data_of_a_second() {
        // The last number is the time of a sync, in milliseconds.
        for (first, then, sync) in [
            (1, 1, 0),
            (20, 20, 0),
            (33, 33, 0),
            (47, 47, 0),
            (60, 60, 0),
            (63, 63, 40),
            (64, 64, 900),
            (70, 70, 0),
            (100, 100, 300),
            (1000, 1000, 0),
            (1, 60, 0),
            (5, 500, 0),
            (500, 5, 0),
            (60, 60, 1300),
            (100, 100, 5000),
        ] {
            let mut pace = Pace::new(0, false);
            let start = Instant::now();
            let now = || u64::try_from(start.elapsed().as_millis()).unwrap();
            let (mut last, mut busy_until, mut records) = (0, 0, 0);
            while now() < 30_000 {
                pace.look().await;
                let at = now();
                let bytes = written((first, then), at);
                let rate = if at > 10_000 { then } else { first };
                let second = bytes - written((first, then), at.saturating_sub(1000));
                // Timers are exact to the millisecond.
                let most = (64 * MIB).max(rate * MIB).max(second) + 2 * rate * MIB / 1000;
                let is_late = bytes - last > most;
                assert!(
                    !is_late || at <= busy_until + 1,
                    "{first} {then} {sync}: {} MiB at {at} ms",
                    (bytes - last) / MIB
                );
                if !pace.begins(bytes) {
                    continue;
                }
                // The syncs before it have ended: one is in progress at a time.
                tokio::time::sleep(Duration::from_millis(sync)).await;
                (last, busy_until, records) = (bytes, now(), records + 1);
                pace.recorded(bytes);
            }
            // None comes for a few bytes, or twice a second.
            let most = (written((first, then), 30_000) / ENOUGH).min(30);
            assert!(records <= most, "{first} {then} {sync}: {records}");
            assert!(records > 0 || most == 0, "{first} {then} {sync}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn any_byte_is_worth_a_record_where_it_is_asked_for() {
        let mut pace = Pace::new(7, true);
        let start = Instant::now();
        pace.look().await;
        assert!(!pace.begins(7) && start.elapsed() < EVERY + LOOK);
        pace.look().await;
        assert!(pace.begins(8) && start.elapsed() < EVERY + 2 * LOOK);
        // A record that failed is tried again a second later.
        let begun = Instant::now();
        pace.look().await;
        assert!(pace.begins(8) && begun.elapsed() >= EVERY);
    }
}

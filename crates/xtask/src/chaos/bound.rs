//! The bytes that a copy may send again behind a kill.

use anyhow::{Result, ensure};

use super::plan::{RATE, Shape};
use super::round::Round;

/// Bytes of a partial file without a record, which the next copy may send again: 64 MiB, and those
/// that arrive until the next second begins and while the record waits for a slow disk.
const UNRECORDED: u64 = (64 << 20) + 4 * RATE;
/// Bytes on their way, which count for the copy that comes behind.
const IN_FLIGHT: u64 = 16 << 20;

/// The state at a kill.
#[derive(Debug)]
pub(super) struct Killed {
    /// Payload bytes on their way or through.
    pub(super) passed: u64,
    /// Most bytes that may follow until the copy is complete.
    pub(super) most: u64,
}

impl Killed {
    /// Checks the payload bytes of a copy that went on behind the kill, and is complete.
    pub(super) fn check(&self, passed: u64) -> Result<()> {
        let Self { passed: then, most } = self;
        let sent = passed.saturating_sub(*then);
        ensure!(
            sent <= *most,
            "{sent} bytes were sent behind the kill, {most} at most were missing"
        );
        Ok(())
    }
}

impl Round<'_> {
    /// Most bytes that the next copy may send: all but those of large partial files, and of these
    /// the ones that no record tells of. A single file that is complete is sent as a whole.
    pub(super) fn most_again(&self, is_complete: bool) -> Result<u64> {
        let sizes = self.sizes()?;
        let safe = match is_complete {
            true => 0,
            false => self.partial()?.saturating_sub(UNRECORDED),
        };
        let is_large = self.plan.shape == Shape::Large;
        ensure!(safe > 0 || is_complete || !is_large, "no bytes are safe");
        Ok(most(sizes, safe))
    }
}

/// Most bytes that a copy of `all` bytes may send while `safe` ones are at the destination.
fn most(all: u64, safe: u64) -> u64 {
    (all + IN_FLIGHT).saturating_sub(safe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::{LARGE, STORED};

    #[test]
    fn a_copy_that_begins_a_large_file_anew_is_beyond_the_bound() {
        assert!(most(LARGE, STORED - UNRECORDED) < LARGE);
        assert_eq!(most(1000, 0), 1000 + IN_FLIGHT);
        assert_eq!(most(1000, u64::MAX), 0);
    }

    #[test]
    fn bytes_before_a_kill_do_not_count() {
        let killed = Killed {
            passed: 100,
            most: 10,
        };
        assert!(killed.check(110).is_ok());
        let error = killed.check(111).unwrap_err().to_string();
        assert!(error.contains("11 bytes were sent"), "{error}");
    }
}

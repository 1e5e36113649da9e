//! The bytes that a copy may send again behind a kill.

use anyhow::{Result, ensure};

use super::plan::{RATE, Shape};
use super::round::Round;

/// Most bytes that a copy may send again: 64 MiB that no record tells of yet, those that arrive
/// while a disk takes a second for them, and those on their way, which count for the copy behind.
pub(super) const MOST: u64 = (64 << 20) + RATE + (16 << 20);

/// The bytes that a copy has yet to send at some moment.
#[derive(Debug)]
pub(super) struct Remaining {
    /// Payload bytes on their way or through by then.
    pub(super) passed: u64,
    /// Bytes that the destination lacks.
    pub(super) missing: u64,
}

impl Remaining {
    /// Bytes that were at the destination and sent again, by the payload bytes that have passed
    /// when the copy is complete; an error beyond the bound.
    pub(super) fn resent(&self, passed: u64) -> Result<u64> {
        let missing = self.missing;
        let sent = passed.saturating_sub(self.passed);
        let again = sent.saturating_sub(missing);
        ensure!(
            again <= MOST,
            "{sent} bytes were sent where {missing} were missing; {MOST} more at most may be"
        );
        Ok(again)
    }
}

impl Round<'_> {
    /// The bytes that the next copy has to send: all but those of the largest partial file, and all
    /// of a file that is complete.
    pub(super) fn left(&self, is_complete: bool) -> Result<Remaining> {
        let stored = match is_complete {
            true => 0,
            false => self.partial()?,
        };
        let is_large = self.plan.shape == Shape::Large;
        ensure!(
            is_complete || !is_large || stored > MOST,
            "{stored} bytes alone are left of the copy"
        );
        Ok(Remaining {
            passed: self.relay.passed(),
            missing: self.sizes()?.saturating_sub(stored),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::{LARGE, STORED};

    #[test]
    fn a_copy_that_begins_a_large_file_anew_is_beyond_the_bound() {
        let left = Remaining {
            passed: 0,
            missing: LARGE - STORED,
        };
        assert!(left.resent(LARGE).is_err());
    }

    #[test]
    fn bytes_before_a_kill_do_not_count() {
        let left = Remaining {
            passed: 100,
            missing: 10,
        };
        assert_eq!(left.resent(105).unwrap(), 0);
        assert_eq!(left.resent(115).unwrap(), 5);
        assert_eq!(left.resent(110 + MOST).unwrap(), MOST);
        let error = left.resent(111 + MOST).unwrap_err().to_string();
        assert!(error.contains("where 10 were missing"), "{error}");
    }
}

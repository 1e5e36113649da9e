//! `UdtStep`: decides when a copy leaves TCP for UDT on a path that loses packets, and returns.

use std::time::Duration;

use super::per_second;

/// Least round trip of a path on which loss costs much of the rate.
pub(super) const LONG: Duration = Duration::from_millis(20);
/// Time of loss before the step, for the rate before it: a connection was lossy for three periods
/// before it counts as such.
const LOSSY: Duration = Duration::from_secs(2);
/// Least bytes left for which the step is worth it.
const LEAST: u64 = 64 << 20;
/// Least time left, at the present rate.
const WORTH: Duration = Duration::from_secs(10);
/// Longest time without any data behind the change, in which no end is known to hash held bytes: UDT
/// connects, and a server may hash before its first reply.
const SILENCE: Duration = Duration::from_secs(60);
/// Time from the first data on in which UDT finds the rate of the path.
const START: Duration = Duration::from_secs(5);
/// Time in which its rate is compared with the rate before.
const TRIAL: Duration = Duration::from_secs(5);

/// The copy in one period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Length of the period.
    pub(super) took: Duration,
    /// Bytes that moved in it.
    pub(super) bytes: u64,
    /// Transfers with data under way at its end.
    pub(super) moving: u32,
    /// Bytes that are left of the files found so far.
    pub(super) left: u64,
    /// Whether a connection with data under way has found the path lossy.
    pub(super) is_lossy: bool,
    /// Whether this end hashes, or a server has told in it that it does.
    pub(super) hashes: bool,
}

/// The next step of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing changes.
    Stay,
    /// A small transfer is to show whether UDT gets through.
    Prove,
    /// The copy returns to TCP.
    Return,
}

/// The state of a copy that may go over UDT.
#[derive(Debug, Default)]
pub(super) enum UdtStep {
    /// It is over TCP.
    Tcp(Sum),
    /// The result of a small transfer is awaited; the data over TCP.
    Proving(Sum),
    /// It is over UDT, and on trial.
    Udt {
        /// The data over TCP.
        before: Sum,
        /// Time without data, without a transfer that moves some, and without hashing.
        silent: Duration,
        /// Time since the first data.
        since: Duration,
        /// The data behind the start.
        trial: Sum,
    },
    /// It stays as it is.
    #[default]
    Settled,
}

/// The data of consecutive periods.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    took: Duration,
    bytes: u64,
    /// The sum of the times of the transfers.
    moving: Duration,
}

impl Sum {
    fn add(&mut self, look: &Look) {
        self.took += look.took;
        self.bytes = self.bytes.saturating_add(look.bytes);
        self.moving += look.took.saturating_mul(look.moving.max(1));
    }

    /// Bytes a second.
    fn rate(self) -> f64 {
        per_second(self.bytes, self.took)
    }

    /// Bytes a second of each transfer.
    fn rate_of_each(self) -> f64 {
        per_second(self.bytes, self.moving)
    }

    /// Whether the transfers were slower than `before`, each and together: some of them may still
    /// hash held bytes, and more of them share the link.
    fn is_slower_than(self, before: Self) -> bool {
        self.rate() < before.rate() && self.rate_of_each() < before.rate_of_each()
    }
}

impl UdtStep {
    /// The state of a copy over TCP that may change.
    pub(super) fn new() -> Self {
        Self::Tcp(Sum::default())
    }

    /// Stays over TCP, where the copy is over it.
    pub(super) fn stay(&mut self) {
        if let Self::Tcp(_) | Self::Proving(_) = self {
            *self = Self::Settled;
        }
    }

    /// Takes a period.
    pub(super) fn handle(&mut self, look: &Look) -> Step {
        match self {
            Self::Tcp(lossy) => {
                if !look.is_lossy {
                    *lossy = Sum::default();
                    return Step::Stay;
                }
                lossy.add(look);
                let rate = lossy.rate();
                if lossy.took < LOSSY || !is_worth(look.left, rate) {
                    return Step::Stay;
                }
                *self = Self::Proving(*lossy);
                Step::Prove
            }
            Self::Udt {
                before,
                silent,
                since,
                trial,
            } => {
                // Before the first data, and between two files.
                if look.bytes == 0 && (since.is_zero() || look.moving == 0) {
                    *silent = match look.hashes {
                        true => Duration::ZERO,
                        false => *silent + look.took,
                    };
                    if *silent < SILENCE {
                        return Step::Stay;
                    }
                    *self = Self::Settled;
                    return Step::Return;
                } else {
                    (*silent, *since) = (Duration::ZERO, *since + look.took);
                    // The period in which it ends counts for the start.
                    if *since >= START + look.took {
                        trial.add(look);
                    }
                    if trial.took < TRIAL {
                        return Step::Stay;
                    }
                }
                let is_slower = trial.is_slower_than(*before);
                *self = Self::Settled;
                if is_slower { Step::Return } else { Step::Stay }
            }
            Self::Proving(_) | Self::Settled => Step::Stay,
        }
    }

    /// Takes the result of the small transfer; a path without UDT is not tried again. Says whether the
    /// copy goes over UDT.
    pub(super) fn prove(&mut self, gets_through: bool) -> bool {
        *self = match self {
            Self::Proving(before) if gets_through => Self::Udt {
                before: *before,
                silent: Duration::ZERO,
                since: Duration::ZERO,
                trial: Sum::default(),
            },
            _ => Self::Settled,
        };
        matches!(self, Self::Udt { .. })
    }
}

/// Whether so many bytes at this rate are worth new connections.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn is_worth(left: u64, rate: f64) -> bool {
    left >= LEAST && left as f64 >= rate * WORTH.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl UdtStep {
        fn is_over_udt(&self) -> bool {
            matches!(self, Self::Udt { .. })
        }
    }

    const SECOND: Duration = Duration::from_secs(1);
    const GIB: u64 = 1 << 30;

    fn look(bytes: u64, left: u64, is_lossy: bool) -> Look {
        Look {
            took: SECOND,
            bytes,
            moving: 1,
            left,
            is_lossy,
            hashes: false,
        }
    }

    /// The second in which UDT is to be tried.
    fn proves(looks: impl IntoIterator<Item = Look>) -> Option<usize> {
        let mut step = UdtStep::new();
        let mut looks = looks.into_iter();
        looks.position(|look| step.handle(&look) == Step::Prove)
    }

    #[test]
    fn two_seconds_of_loss_are_enough_where_much_is_left() {
        let lossy = |left| [look(1_000_000, left, true); 60];
        assert_eq!(proves(lossy(GIB)), Some(1));
        // Less than 64 MiB, and less than ten seconds.
        assert_eq!(proves(lossy(LEAST - 1)), None);
        assert_eq!(proves([look(200_000_000, GIB, true); 60]), None);
        let apart = (0..60).map(|second| look(1_000_000, GIB, second % 2 > 0));
        assert_eq!(proves(apart), None);
        assert_eq!(proves([look(1_000_000, GIB, false); 60]), None);
    }

    /// A copy over UDT, which had 1 MB/s before.
    fn over_udt() -> UdtStep {
        let mut step = UdtStep::new();
        for _ in 0..2 {
            step.handle(&look(1_000_000, GIB, true));
        }
        step.prove(true);
        assert!(step.is_over_udt());
        step
    }

    /// The seconds in which it returns.
    fn returns(step: &mut UdtStep, looks: impl IntoIterator<Item = Look>) -> Vec<usize> {
        let at = |(second, look)| (step.handle(&look) == Step::Return).then_some(second);
        looks.into_iter().enumerate().filter_map(at).collect()
    }

    #[test]
    fn a_slower_trial_returns_to_tcp_once() {
        let mut step = over_udt();
        let slow = [look(900_000, GIB, false); 60];
        assert_eq!(returns(&mut step, slow), [9]);
        assert!(!step.is_over_udt());
        // It is never tried again.
        assert!(returns(&mut step, [look(1, GIB, true); 60]).is_empty());
        assert_eq!(step.handle(&look(1, GIB, true)), Step::Stay);
    }

    #[test]
    fn a_trial_that_starts_slowly_and_is_faster_stays() {
        let mut step = over_udt();
        let looks = (0..60).map(|second| look(if second < 5 { 0 } else { 1_000_001 }, GIB, true));
        assert!(returns(&mut step, looks).is_empty());
    }

    #[test]
    fn the_time_before_the_first_data_counts_for_no_rate() {
        // Both ends hash the held bytes.
        let mut step = over_udt();
        let bytes = |second| match second {
            0..40 => 0,
            40..45 => 1000,
            _ => 1_000_001,
        };
        let looks = (0..80).map(|second| look(bytes(second), GIB, false));
        assert!(returns(&mut step, looks).is_empty());
        // A slow path shows ten seconds behind the first data, and no data at all after a minute.
        let mut step = over_udt();
        let looks = (0..80).map(|second| look(if second < 40 { 0 } else { 999_999 }, GIB, false));
        assert_eq!(returns(&mut step, looks), [49]);
        let mut step = over_udt();
        assert_eq!(returns(&mut step, [look(0, GIB, false); 80]), [59]);
        // Data that stops again is none of that silence.
        let mut step = over_udt();
        let looks = (0..80).map(|second| look(if second < 1 { 1 } else { 0 }, GIB, false));
        assert_eq!(returns(&mut step, looks), [9]);
    }

    #[test]
    fn the_time_in_which_an_end_hashes_is_no_silence() {
        // Markers come each ten seconds; the last one two minutes on.
        let hashing = (0..240).map(|second| Look {
            hashes: second <= 120 && second % 10 == 0,
            ..look(0, GIB, false)
        });
        assert_eq!(returns(&mut over_udt(), hashing), [180]);
        // The trial begins behind it as it would at once.
        let mut step = over_udt();
        let slow = (0..240).map(|second| Look {
            hashes: second < 120,
            ..look(if second < 120 { 0 } else { 999_999 }, GIB, false)
        });
        assert_eq!(returns(&mut step, slow), [129]);
    }

    #[test]
    fn the_trial_compares_the_transfers_with_data_under_way() {
        // Four files over TCP had 250 kB/s each; over UDT one goes on while the others hash.
        let mut step = UdtStep::new();
        let look = |bytes, moving| Look {
            moving,
            ..look(bytes, GIB, true)
        };
        for _ in 0..2 {
            step.handle(&look(1_000_000, 4));
        }
        step.prove(true);
        assert!(returns(&mut step, [look(250_001, 1); 60]).is_empty());
        // Where one had 1 MB/s, four share more than that, or less.
        let (mut more, mut less) = (over_udt(), over_udt());
        assert!(returns(&mut more, [look(1_000_001, 4); 60]).is_empty());
        assert_eq!(returns(&mut less, [look(999_999, 4); 60]), [9]);
        // The time between two files counts for no rate.
        let mut step = over_udt();
        let files = (0..60).map(|second| match second {
            8..40 => look(0, 0),
            _ => look(1_000_001, 1),
        });
        assert!(returns(&mut step, files).is_empty());
        // Nothing moves any more.
        let mut step = over_udt();
        let ended = (0..80).map(|second| look(u64::from(second < 1), u32::from(second < 1)));
        assert_eq!(returns(&mut step, ended), [60]);
        let mut step = over_udt();
        let ended = (0..80).map(|second| match second {
            0..7 => look(2_000_000, 1),
            _ => look(0, 0),
        });
        assert_eq!(returns(&mut step, ended), [66]);
    }

    #[test]
    fn a_copy_that_would_begin_anew_stays_over_tcp() {
        let mut step = UdtStep::new();
        step.stay();
        assert!(returns(&mut step, [look(1, GIB, true); 60]).is_empty());
        step.prove(true);
        assert!(!step.is_over_udt());
        let mut step = over_udt();
        step.stay();
        assert!(step.is_over_udt());
    }

    #[test]
    fn a_path_without_udt_is_not_tried_again() {
        let mut step = UdtStep::new();
        let mut proofs = 0;
        for _ in 0..60 {
            if step.handle(&look(1_000_000, GIB, true)) == Step::Prove {
                proofs += 1;
                step.prove(false);
            }
        }
        assert_eq!(proofs, 1);
        assert!(!step.is_over_udt());
    }
}

//! `Losses`: tells packets lost in a full queue from packets lost by chance.
//!
//! A full queue loses packets whose round trip is long, and stops losing them once the flows that
//! share it slow down. Chance, and flows that do not slow down, go on losing at the same ratio. So
//! the ratio is measured while there is no queue and right after this flow has slowed down: losses
//! that this ratio explains are no reason to slow down. Nor are losses that go on coming, too
//! seldom for that ratio, each time this flow slows down: that is a flow that ignores losses, as
//! BBR does, and this flow ignores them as well for a while.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Progress, real};

/// Shortest queue that is told from the noise of bursts and timers; longer on longer paths.
const LEAST_QUEUE: Duration = Duration::from_millis(2);
/// Lossy rounds whose queues are remembered.
const WAITS: usize = 8;
/// Fewer losses than this give no ratio.
const FEW: f64 = 4.0;
/// A larger part of a round's packets is not lost by chance.
const LOSSY: f64 = 0.02;
/// Rounds over which the ratio is averaged.
const MEMORY: f64 = 64.0;
/// Rounds of a trial, at least and at most.
const TRIAL: RangeInclusive<u32> = 3..=8;
/// Reductions in a row, each of a smaller window, that have left a part of the first window and so
/// were in vain.
const VAIN: u32 = 8;
const STARVED: f64 = 0.3;
/// Rounds in which losses are ignored then.
const FIRM: u32 = 60;

/// Reaction to losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// A queue overflows: slow down.
    Reduce,
    /// Slowing down has changed nothing.
    Restore,
}

/// Packets, and those of them that were lost.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    packets: f64,
    lost: f64,
}

impl Count {
    fn add(&mut self, packets: f64, lost: f64) {
        self.packets += packets;
        self.lost += lost;
    }

    /// Most losses among a number of packets that this ratio explains.
    fn explains(&self, packets: f64) -> f64 {
        if self.lost < FEW {
            return 0.0;
        }
        let expected = self.lost / self.packets.max(1.0) * packets;
        expected + 2.0 * expected.sqrt() + 1.0
    }
}

/// Watches whether losses go on after a reduction.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// First packet sent after the reduction.
    first: u64,
    /// Round that caused it.
    cause: Count,
    rounds: u32,
    seen: f64,
}

impl Trial {
    fn is_over(&self) -> bool {
        let enough = FEW * self.cause.packets / self.cause.lost;
        self.rounds >= *TRIAL.end() || self.rounds >= *TRIAL.start() && self.seen >= enough
    }
}

/// Reductions, each of a smaller window than the one before.
#[derive(Debug, Default)]
struct Series {
    first: f64,
    last: f64,
    count: u32,
}

/// State of the judgement.
#[derive(Debug, Default)]
pub(super) struct Losses {
    delivered: u64,
    lost: u64,
    /// Losses that no reduction avoids.
    floor: Count,
    round: Count,
    trial: Option<Trial>,
    series: Series,
    /// Rounds in which losses are still ignored.
    firm: u32,
    /// Queueing delay of the latest sample, and those at the first losses of the last lossy rounds.
    wait: Duration,
    waits: VecDeque<Duration>,
}

impl Losses {
    /// Whether chance hardly explains the losses of this round.
    pub(super) fn is_round_lossy(&self) -> bool {
        self.round.lost >= FEW && self.round.lost > LOSSY * self.round.packets
    }

    /// Ends a round.
    pub(super) fn on_round(&mut self) -> Verdict {
        self.round = Count::default();
        self.firm = self.firm.saturating_sub(1);
        self.floor.packets *= 1.0 - 1.0 / MEMORY;
        self.floor.lost *= 1.0 - 1.0 / MEMORY;
        if let Some(trial) = &mut self.trial {
            trial.rounds += u32::from(trial.seen > 0.0);
        }
        match self.trial.take_if(|trial| trial.is_over()) {
            Some(Trial { cause, .. }) if cause.lost <= self.floor.explains(cause.packets) => {
                Verdict::Restore
            }
            _ => Verdict::Keep,
        }
    }

    /// Takes in the packets delivered and lost since the last call; `may_reduce` is false in
    /// startup.
    pub(super) fn on_progress(
        &mut self,
        progress: &Progress,
        min_rtt: Duration,
        may_reduce: bool,
    ) -> Verdict {
        let lost = real(progress.lost.saturating_sub(self.lost));
        let packets = lost + real(progress.delivered.saturating_sub(self.delivered));
        (self.delivered, self.lost) = (progress.delivered, progress.lost);
        let rtt = progress.behind_loss;
        if let Some(rtt) = rtt.or_else(|| progress.sample.map(|sample| sample.rtt)) {
            self.wait = rtt.saturating_sub(min_rtt);
        }
        if lost > 0.0 && self.round.lost == 0.0 && may_reduce {
            self.waits.truncate(WAITS - 1);
            self.waits.push_front(self.wait);
        }
        self.round.add(packets, lost);
        if let Some(trial) = &mut self.trial {
            if progress.acked >= trial.first {
                trial.seen += packets;
                self.floor.add(packets, lost);
            }
            return Verdict::Keep;
        }
        // The queue is judged by those in which packets were lost: half of it is a queue as well.
        let least = LEAST_QUEUE.max(min_rtt / 32);
        let typical = self.typical_wait();
        if self.wait <= (typical / 2).max(least) {
            self.floor.add(packets, lost);
            return match lost > 0.0 && typical <= least {
                true => Verdict::Restore,
                false => Verdict::Keep,
            };
        }
        let in_flight = real(progress.in_flight.max(1));
        let is_congested = typical > least && self.round.lost > self.floor.explains(in_flight);
        if lost == 0.0 || !is_congested || !may_reduce || self.firm > 0 {
            return Verdict::Keep;
        }
        Verdict::Reduce
    }

    /// Begins to watch the effect of a reduction of a window; `Restore` if the reductions were in
    /// vain.
    pub(super) fn on_reduce(&mut self, window: f64, progress: &Progress) -> Verdict {
        let series = &mut self.series;
        if window < series.last {
            series.count += 1;
        } else {
            (series.count, series.first) = (0, window);
        }
        series.last = window;
        if series.count >= VAIN && window < STARVED * series.first {
            self.series = Series::default();
            self.firm = FIRM;
            return Verdict::Restore;
        }
        let packets = real(progress.in_flight.max(1));
        let lost = self.round.lost;
        self.trial = Some(Trial {
            first: progress.next,
            cause: Count { packets, lost },
            rounds: 0,
            seen: 0.0,
        });
        Verdict::Reduce
    }

    /// Median of the queueing delays at losses; late repairs do not move it.
    fn typical_wait(&self) -> Duration {
        let mut waits: Vec<_> = self.waits.iter().copied().collect();
        waits.sort_unstable();
        waits.get(waits.len() / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Sample;
    use crate::rtt::RoundTrip;

    const RTT: Duration = Duration::from_millis(40);
    /// Packets in flight.
    const ROUND: u64 = 200;

    /// A path with so many losses in each of its rounds, at a queueing delay.
    struct Path {
        losses: Losses,
        delivered: u64,
        lost: u64,
    }

    impl Path {
        fn new() -> Self {
            Self {
                losses: Losses::default(),
                delivered: 0,
                lost: 0,
            }
        }

        /// Reaction to a round, in which a reduction is carried out.
        fn round(&mut self, lost: u64, wait: Duration) -> Vec<Verdict> {
            let sample = Sample {
                rate: 1.0,
                rtt: RTT + wait,
                end: 0,
                is_limited: false,
            };
            let mut progress = Progress {
                is_full: false,
                acked: self.delivered,
                next: self.delivered + ROUND,
                delivered: self.delivered,
                is_whole: false,
                in_flight: ROUND,
                lost: self.lost,
                sample: Some(sample),
                behind_loss: None,
                rtt: RoundTrip::UNKNOWN,
                receive_rate: 0.0,
                capacity: 0.0,
            };
            let mut verdicts = Vec::new();
            for part in 0..2 {
                progress.delivered += (ROUND - lost) / 2;
                progress.lost += if part == 0 { lost } else { 0 };
                let mut verdict = self.losses.on_progress(&progress, RTT, true);
                if verdict == Verdict::Reduce {
                    verdict = self.losses.on_reduce(100.0, &progress);
                }
                verdicts.push(verdict);
            }
            (self.delivered, self.lost) = (self.delivered + ROUND, progress.lost);
            verdicts.push(self.losses.on_round());
            verdicts.retain(|verdict| *verdict != Verdict::Keep);
            verdicts
        }
    }

    const QUEUE: Duration = Duration::from_millis(10);

    #[test]
    fn a_loss_in_a_queue_reduces_once_it_was_quiet() {
        let mut path = Path::new();
        for _ in 0..5 {
            assert_eq!(path.round(1, QUEUE), [Verdict::Reduce]);
            for _ in 0..20 {
                assert_eq!(path.round(0, Duration::ZERO), []);
            }
        }
    }

    #[test]
    fn losses_without_a_queue_reduce_nothing() {
        let mut path = Path::new();
        for _ in 0..50 {
            let verdicts = path.round(1, Duration::ZERO);
            assert!(!verdicts.contains(&Verdict::Reduce), "{verdicts:?}");
        }
    }

    #[test]
    fn losses_that_go_on_after_a_reduction_are_ignored() {
        let mut path = Path::new();
        assert_eq!(path.round(4, QUEUE), [Verdict::Reduce]);
        let verdicts: Vec<_> = (0..60).flat_map(|_| path.round(4, QUEUE)).collect();
        assert_eq!(verdicts, [Verdict::Restore]);
    }
}

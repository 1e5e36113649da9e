//! `Gaps`: missing packets of the receiver, in order and bounded, and the times of their reports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most gaps at a time; a packet that would split one more is treated as lost.
pub(crate) const MOST_GAPS: usize = 8192;
/// Largest reordering, in packets, that delays a report.
const MOST_TOLERANCE: u64 = 32;
/// Longest delay of a report where packets are reordered.
const MOST_PATIENCE: Duration = Duration::from_millis(10);

/// Missing packets between others that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
    /// Time of the next report.
    due: Instant,
    /// Time of the last report.
    reported: Option<Instant>,
    times: u32,
}

/// All gaps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps {
    gaps: VecDeque<Gap>,
    /// Gaps that were never reported; they are the last ones.
    fresh: usize,
    /// Largest reordering seen, in packets.
    tolerance: u64,
}

impl Gaps {
    pub(crate) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.gaps.len() >= MOST_GAPS
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn len(&self) -> usize {
        self.gaps.len()
    }

    /// The first missing packet.
    pub(crate) fn first(&self) -> Option<u64> {
        self.gaps.front().map(|gap| gap.start)
    }

    /// Adds a gap behind all others; returns when to report it.
    pub(crate) fn push(&mut self, now: Instant, start: u64, end: u64, rtt: Duration) -> Instant {
        let patience = if self.tolerance == 0 {
            Duration::ZERO
        } else {
            (rtt / 8).min(MOST_PATIENCE)
        };
        self.fresh += 1;
        self.gaps.push_back(Gap {
            start,
            end,
            due: now + patience,
            reported: None,
            times: 0,
        });
        now + patience
    }

    /// Notes the arrival of a packet; returns whether it was missing.
    pub(crate) fn remove(&mut self, now: Instant, index: u64, next: u64, rtt: Duration) -> bool {
        let at = self.gaps.partition_point(|gap| gap.end <= index);
        let is_full = self.is_full();
        let Some(gap) = self.gaps.get_mut(at).filter(|gap| gap.start <= index) else {
            return false;
        };
        let before = *gap;
        match (gap.start == index, gap.end == index + 1) {
            (true, true) => self.take_out(at),
            (true, false) => gap.start += 1,
            (false, true) => gap.end -= 1,
            (false, false) => {
                if is_full {
                    return false;
                }
                gap.end = index;
                let rest = Gap {
                    start: index + 1,
                    ..before
                };
                self.gaps.insert(at + 1, rest);
                if before.times == 0 {
                    self.fresh += 1;
                }
            }
        }
        // Too early to be a retransmission: the packet was reordered, not lost.
        let overtaken = match before.reported {
            None => true,
            Some(when) => before.times == 1 && now.saturating_duration_since(when) < rtt / 2,
        };
        if overtaken {
            let distance = next.saturating_sub(index).min(MOST_TOLERANCE);
            self.tolerance = self.tolerance.max(distance);
        }
        true
    }

    fn take_out(&mut self, at: usize) {
        if let Some(gap) = self.gaps.remove(at)
            && gap.times == 0
        {
            self.fresh -= 1;
        }
    }

    /// Removes packets that will never arrive.
    pub(crate) fn remove_range(&mut self, start: u64, end: u64) {
        let mut at = self.gaps.partition_point(|gap| gap.end <= start);
        while let Some(gap) = self.gaps.get_mut(at).filter(|gap| gap.start < end) {
            let before = *gap;
            if before.start < start && end < before.end {
                gap.end = start;
                self.gaps.insert(
                    at + 1,
                    Gap {
                        start: end,
                        ..before
                    },
                );
                self.fresh += usize::from(before.times == 0);
                return;
            }
            if before.start < start {
                gap.end = start;
                at += 1;
            } else if end < before.end {
                gap.start = end;
                return;
            } else {
                self.take_out(at);
            }
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        if self.gaps.is_empty() {
            self.gaps = VecDeque::new();
        }
    }

    /// Whether a new gap must be reported, now that packets up to `next` have arrived.
    pub(crate) fn has_fresh(&self, next: u64) -> bool {
        let oldest = self.gaps.len().checked_sub(self.fresh);
        self.fresh > 0
            && oldest
                .and_then(|at| self.gaps.get(at))
                .is_some_and(|gap| next > gap.end + self.tolerance)
    }

    /// Time of the next report.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.gaps.iter().map(|gap| gap.due).min()
    }

    /// Passes the first and last packet of every due gap to `report`, until that has no room.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        next: u64,
        late: Duration,
        mut report: impl FnMut(u64, u64) -> bool,
    ) {
        for gap in &mut self.gaps {
            let is_past = gap.times == 0 && next > gap.end + self.tolerance;
            if gap.due > now && !is_past {
                continue;
            }
            if !report(gap.start, gap.end - 1) {
                return;
            }
            self.fresh -= usize::from(gap.times == 0);
            gap.reported = Some(now);
            gap.due = now + late * 2_u32.pow(gap.times.min(2));
            gap.times = gap.times.saturating_add(1);
        }
    }
}

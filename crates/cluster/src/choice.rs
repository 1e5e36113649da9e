//! The choice among nodes, as a function of their reports and of what was placed since.

use std::cmp::Ordering;

use crate::report::Report;

/// A node as far as the choice regards it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a str,
    pub(crate) report: &'a Report,
    /// Whether its last report is overdue.
    pub(crate) late: bool,
    /// Placements since its last report, which it does not contain.
    pub(crate) recent: u32,
    /// Placements that are still in use.
    pub(crate) placed: u32,
}

impl Candidate<'_> {
    /// Transfers to expect of it. A session that is open may transfer at any time.
    fn expected(&self) -> u64 {
        let running = u64::from(self.report.running) + u64::from(self.recent);
        running.max(self.placed.into())
    }

    /// Compares by transfers for each unit of capacity, without division.
    fn compare(&self, other: &Self) -> Ordering {
        let here = u128::from(self.expected()) * u128::from(other.report.capacity);
        let there = u128::from(other.expected()) * u128::from(self.report.capacity);
        self.late
            .cmp(&other.late)
            .then(here.cmp(&there))
            .then(self.report.load.total_cmp(&other.report.load))
            .then_with(|| self.name.cmp(other.name))
    }
}

/// The indices of at most `n` candidates, the best first: distinct, with capacity, not draining.
pub(crate) fn choose(candidates: &[Candidate<'_>], n: usize) -> Vec<usize> {
    let mut usable: Vec<(usize, &Candidate<'_>)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.report.capacity > 0 && !candidate.report.draining)
        .collect();
    usable.sort_by(|(_, one), (_, other)| one.compare(other));
    usable.into_iter().take(n).map(|(index, _)| index).collect()
}

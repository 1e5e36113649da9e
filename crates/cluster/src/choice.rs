//! The choice among nodes, as a function of their reports and of later placements.

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

/// Says whether one of the others is clearly better for a session than `own`, which has it: with the
/// session, it still has at most three quarters of the transfers of `own` for its capacity.
///
/// The margin keeps sessions from wandering: reports are a second old. Recent placements of `own`
/// do not count, as some may have moved already.
pub(crate) fn is_outdone(own: &Candidate<'_>, others: &[Candidate<'_>]) -> bool {
    others.iter().any(|other| {
        let busy = own.report.running.max(own.placed);
        let here = u128::from(busy) * u128::from(other.report.capacity);
        let there = (u128::from(other.expected()) + 1) * u128::from(own.report.capacity);
        other.report.takes_sessions() && !other.late && 4 * there <= 3 * here
    })
}

/// The indices of at most `n` candidates, the best first: distinct, with capacity, not draining.
pub(crate) fn choose(candidates: &[Candidate<'_>], n: usize) -> Vec<usize> {
    let mut usable: Vec<(usize, &Candidate<'_>)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.report.takes_sessions())
        .collect();
    usable.sort_by(|(_, one), (_, other)| one.compare(other));
    usable.into_iter().take(n).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A report, and whether it is late, the recent and the open placements.
    type Node = (Report, bool, u32, u32);

    fn nodes() -> impl Strategy<Value = Vec<Node>> {
        let report = (0..9_u32, 0..9_u32, 0..4_u8, any::<bool>()).prop_map(
            |(capacity, running, load, draining)| Report {
                capacity,
                running,
                load: load.into(),
                free_space: None,
                draining,
            },
        );
        prop::collection::vec((report, any::<bool>(), 0..4_u32, 0..9_u32), 0..9)
    }

    fn candidates<'a>(nodes: &'a [Node], names: &'a [String]) -> Vec<Candidate<'a>> {
        let nodes = nodes.iter().zip(names);
        nodes
            .map(|((report, late, recent, placed), name)| Candidate {
                name,
                report,
                late: *late,
                recent: *recent,
                placed: *placed,
            })
            .collect()
    }

    fn names(nodes: &[Node]) -> Vec<String> {
        (0..nodes.len()).map(|index| index.to_string()).collect()
    }

    proptest! {
        #[test]
        fn chosen_nodes_are_distinct_usable_and_as_many_as_there_are(nodes in nodes(), n in 0..9_usize) {
            let names = names(&nodes);
            let candidates = candidates(&nodes, &names);
            let mut chosen = choose(&candidates, n);
            let usable = |node: &&Node| node.0.capacity > 0 && !node.0.draining;
            prop_assert_eq!(chosen.len(), nodes.iter().filter(usable).count().min(n));
            prop_assert!(chosen.iter().all(|index| usable(&&nodes[*index])));
            chosen.sort_unstable();
            chosen.dedup();
            prop_assert_eq!(chosen.len(), nodes.iter().filter(usable).count().min(n));
        }

        #[test]
        fn no_node_left_out_is_better_than_a_chosen_one(nodes in nodes(), n in 0..9_usize) {
            let names = names(&nodes);
            let candidates = candidates(&nodes, &names);
            let all = choose(&candidates, nodes.len());
            prop_assert_eq!(&choose(&candidates, n)[..], &all[..n.min(all.len())]);
            let cost = |index: &usize| {
                let (report, late, recent, placed) = &nodes[*index];
                let expected = (report.running + recent).max(*placed);
                (*late, f64::from(expected) / f64::from(report.capacity), report.load)
            };
            prop_assert!(all.is_sorted_by(|one, other| cost(one) <= cost(other)));
        }
    }

    #[test]
    fn a_session_moves_to_a_node_that_is_clearly_better() {
        let names = ["0".to_owned(), "1".to_owned()];
        let report = |running, draining| Report {
            capacity: 4,
            running,
            draining,
            ..Report::default()
        };
        for (own, other, moves) in [
            (
                (report(0, false), false, 0, 8),
                (report(0, false), false, 0, 0),
                true,
            ),
            (
                (report(0, false), false, 0, 4),
                (report(0, false), false, 0, 2),
                true,
            ),
            (
                (report(0, false), false, 0, 4),
                (report(0, false), false, 0, 3),
                false,
            ),
            (
                (report(0, false), false, 0, 1),
                (report(0, false), false, 0, 0),
                false,
            ),
            // Transfers of other front ends.
            (
                (report(8, false), false, 0, 1),
                (report(0, false), false, 0, 0),
                true,
            ),
            (
                (report(0, false), false, 0, 8),
                (report(8, false), false, 0, 0),
                false,
            ),
            (
                (report(0, false), false, 0, 8),
                (report(0, true), false, 0, 0),
                false,
            ),
            (
                (report(0, false), false, 0, 8),
                (report(0, false), true, 0, 0),
                false,
            ),
            (
                (report(0, false), false, 0, 8),
                (Report::default(), false, 0, 0),
                false,
            ),
        ] {
            let nodes = [own, other];
            let candidates = candidates(&nodes, &names);
            let outdone = is_outdone(&candidates[0], &candidates[1..]);
            assert_eq!(outdone, moves, "{nodes:?}");
        }
    }

    #[test]
    fn an_enormous_capacity_is_compared_exactly() {
        let full = Report {
            capacity: u32::MAX,
            running: u32::MAX,
            ..Report::default()
        };
        let names = ["0".to_owned(), "1".to_owned()];
        let nodes = [
            (full, false, u32::MAX, u32::MAX),
            (full, false, u32::MAX - 1, u32::MAX),
        ];
        assert_eq!(choose(&candidates(&nodes, &names), 1), [1]);
    }
}

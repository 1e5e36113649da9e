//! Medians of alternating runs, and the table of their ratios.

use std::time::Duration;

use anyhow::Result;

/// Cost of one run.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Cost {
    /// Wall-clock time, in seconds.
    pub wall: f64,
    /// Processor time of both ends together, in seconds.
    pub cpu: f64,
}

impl Cost {
    /// Returns the cost of two durations.
    pub fn new(wall: Duration, cpu: Duration) -> Self {
        Self {
            wall: wall.as_secs_f64(),
            cpu: cpu.as_secs_f64(),
        }
    }
}

/// Runs both sides alternately, ours second, and returns the medians of ours and theirs.
pub fn alternate(
    runs: usize,
    mut ours: impl FnMut() -> Result<Cost>,
    mut theirs: impl FnMut() -> Result<Cost>,
) -> Result<(Cost, Cost)> {
    let mut costs = (Vec::new(), Vec::new());
    for _ in 0..runs {
        costs.1.push(theirs()?);
        costs.0.push(ours()?);
    }
    Ok((median(&costs.0), median(&costs.1)))
}

/// Returns the median of each field.
fn median(costs: &[Cost]) -> Cost {
    let middle = |field: fn(&Cost) -> f64| middle(costs.iter().map(field).collect());
    Cost {
        wall: middle(|cost| cost.wall),
        cpu: middle(|cost| cost.cpu),
    }
}

/// Returns the median; 0 of nothing.
#[must_use]
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// One line of the table.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Line {
    /// The measurement.
    pub what: String,
    /// Their time or amount divided by ours.
    pub ratio: f64,
    /// Their processor time divided by ours, where it was measured.
    pub cpu: Option<f64>,
    /// Target of the ratio, in words; a dash for none.
    pub target: &'static str,
    /// Whether the target was reached.
    pub reached: bool,
    /// A further figure.
    pub note: String,
}

impl Line {
    /// The row of the costs of two sides, with the least ratio of time that is wanted; prints them.
    #[allow(clippy::print_stderr, reason = "absolute times go to standard error")]
    pub fn of_costs(
        what: String,
        us: Cost,
        them: Cost,
        (target, least): (&'static str, f64),
    ) -> Self {
        eprintln!("{what}: ours {us:.2?}, other {them:.2?}");
        let ratio = them.wall / us.wall;
        Self {
            what,
            ratio,
            cpu: Some(them.cpu / us.cpu),
            target,
            reached: ratio >= least,
            note: format!("{:.2} / {:.2} s", us.wall, them.wall),
        }
    }

    /// Returns the line as a row of a Markdown table.
    pub fn row(&self) -> String {
        let cpu = self
            .cpu
            .map_or_else(|| "–".to_owned(), |cpu| format!("{cpu:.2}"));
        let reached = match (self.target, self.reached) {
            ("–", _) => "–",
            (_, true) => "yes",
            (_, false) => "**no**",
        };
        format!(
            "| {} | {:.2} | {cpu} | {} | {reached} | {} |",
            self.what, self.ratio, self.target, self.note
        )
    }
}

/// The head of the table of [`Line::row`].
pub const HEAD: &str = "\
| What | Times better, wall | Times better, CPU | Target | Reached | Note |
| --- | ---: | ---: | --- | --- | --- |";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_each_field() {
        let cost = |wall, cpu| Cost { wall, cpu };
        let middle = median(&[cost(1.0, 9.0), cost(5.0, 1.0), cost(2.0, 3.0)]);
        assert!((middle.wall, middle.cpu) == (2.0, 3.0), "{middle:?}");
    }
}

//! Medians of alternating runs, and the table that sets them against each other.

use std::time::Duration;

use anyhow::Result;

/// What one run cost.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Cost {
    /// Time on the wall, in seconds.
    pub wall: f64,
    /// Processor time of both ends together, in seconds.
    pub cpu: f64,
}

impl Cost {
    /// Returns a cost of two durations.
    pub fn new(wall: Duration, cpu: Duration) -> Self {
        Self {
            wall: wall.as_secs_f64(),
            cpu: cpu.as_secs_f64(),
        }
    }
}

/// Runs both sides alternately, ours second, so often, and returns their medians: ours, theirs.
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

/// Returns the medians of both fields, each by itself.
fn median(costs: &[Cost]) -> Cost {
    let middle = |field: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Cost {
        wall: middle(|cost| cost.wall),
        cpu: middle(|cost| cost.cpu),
    }
}

/// One line of the table.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// How many times faster we are, or how many times less we take.
    pub ratio: f64,
    /// How many times less processor time we take, where it was measured.
    pub cpu: Option<f64>,
    /// What was aimed at, in words.
    pub target: &'static str,
    /// Whether that was reached.
    pub reached: bool,
    /// A figure worth knowing beside the ratio.
    pub note: String,
}

impl Line {
    /// Returns the line as a row of a Markdown table.
    pub fn row(&self) -> String {
        let cpu = self
            .cpu
            .map_or_else(|| "–".to_owned(), |cpu| format!("{cpu:.2}"));
        let reached = if self.reached { "yes" } else { "**no**" };
        format!(
            "| {} | {:.2} | {cpu} | {} | {reached} | {} |",
            self.what, self.ratio, self.target, self.note
        )
    }
}

/// The head of the table that [`Line::row`] fills.
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

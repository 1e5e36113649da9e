//! Curves and axes of this bench's pictures.

use std::fs;

use anyhow::Result;
use workspace_benches::picture::{Axis, Curve, Picture, number};

use crate::flow::Outcome;
use crate::options::Options;

const TIME: Axis = Axis {
    name: "seconds since the first flow began",
    log: false,
    from_zero: true,
    label: number,
};
const MEGABITS: Axis = Axis {
    name: "Mbit/s that arrived",
    log: false,
    from_zero: true,
    label: number,
};

/// Returns the received rate over time, a point for each `step` seconds after `began` (since 1970).
pub(crate) fn curve(name: String, outcome: &Outcome, began: f64, step: f64) -> Curve {
    let end = outcome.began + outcome.took;
    let starts = std::iter::successors(Some(outcome.began), |at| Some(at + step));
    let points = starts
        .take_while(|at| at + step <= end)
        .map(|at| (at + step / 2.0 - began, outcome.between(at, at + step)))
        .collect();
    Curve { name, points }
}

/// Draws a picture where pictures are wanted.
pub(crate) fn draw(options: &Options, name: &str, title: String, curves: Vec<Curve>) -> Result<()> {
    let Some(folder) = &options.pictures else {
        return Ok(());
    };
    fs::create_dir_all(folder)?;
    let picture = Picture {
        title,
        x: TIME,
        y: MEGABITS,
        curves,
    };
    picture.draw(&folder.join(name).with_extension("svg"))
}

//! `Picture`: curves over two axes as an SVG file.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 440);
/// Left edge of the legend, beside the curves.
const LEGEND: u32 = 690;
const LEGEND_LINE: i32 = 20;
const FONT: &str = "sans-serif";
/// Colours that colour-blind readers can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// An axis.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Axis {
    /// Label, with the unit.
    pub name: &'static str,
    /// Whether the scale is logarithmic.
    pub log: bool,
    /// Whether the axis starts at 0 if no point does; not with `log`.
    pub from_zero: bool,
    /// Formats a number on the axis.
    pub label: fn(f64) -> String,
}

/// One line through its points.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A picture of several curves.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Picture {
    /// Title.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves in the order of the legend, at most one for each colour.
    pub curves: Vec<Curve>,
}

impl Picture {
    /// Writes the picture to a file.
    pub fn draw(&self, path: &Path) -> Result<()> {
        ensure!(
            self.curves.len() <= COLOURS.len(),
            "{}: more curves than colours",
            self.title
        );
        let x = self.range(&self.x, |point| point.0)?;
        let y = self.range(&self.y, |point| point.1)?;
        match (self.x.log, self.y.log) {
            (false, false) => self.draw_on::<RangedCoordf64, RangedCoordf64>(path, x, y),
            (true, false) => self.draw_on(path, x.log_scale().base(2.0), y),
            (false, true) => self.draw_on(path, x, y.log_scale()),
            (true, true) => self.draw_on(path, x.log_scale().base(2.0), y.log_scale()),
        }
    }

    /// Returns the range of an axis that contains every point, with a margin.
    fn range(&self, axis: &Axis, value: fn(&(f64, f64)) -> f64) -> Result<Range<f64>> {
        let values = || {
            self.curves
                .iter()
                .flat_map(|curve| &curve.points)
                .map(value)
        };
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(f64::NEG_INFINITY, f64::max);
        ensure!(
            least.is_finite() && most.is_finite(),
            "{}: no points",
            self.title
        );
        Ok(if axis.log {
            least / 1.05..most * 1.05
        } else {
            let least = if axis.from_zero {
                least.min(0.0)
            } else {
                least
            };
            let air = ((most - least) * 0.05).max(f64::EPSILON);
            let low = if axis.from_zero && least >= 0.0 {
                0.0
            } else {
                least - air
            };
            low..most + air
        })
    }

    fn draw_on<X, Y>(
        &self,
        path: &Path,
        x: impl AsRangedCoord<CoordDescType = X, Value = f64>,
        y: impl AsRangedCoord<CoordDescType = Y, Value = f64>,
    ) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", path.display());
        area.fill(&WHITE).map_err(|e| failed(&e))?;
        let (left, right) = area.split_horizontally(LEGEND);
        let mut chart = ChartBuilder::on(&left)
            .caption(&self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(|e| failed(&e))?;
        chart
            .configure_mesh()
            .x_desc(self.x.name)
            .y_desc(self.y.name)
            .x_label_formatter(&|value| (self.x.label)(*value))
            .y_label_formatter(&|value| (self.y.label)(*value))
            .light_line_style(WHITE)
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14))
            .draw()
            .map_err(|e| failed(&e))?;
        let mut height = 60;
        for (curve, colour) in self.curves.iter().zip(COLOURS) {
            let points = curve.points.iter().copied();
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))
                .map_err(|e| failed(&e))?;
            chart
                .draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))
                .map_err(|e| failed(&e))?;
            let line = [(0, height), (18, height)];
            right
                .draw(&PathElement::new(line, colour.stroke_width(2)))
                .and_then(|()| {
                    let name = (26, height - 6);
                    right.draw(&Text::new(curve.name.as_str(), name, (FONT, 13)))
                })
                .map_err(|e| failed(&e))?;
            height += LEGEND_LINE;
        }
        area.present().map_err(|e| failed(&e))
    }
}

/// Writes a number of bytes as `64K`.
pub fn bytes(value: f64) -> String {
    [(1 << 20, "M"), (1 << 10, "K")]
        .into_iter()
        .find(|(unit, _)| value >= f64::from(*unit))
        .map_or_else(
            || format!("{value:.0}"),
            |(unit, name)| format!("{:.0}{name}", value / f64::from(unit)),
        )
}

/// Formats a number with at most one decimal.
pub fn number(value: f64) -> String {
    if value.abs() < 0.05 {
        // Without the sign of a rounding error.
        "0".to_owned()
    } else if value.abs() >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_contains_its_curves_and_names() {
        let axis = |log| Axis {
            name: "amount",
            log,
            from_zero: !log,
            label: number,
        };
        for (x, y) in [(false, false), (true, false), (false, true), (true, true)] {
            let picture = Picture {
                title: "A title".into(),
                x: axis(x),
                y: axis(y),
                curves: vec![Curve {
                    name: "first".into(),
                    points: vec![(1.0, 2.0), (4.0, 9.0)],
                }],
            };
            let path =
                std::env::temp_dir().join(format!("picture-{}-{x}{y}.svg", std::process::id()));
            picture.draw(&path).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            for word in ["<svg", "A title", "amount", "first", "<circle"] {
                assert!(text.contains(word), "{word} is not in {text}");
            }
        }
        let none = Picture {
            title: "none".into(),
            x: axis(false),
            y: axis(false),
            curves: Vec::new(),
        };
        assert!(none.draw(Path::new("/nowhere/none.svg")).is_err());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [bytes(512.0), bytes(65_536.0), bytes(1_048_576.0)],
            ["512", "64K", "1M"]
        );
        assert_eq!(
            [number(0.25), number(3.0), number(12.5), number(-1e-17)],
            ["0.2", "3", "12", "0"]
        );
    }
}

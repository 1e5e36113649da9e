//! The strategy that chooses for itself, against bare TCP and every fixed codec, on slow and fast ways.

use anyhow::Result;
use workspace_benches::picture::{Axis, Curve, Picture, number};
use workspace_benches::way::Way;

use crate::data::Sets;
use crate::options::Options;
use crate::run::{Outcome, PAPER_LINK, Transfer, link, medians};
use crate::sketch::{MEGABITS, draw};

const STACKS: [(&str, &str); 6] = [
    ("tcp", "tcp"),
    ("auto", "tcp,compress:strategy=auto"),
    ("zlib", "tcp,compress:codec=zlib"),
    ("zstd", "tcp,compress:codec=zstd"),
    ("lz4", "tcp,compress:codec=lz4"),
    ("lzo", "tcp,compress:codec=lzo"),
];
const SETS: [&str; 4] = ["ascii", "binary", "media", "random"];
/// It takes a while to learn, so that short transfers say little.
const LONGER: u32 = 3;

/// Prints a table for each way, and draws them together.
pub(crate) fn run(options: &Options, sets: &Sets) -> Result<()> {
    for (name, rate) in [
        ("10 Mbit/s", PAPER_LINK / 10),
        ("100 Mbit/s", PAPER_LINK),
        ("loopback", 0),
    ] {
        let way = if rate > 0 { link(rate)? } else { Way::Loopback };
        let heads: Vec<_> = STACKS.iter().map(|(name, _)| *name).collect();
        println!("\nMbit/s of original data, {name}, writes of 64 KiB.\n");
        println!("| Data | {} | auto/bare | auto/best |", heads.join(" | "));
        println!("| --- |{} ---: | ---: |", " ---: |".repeat(STACKS.len()));
        let mut curves: Vec<_> = heads
            .iter()
            .map(|name| Curve {
                name: (*name).to_owned(),
                points: Vec::new(),
            })
            .collect();
        for (place, set) in SETS.iter().enumerate() {
            let outcomes = measure(options, &way, sets, set)?;
            print_row(set, &outcomes);
            let place = u32::try_from(place).map_or(0.0, f64::from);
            for (curve, outcome) in curves.iter_mut().zip(&outcomes) {
                curve.points.push((place, outcome.megabits));
            }
        }
        let picture = Picture {
            title: format!("The choosing strategy against fixed codecs, {name}"),
            x: Axis {
                name: "data",
                log: false,
                from_zero: false,
                label: set_name,
            },
            y: Axis {
                log: true,
                from_zero: false,
                label: number,
                ..MEGABITS
            },
            curves,
        };
        draw(
            options,
            &format!("compress-auto-{}", name.replace([' ', '/'], "-")),
            &picture,
        )?;
    }
    Ok(())
}

/// The set that stands at a place of the axis; nothing in between.
fn set_name(place: f64) -> String {
    let at = SETS
        .iter()
        .zip(0_u32..)
        .find(|(_, i)| (f64::from(*i) - place).abs() < 0.01);
    at.map_or_else(String::new, |(name, _)| (*name).to_owned())
}

fn measure(options: &Options, way: &Way, sets: &Sets, set: &str) -> Result<Vec<Outcome>> {
    let file = sets.path(set);
    let time = if options.is_quick() {
        options.time()
    } else {
        options.time() * LONGER
    };
    let transfers = STACKS.map(|(_, stack)| Transfer {
        stack,
        file: &file,
        block: 64 << 10,
        streams: 1,
        time,
    });
    medians(way, options.runs(), &transfers)
}

fn print_row(set: &str, outcomes: &[Outcome]) {
    let cells: Vec<_> = outcomes
        .iter()
        .map(|one| format!("{:.0}", one.megabits))
        .collect();
    let [bare, auto, fixed @ ..] = outcomes else {
        return;
    };
    let best = fixed
        .iter()
        .map(|one| one.megabits)
        .fold(bare.megabits, f64::max);
    println!(
        "| {set} | {} | {:.3} | {:.3} |",
        cells.join(" | "),
        auto.megabits / bare.megabits,
        auto.megabits / best
    );
}

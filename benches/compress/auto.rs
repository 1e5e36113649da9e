//! `strategy=auto` against bare TCP and every fixed codec, on slow and fast networks.

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
/// Factor on the duration: the strategy needs time to learn.
const LONGER: u32 = 3;

/// Prints a table and draws a picture for each network.
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
        for (position, set) in SETS.iter().enumerate() {
            let outcomes = measure(options, &way, sets, set)?;
            print_row(set, &outcomes);
            let position = u32::try_from(position).map_or(0.0, f64::from);
            for (curve, outcome) in curves.iter_mut().zip(&outcomes) {
                curve.points.push((position, outcome.megabits));
            }
        }
        let picture = Picture {
            title: format!("strategy=auto against fixed codecs, {name}"),
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

/// Returns the name of the set at a position of the axis, or nothing between positions.
fn set_name(position: f64) -> String {
    let at = SETS
        .iter()
        .zip(0_u32..)
        .find(|(_, i)| (f64::from(*i) - position).abs() < 0.01);
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

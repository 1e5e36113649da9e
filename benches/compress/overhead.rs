//! Overhead of the layer without compression: figure 13 of the paper.

use anyhow::Result;
use workspace_benches::picture::{Axis, Curve, Picture, number};

use crate::data::Sets;
use crate::options::Options;
use crate::run::{PAPER_LINK, Transfer, link, medians};
use crate::sketch::{BLOCK_SIZE, draw};

const BLOCKS: &[usize] = &[1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Factor on the number of runs: the difference is small.
const MORE_RUNS: usize = 3;

/// Prints the table, and draws the picture.
pub(crate) fn run(options: &Options, sets: &Sets) -> Result<()> {
    let way = link(PAPER_LINK)?;
    println!("\nPercent that `stored` is slower than bare TCP over a link of 100 Mbit/s.\n");
    println!("| Block | tcp, Mbit/s | tcp,compress:codec=stored | Slower by | Paper |");
    println!("| --- | ---: | ---: | ---: | --- |");
    let file = sets.path("random");
    let blocks = if options.is_quick() {
        &[4 << 10][..]
    } else {
        BLOCKS
    };
    let mut points = Vec::new();
    for block in blocks {
        let stored = format!("tcp,compress:codec=stored;block={block}");
        let transfers = ["tcp", &stored].map(|stack| Transfer {
            stack,
            file: &file,
            block: *block,
            streams: 1,
            time: options.time(),
        });
        let outcomes = medians(&way, options.runs() * MORE_RUNS, &transfers)?;
        let [bare, stored] = outcomes.as_slice() else {
            continue;
        };
        let slower = 100.0 * (1.0 - stored.megabits / bare.megabits);
        let paper = if *block < 4 << 10 {
            "over 1 % at 1 KiB"
        } else {
            "under 0.2 %"
        };
        println!(
            "| {}K | {:.2} | {:.2} | {slower:.2} % | {paper} |",
            block >> 10,
            bare.megabits,
            stored.megabits
        );
        let block = u32::try_from(*block).map_or(f64::NAN, f64::from);
        points.push((block, slower));
    }
    let picture = Picture {
        title: "Figure 13: overhead of the driver without compression, 100 Mbit/s".into(),
        x: BLOCK_SIZE,
        y: Axis {
            name: "slower than bare TCP by percent",
            log: false,
            from_zero: true,
            label: number,
        },
        curves: vec![Curve {
            name: "stored".into(),
            points,
        }],
    };
    draw(options, "compress-overhead", &picture)
}

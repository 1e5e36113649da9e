//! Throughput by number of streams, each compressed on its own thread: figures 15 and 16 of the
//! paper.

use anyhow::Result;
use workspace_benches::picture::{Axis, Curve, Picture, number};

use crate::data::{SETS, Sets};
use crate::options::Options;
use crate::run::{PAPER_LINK, Transfer, link, medians};
use crate::sketch::{MEGABITS, draw};

const STREAMS: [usize; 3] = [1, 2, 4];

/// Prints the table, and draws a picture for each figure.
pub(crate) fn run(options: &Options, sets: &Sets) -> Result<()> {
    let way = link(PAPER_LINK)?;
    println!(
        "\nMbit/s of original data over a link of 100 Mbit/s in blocks of 64 KiB, by streams.\n"
    );
    println!("| Data | Stack | 1 | 2 | 4 |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for (figure, codec) in [(15, "zlib"), (16, "lzo")] {
        let mut curves = Vec::new();
        for (set, _) in SETS {
            let (file, stack) = (sets.path(set), format!("tcp,compress:codec={codec}"));
            let transfers = STREAMS.map(|streams| Transfer {
                stack: &stack,
                file: &file,
                block: 64 << 10,
                streams,
                time: options.time(),
            });
            let outcomes = medians(&way, options.runs(), &transfers)?;
            let cells: Vec<_> = outcomes
                .iter()
                .map(|one| format!("{:.1}", one.megabits))
                .collect();
            println!("| {set} | {codec} | {} |", cells.join(" | "));
            let points = [1.0, 2.0, 4.0].into_iter().zip(&outcomes);
            curves.push(Curve {
                name: set.to_owned(),
                points: points
                    .map(|(streams, one)| (streams, one.megabits))
                    .collect(),
            });
        }
        let picture = Picture {
            title: format!("Figure {figure}: {codec} on parallel streams, 100 Mbit/s"),
            x: Axis {
                name: "streams",
                log: true,
                from_zero: false,
                label: number,
            },
            // On a linear axis, the set `zero` would flatten the others.
            y: Axis {
                log: true,
                from_zero: false,
                ..MEGABITS
            },
            curves,
        };
        draw(options, &format!("compress-streams-{codec}"), &picture)?;
    }
    Ok(())
}

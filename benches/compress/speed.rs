//! Throughput over 100 Mbit/s by block size, for each set and codec: figures 3 to 12 of the paper.

use anyhow::Result;
use workspace_benches::picture::{Curve, Picture};
use workspace_benches::way::Way;

use crate::data::{SETS, Sets};
use crate::options::Options;
use crate::run::{Outcome, PAPER_LINK, Transfer, link, medians};
use crate::sketch::{BLOCK_SIZE, MEGABITS, draw};

const BLOCKS: &[usize] = &[1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
const CODECS: &[&str] = &["zlib", "lzo", "zstd", "lz4"];
/// Codecs of the paper, with the number of their first figure.
const FIGURES: [(&str, usize); 2] = [("zlib", 3), ("lzo", 8)];
/// Order of the paper's figures.
const ORDER: [&str; 5] = ["ascii", "binary", "media", "random", "zero"];

/// Prints the table, and draws a picture for each figure.
pub(crate) fn run(options: &Options, sets: &Sets) -> Result<()> {
    let way = link(PAPER_LINK)?;
    let blocks = if options.is_quick() {
        &[16 << 10][..]
    } else {
        BLOCKS
    };
    let heads: Vec<_> = blocks
        .iter()
        .map(|block| format!("{}K", block >> 10))
        .collect();
    println!("\nMbit/s of original data over a link of 100 Mbit/s, by block size.\n");
    println!("| Data | Stack | {} |", heads.join(" | "));
    println!("| --- | --- |{}", " ---: |".repeat(blocks.len()));
    let bare = row(options, &way, sets, "random", None, blocks)?;
    print_row("any", "tcp", &bare);
    for (set, _) in SETS {
        for codec in CODECS {
            let these = row(options, &way, sets, set, Some(codec), blocks)?;
            print_row(set, codec, &these);
            let figure = FIGURES.iter().find(|(name, _)| name == codec);
            let place = ORDER.iter().position(|name| *name == set);
            if let (Some((_, first)), Some(place)) = (figure, place) {
                let curve = |name: &str, outcomes: &[Outcome]| Curve {
                    name: name.to_owned(),
                    points: points(blocks, outcomes),
                };
                let picture = Picture {
                    title: format!("Figure {}: {set} data, {codec}, 100 Mbit/s", first + place),
                    x: BLOCK_SIZE,
                    y: MEGABITS,
                    curves: vec![curve("tcp,compress", &these), curve("tcp", &bare)],
                };
                draw(options, &format!("compress-{codec}-{set}"), &picture)?;
            }
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "block sizes are small")]
fn points(blocks: &[usize], outcomes: &[Outcome]) -> Vec<(f64, f64)> {
    blocks
        .iter()
        .zip(outcomes)
        .map(|(block, outcome)| (*block as f64, outcome.megabits))
        .collect()
}

fn print_row(set: &str, stack: &str, outcomes: &[Outcome]) {
    let cells: Vec<_> = outcomes
        .iter()
        .map(|outcome| format!("{:.1}", outcome.megabits))
        .collect();
    println!("| {set} | {stack} | {} |", cells.join(" | "));
}

/// Measures one set with one codec, or bare TCP, at every block size.
fn row(
    options: &Options,
    way: &Way,
    sets: &Sets,
    set: &str,
    codec: Option<&str>,
    blocks: &[usize],
) -> Result<Vec<Outcome>> {
    let file = sets.path(set);
    let stacks: Vec<_> = blocks
        .iter()
        .map(|block| match codec {
            None => "tcp".to_owned(),
            Some(codec) => format!("tcp,compress:codec={codec};block={block}"),
        })
        .collect();
    let transfers: Vec<_> = stacks
        .iter()
        .zip(blocks)
        .map(|(stack, block)| Transfer {
            stack,
            file: &file,
            block: *block,
            streams: 1,
            time: options.time(),
        })
        .collect();
    medians(way, options.runs(), &transfers)
}

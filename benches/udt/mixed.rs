//! Time of a short transfer on a lossy path, between our ends and those of libudt.

use std::time::Duration;

use anyhow::{Result, ensure};
use workspace_benches::link::Link;
use workspace_benches::shape::Shape;
use workspace_benches::way::Way;

use crate::flow::{Flow, Outcome, median};
use crate::options::Options;

const MEGABITS: u64 = 100;
/// One-way delay in milliseconds.
const DELAY: u64 = 10;
/// Losses in millionths.
const LOSS: u32 = 10_000;
/// Bytes of a transfer.
const AMOUNT: u32 = 2_000_000;

/// Prints the table.
pub(crate) fn run(options: &Options, libudt: &Flow) -> Result<()> {
    let shape = Shape {
        loss: LOSS,
        ..Shape::new(MEGABITS * 125_000, Duration::from_millis(DELAY))
    };
    let ours = Flow::Stack("udt");
    let pairs = [
        (&ours, &ours),
        (&ours, libudt),
        (libudt, &ours),
        (libudt, libudt),
    ];
    let runs = options.runs(15);
    let mut seen = vec![Vec::new(); pairs.len()];
    for _ in 0..runs {
        let way = Way::Link(Link::new(shape)?);
        for ((sender, receiver), seen) in pairs.iter().zip(&mut seen) {
            let outcome = sender
                .start(receiver, &way, &AMOUNT.to_string())?
                .finish()?;
            ensure!(
                outcome.bytes() == f64::from(AMOUNT),
                "{sender} to {receiver}: {} bytes received",
                outcome.bytes()
            );
            seen.push(outcome);
        }
    }
    println!(
        "\n2 MB over {MEGABITS} Mbit/s, {} ms round trip, loss 1 % both ways, {runs} times: seconds.\n",
        2 * DELAY
    );
    println!("| Sender | receiver | median | longest | sent again |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for ((sender, receiver), seen) in pairs.iter().zip(&seen) {
        let longest = seen.iter().map(|outcome| outcome.took).fold(0.0, f64::max);
        let middle = |value: fn(&Outcome) -> f64| median(seen.iter().map(value));
        println!(
            "| {sender} | {receiver} | {:.2} | {longest:.2} | {:.1} % |",
            middle(|o| o.took),
            middle(|o| o.again)
        );
    }
    Ok(())
}

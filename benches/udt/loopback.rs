//! Speed and processor cost on loopback, where only the processor is the limit.

use anyhow::Result;
use workspace_benches::way::Way;

use crate::flow::{Flow, Outcome, median};
use crate::options::Options;

/// Bytes of a transfer.
const AMOUNT: u64 = 1 << 30;

/// Prints the table.
pub(crate) fn run(options: &Options, libudt: &Flow) -> Result<()> {
    let flows = [
        libudt.clone(),
        Flow::Stack("udt"),
        Flow::Stack("udt:cc=udt"),
        Flow::Stack("tcp"),
    ];
    let amount = if options.is_quick() {
        AMOUNT / 16
    } else {
        AMOUNT
    };
    let mut seen = vec![Vec::new(); flows.len()];
    for _ in 0..options.runs(5) {
        for (flow, seen) in flows.iter().zip(&mut seen) {
            seen.push(flow.run(&Way::Loopback, &amount.to_string())?);
        }
    }
    println!(
        "\nLoopback, {} MiB, both ends' processor time.\n",
        amount >> 20
    );
    println!("| Flow | Mbit/s | times libudt's | CPU s/GB | part of libudt's |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let middle = |seen: &[Outcome]| {
        let cost = |outcome: &Outcome| outcome.cpu / outcome.bytes() * 1e9;
        (
            median(seen.iter().map(Outcome::megabits)),
            median(seen.iter().map(cost)),
        )
    };
    let (their_speed, their_cost) = middle(seen.first().map_or(&[][..], Vec::as_slice));
    for (flow, seen) in flows.iter().zip(&seen) {
        let (speed, cost) = middle(seen);
        println!(
            "| {flow} | {speed:.0} | {:.1} | {cost:.2} | {:.2} |",
            speed / their_speed,
            cost / their_cost
        );
    }
    Ok(())
}

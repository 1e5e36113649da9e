//! Share of a long lossy link that one flow uses.

use std::time::Duration;

use anyhow::Result;
use workspace_benches::link::Link;
use workspace_benches::shape::Shape;
use workspace_benches::way::Way;

use crate::flow::{Flow, Outcome, median};
use crate::options::Options;
use crate::sketch::{curve, draw};

/// One-way delay.
const DELAY: Duration = Duration::from_millis(50);
/// Seconds in which a flow finds the rate of the link.
const BEGINNING: f64 = 5.0;
/// Links: megabits per second, and losses in millionths.
const LINKS: [(u32, u32); 4] = [(200, 500), (200, 5000), (1000, 0), (1000, 100)];

fn link(megabits: u32, loss: u32) -> Result<Way> {
    let shape = Shape::new(u64::from(megabits) * 125_000, DELAY);
    Ok(Way::Link(Link::new(Shape { loss, ..shape })?))
}

/// Shows that the emulation keeps up, by datagrams at nearly the rate of the fastest link.
pub(crate) fn check(options: &Options) -> Result<()> {
    println!("\nThe emulated link of 1000 Mbit/s by itself, with both ends on this machine.\n");
    println!("| Flow | sent, Mbit/s | arrived, Mbit/s |");
    println!("| --- | ---: | ---: |");
    let way = link(1000, 0)?;
    let amount = format!("{}s", options.seconds().min(10));
    for megabits in [500, 990] {
        let outcome = Flow::Datagrams(megabits).run(&way, &amount)?;
        // Of 1500 bytes, 28 are headers.
        let arrived = outcome.megabits() * 1500.0 / 1472.0;
        println!("| bare datagrams | {megabits} | {arrived:.0} |");
    }
    Ok(())
}

/// Prints the table, and draws a picture for each rate.
pub(crate) fn run(options: &Options, libudt: &Flow) -> Result<()> {
    let flows = [
        Flow::Stack("udt"),
        Flow::Stack("udt:cc=udt"),
        libudt.clone(),
    ];
    let amount = format!("{}s", options.seconds());
    println!(
        "\nEmulated link, 100 ms round trip, {} s from the first packet to the last acknowledgement.\n",
        options.seconds()
    );
    println!(
        "| Mbit/s | loss | Flow | Mbit/s of payload | part of the link | after {BEGINNING} s | sent again | CPU s/GB |"
    );
    println!("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |");
    let mut curves = Vec::new();
    for (megabits, loss) in LINKS {
        let mut seen = vec![Vec::new(); flows.len()];
        for _ in 0..options.runs(1) {
            let way = link(megabits, loss)?;
            for (flow, seen) in flows.iter().zip(&mut seen) {
                seen.push(flow.run(&way, &amount)?);
            }
        }
        let percent = f64::from(loss) / 1e4;
        for (flow, seen) in flows.iter().zip(&seen) {
            let middle = |value: fn(&Outcome) -> f64| median(seen.iter().map(value));
            let (all, rate) = (middle(Outcome::megabits), f64::from(megabits));
            let later = middle(|o| o.between(o.began + BEGINNING, o.began + o.took));
            println!(
                "| {megabits} | {percent} % | {flow} | {all:.0} | {:.0} % | {:.0} % | {:.2} % | {:.1} |",
                all / rate * 100.0,
                later / rate * 100.0,
                middle(|o| o.again),
                middle(|o| o.cpu / o.bytes() * 1e9)
            );
            if let Some(first) = seen.first() {
                let name = format!("{}, loss {percent} %", flow.label());
                curves.push((megabits, curve(name, first, first.began, 1.0)));
            }
        }
    }
    for megabits in [200, 1000] {
        let these = curves.iter().filter(|(of, _)| *of == megabits);
        let title = format!("One flow over {megabits} Mbit/s, 100 ms round trip");
        let curves = these.map(|(_, curve)| curve.clone()).collect();
        draw(options, &format!("udt-link-{megabits}"), title, curves)?;
    }
    Ok(())
}

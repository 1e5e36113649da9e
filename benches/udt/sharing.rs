//! Shares of two flows on one link.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use workspace_benches::link::Link;
use workspace_benches::shape::Shape;
use workspace_benches::way::Way;

use crate::flow::{Flow, median};
use crate::options::Options;
use crate::sketch::{curve, draw};

const MEGABITS: u32 = 100;
/// One-way delay in milliseconds.
const DELAY: u64 = 20;
/// Longest queueing delays in milliseconds: half, once and twice the round trip.
const QUEUES: [u64; 3] = [20, 40, 80];
/// Delay of the second flow's start, and of the measurement after that.
const LATER: Duration = Duration::from_secs(5);
/// Seconds of the second flow.
const TOGETHER: u64 = 20;

/// Prints the table, and draws a picture for each pair.
pub(crate) fn run(options: &Options, libudt: &Flow) -> Result<()> {
    let (bbr, native) = (Flow::Stack("udt"), Flow::Stack("udt:cc=udt"));
    let (cubic, tcp_bbr) = (Flow::Stack("tcp:cc=cubic"), Flow::Stack("tcp:cc=bbr"));
    let flow_cubic = Flow::Stack("udt:cc=cubic");
    let pairs = [
        (&bbr, &bbr),
        (&bbr, &cubic),
        (&cubic, &bbr),
        (&bbr, &tcp_bbr),
        (&flow_cubic, &cubic),
        (&cubic, &flow_cubic),
        (&flow_cubic, &tcp_bbr),
        (&native, &native),
        (&native, &cubic),
        (&native, &tcp_bbr),
        (&bbr, &native),
        (libudt, &cubic),
    ];
    let later = if options.is_quick() { LATER / 5 } else { LATER };
    let together = if options.is_quick() { 2 } else { TOGETHER };
    println!(
        "\nTwo flows on {MEGABITS} Mbit/s, {} ms round trip; the second begins {later:?} after the first.\n\
         Mbit/s of payload of the first + the second, from {later:?} after that to the end, by the longest queue.\n",
        2 * DELAY
    );
    let heads = QUEUES.map(|queue| format!("{queue} ms"));
    println!("| First | second | {} |", heads.join(" | "));
    println!("| --- | --- | ---: | ---: | ---: |");
    let wanted = (1..).zip(pairs).filter(|(row, _)| options.wants_row(*row));
    for (_, (first, second)) in wanted {
        let mut cells = Vec::new();
        for queue in QUEUES {
            let shape = Shape {
                queue: Duration::from_millis(queue),
                ..Shape::new(u64::from(MEGABITS) * 125_000, Duration::from_millis(DELAY))
            };
            let mut shares = Vec::new();
            for run in 0..options.runs(1) {
                let way = Way::Link(Link::new(shape)?);
                let one = first.start(first, &way, &format!("{}s", together + later.as_secs()))?;
                thread::sleep(later);
                let two = second.start(second, &way, &format!("{together}s"))?;
                let (one, two) = (one.finish()?, two.finish()?);
                let from = two.began + later.as_secs_f64();
                let to = (one.began + one.took).min(two.began + two.took);
                shares.push((one.between(from, to), two.between(from, to)));
                if run == 0 && queue == QUEUES[1] {
                    let curves = vec![
                        curve(first.label(), &one, one.began, 0.5),
                        curve(second.label(), &two, one.began, 0.5),
                    ];
                    let file = format!("udt-{}-{}", first.word(), second.word());
                    let names = format!("{} and {}", first.label(), second.label());
                    let title = format!("{names} on {MEGABITS} Mbit/s, queue of {queue} ms");
                    draw(options, &file, title, curves)?;
                }
            }
            let middle = |of: fn(&(f64, f64)) -> f64| median(shares.iter().map(of));
            cells.push(format!("{:.0} + {:.0}", middle(|s| s.0), middle(|s| s.1)));
        }
        println!("| {first} | {second} | {} |", cells.join(" | "));
    }
    Ok(())
}

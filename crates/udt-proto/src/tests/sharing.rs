//! Flows that share a bottleneck: none of them starves.

use std::time::Duration;

use super::link::Nature;
use super::tcp::{Bbr, Control, Cubic, Tcp};
use super::world::{Program, World};
use crate::{Congestion, Options};

/// A flow, by its congestion control.
#[derive(Debug, Clone, Copy)]
enum Flow {
    Udt(Congestion),
    Cubic,
    Bbr,
}

const MODEL: Flow = Flow::Udt(Congestion::Model);

/// A bottleneck of so many megabits per second, with a round trip in milliseconds and a queue as
/// long as a part of the path's capacity.
#[derive(Debug, Clone, Copy)]
struct Path {
    megabits: u64,
    rtt: u64,
    queue: f64,
}

impl Path {
    /// What flows that begin one after the other get of it, each as a part, within some seconds
    /// after the last has begun and found its place.
    fn share(self, flows: &[Flow], seconds: u64, seed: u64) -> Vec<f64> {
        let rate = self.megabits * 125_000;
        let delay = Duration::from_micros(self.rtt * 500);
        let mut world = World::new(seed);
        world.tick = Duration::from_millis(1);
        let there = world.add_link(Nature {
            delay,
            rate,
            queue: (rate as f64 * self.rtt as f64 / 1e3 * self.queue) as u64,
            ..Nature::default()
        });
        let back = world.add_link(Nature {
            delay,
            ..Nature::default()
        });
        let hosts = flows
            .iter()
            .map(|_| (world.add_host(there), world.add_host(back)));
        let hosts: Vec<_> = hosts.collect();
        for (flow, (from, to)) in flows.iter().zip(&hosts) {
            start(&mut world, *flow, *from, *to);
            // The next flow finds the link taken.
            let until = Duration::from_micros(2_000_000 + world.dice.below(100_000));
            world.run(until, |_| false);
        }
        world.run(Duration::from_secs(3), |_| false);
        let before: Vec<_> = hosts.iter().map(|(_, to)| arrived(&world, *to)).collect();
        world.run(Duration::from_secs(seconds), |_| false);
        let after = hosts.iter().map(|(_, to)| arrived(&world, *to));
        after
            .zip(before)
            .map(|(after, before)| (after - before) as f64 / (rate * seconds) as f64)
            .collect()
    }
}

fn start(world: &mut World, flow: Flow, from: usize, to: usize) {
    let control: Box<dyn Control> = match flow {
        Flow::Udt(congestion) => {
            world.hosts[to].endpoint.listen(Options::default(), 10);
            world.hosts[to].serves.is_careless = true;
            let options = Options {
                congestion,
                ..Options::default()
            };
            let program = Program {
                to_write: u64::MAX / 2,
                is_careless: true,
                ..Program::default()
            };
            world.connect(from, to, options, program);
            return;
        }
        Flow::Cubic => Box::new(Cubic::new()),
        Flow::Bbr => Box::new(Bbr::new()),
    };
    world.tcps.push(Tcp::new(world.now, from, to, control));
}

/// Payload bytes received by a host.
fn arrived(world: &World, host: usize) -> u64 {
    let udt = world.hosts[host].seats.values();
    let tcp = world.tcps.iter().filter(|tcp| tcp.to == host);
    udt.map(|seat| seat.program.read).sum::<u64>() + tcp.map(|tcp| tcp.arrived * 1460).sum::<u64>()
}

#[test]
fn two_flows_share() {
    for queue in [0.25, 0.5, 1.0, 2.0] {
        let path = Path {
            megabits: 50,
            rtt: 40,
            queue,
        };
        let shares = path.share(&[MODEL; 2], 10, 7);
        assert!(
            shares.iter().all(|share| *share > 0.25),
            "{path:?}: {shares:?}"
        );
        assert!(shares.iter().sum::<f64>() > 0.85, "{path:?}: {shares:?}");
    }
}

#[test]
fn nobody_starves_beside_tcp() {
    for queue in [0.25, 0.5, 1.0, 2.0] {
        let path = Path {
            megabits: 50,
            rtt: 40,
            queue,
        };
        let shares = path.share(&[Flow::Cubic, MODEL], 15, 7);
        // A third of a fair half.
        assert!(
            shares.iter().all(|share| *share > 0.167),
            "{path:?}: {shares:?}"
        );
    }
}

#[test]
fn nobody_starves_among_several() {
    const CUBIC: Flow = Flow::Cubic;
    for queue in [0.25, 0.5, 1.0, 2.0] {
        let path = Path {
            megabits: 50,
            rtt: 40,
            queue,
        };
        for flows in [
            [MODEL, CUBIC, CUBIC, CUBIC],
            [CUBIC, CUBIC, CUBIC, MODEL],
            [MODEL, MODEL, CUBIC, CUBIC],
            [CUBIC, CUBIC, MODEL, MODEL],
        ] {
            let shares = path.share(&flows, 25, 7);
            // A third of a fair quarter.
            assert!(
                shares.iter().all(|share| *share > 0.083),
                "{path:?}, {flows:?}: {shares:.3?}"
            );
            assert!(
                shares.iter().sum::<f64>() > 0.9,
                "{path:?}, {flows:?}: {shares:.3?}"
            );
        }
    }
}

#[test]
fn nobody_starves_beside_bbr() {
    for queue in [0.5, 1.0, 2.0] {
        let path = Path {
            megabits: 50,
            rtt: 40,
            queue,
        };
        for flows in [[MODEL, Flow::Bbr], [Flow::Bbr, MODEL]] {
            let shares = path.share(&flows, 20, 7);
            assert!(
                shares.iter().all(|share| *share > 0.167),
                "{path:?}, {flows:?}: {shares:?}"
            );
        }
    }
}

#[test]
fn tcp_keeps_a_quarter_beside_one_flow() {
    for (megabits, rtt, queue) in [
        (20, 100, 0.1),
        (20, 40, 0.25),
        (100, 40, 0.5),
        (20, 100, 1.0),
    ] {
        let path = Path {
            megabits,
            rtt,
            queue,
        };
        for udt in [MODEL, Flow::Udt(Congestion::Cubic)] {
            for flows in [[udt, Flow::Cubic], [Flow::Cubic, udt], [Flow::Bbr, udt]] {
                let shares = path.share(&flows, 30, 7);
                let tcp = if matches!(flows[0], Flow::Udt(_)) {
                    1
                } else {
                    0
                };
                assert!(shares[tcp] > 0.25, "{path:?}, {flows:?}: {shares:.3?}");
            }
        }
    }
}

/// Prints the shares of two flows in percent, median and extremes of `UDT_RUNS` seeds of
/// `UDT_SECONDS` each, for the control `UDT_CC` and the space-separated `UDT_PAIRS`.
#[test]
#[ignore = "takes minutes: it prints a table of benches/README.md"]
fn print_shares_of_two_flows() {
    let number = |name: &str, plain| {
        let value = std::env::var(name).ok();
        value.map_or(plain, |value| value.parse().unwrap())
    };
    let (runs, seconds) = (number("UDT_RUNS", 5), number("UDT_SECONDS", 30));
    let udt = match std::env::var("UDT_CC").as_deref() {
        Ok("cubic") => Flow::Udt(Congestion::Cubic),
        Ok("udt") => Flow::Udt(Congestion::Native),
        _ => MODEL,
    };
    let pairs = [
        ("cubic+", [Flow::Cubic, udt]),
        ("+cubic", [udt, Flow::Cubic]),
        ("bbr+", [Flow::Bbr, udt]),
        ("+bbr", [udt, Flow::Bbr]),
        ("+self", [udt, udt]),
        ("cubic2", [Flow::Cubic, Flow::Cubic]),
    ];
    let wanted = std::env::var("UDT_PAIRS").unwrap_or_default();
    for (name, flows) in pairs {
        if !wanted.is_empty() && !wanted.split(' ').any(|one| one == name) {
            continue;
        }
        println!("## {name} {flows:?}");
        let only = |name: &str, value: String| std::env::var(name).is_ok_and(|only| only != value);
        for megabits in [20, 100] {
            for rtt in [40, 100] {
                if only("UDT_MBIT", megabits.to_string()) || only("UDT_RTT", rtt.to_string()) {
                    continue;
                }
                let mut line = format!("{megabits:4} {rtt:4}");
                for queue in [0.1, 0.25, 0.5, 1.0] {
                    if only("UDT_QUEUE", queue.to_string()) {
                        continue;
                    }
                    let path = Path {
                        megabits,
                        rtt,
                        queue,
                    };
                    let all: Vec<_> = (1..=runs)
                        .map(|seed| path.share(&flows, seconds, seed))
                        .collect();
                    for flow in 0..2 {
                        let mut parts: Vec<_> =
                            all.iter().map(|shares| shares[flow] * 100.0).collect();
                        parts.sort_by(f64::total_cmp);
                        let (low, middle, high) =
                            (parts[0], parts[parts.len() / 2], parts[parts.len() - 1]);
                        line += &format!(
                            " {}{middle:3.0} ({low:.0}-{high:.0})",
                            if flow == 0 { "| " } else { "+ " }
                        );
                    }
                }
                println!("{line}");
            }
        }
    }
}

//! Flows that share a bottleneck: none of them starves.

use std::time::Duration;

use super::link::Nature;
use super::tcp::Tcp;
use super::world::{Program, World};
use crate::{Congestion, Options};

/// What flows get of a link of some megabits per second within some seconds after the first few.
#[derive(Debug)]
struct Shares {
    udt: Vec<f64>,
    tcp: f64,
}

fn share(
    megabits: u64,
    rtt: u64,
    queue: f64,
    udt: &[Congestion],
    tcp: bool,
    seconds: u64,
) -> Shares {
    let rate = megabits * 125_000;
    let delay = Duration::from_micros(rtt * 500);
    let mut world = World::new(7);
    world.tick = Duration::from_millis(1);
    let there = world.add_link(Nature {
        delay,
        rate,
        queue: (rate as f64 * rtt as f64 / 1e3 * queue) as u64,
        ..Nature::default()
    });
    let back = world.add_link(Nature {
        delay,
        ..Nature::default()
    });
    let (from, to) = (world.add_host(there), world.add_host(back));
    let (tcp_from, tcp_to) = (world.add_host(there), world.add_host(back));
    world.hosts[to].endpoint.listen(Options::default(), 10);
    world.hosts[to].serves.is_careless = true;
    if tcp {
        world.tcp = Some(Tcp::new(world.now, tcp_from, tcp_to));
    }
    for congestion in udt {
        let options = Options {
            congestion: *congestion,
            ..Options::default()
        };
        let program = Program {
            to_write: u64::MAX / 2,
            is_careless: true,
            ..Program::default()
        };
        world.connect(from, to, options, program);
        // One after the other: the second finds the link taken.
        world.run(Duration::from_secs(2), |_| false);
    }
    world.run(Duration::from_secs(3), |_| false);
    let read = |world: &World| -> Vec<u64> {
        let seats = world.hosts[to].seats.values();
        seats.map(|seat| seat.program.read).collect()
    };
    let arrived = |world: &World| world.tcp.as_ref().map_or(0, |tcp| tcp.arrived);
    let (before, tcp_before) = (read(&world), arrived(&world));
    world.run(Duration::from_secs(seconds), |_| false);
    let part = |bytes: u64| bytes as f64 / (rate * seconds) as f64;
    let mut udt: Vec<_> = read(&world)
        .iter()
        .zip(before)
        .map(|(after, before)| part(after - before))
        .collect();
    udt.reverse(); // numbers of connections fall
    Shares {
        udt,
        tcp: part((arrived(&world) - tcp_before) * 1460),
    }
}

#[test]
fn two_flows_share() {
    for queue in [0.25, 0.5, 1.0, 2.0] {
        let shares = share(50, 40, queue, &[Congestion::Model; 2], false, 10);
        let least = shares.udt.iter().copied().fold(1.0, f64::min);
        assert!(least > 0.25, "queue {queue}: {shares:?}");
        assert!(
            shares.udt.iter().sum::<f64>() > 0.85,
            "queue {queue}: {shares:?}"
        );
    }
}

#[test]
fn nobody_starves_beside_tcp() {
    for queue in [0.25, 0.5, 1.0, 2.0] {
        let shares = share(50, 40, queue, &[Congestion::Model], true, 15);
        // A third of a fair half.
        assert!(shares.tcp > 0.167, "queue {queue}: {shares:?}");
        assert!(shares.udt[0] > 0.167, "queue {queue}: {shares:?}");
    }
}

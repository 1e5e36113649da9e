//! Share of a link that the controls use.

use std::time::Duration;

use super::link::Nature;
use super::world::World;
use crate::packet::Packet;
use crate::{Congestion, Options};

/// A path of so many megabits per second, with a round trip in milliseconds, a queue as long as a
/// part of the path's capacity, losses in millionths, and microseconds from one burst of arrivals
/// to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    megabits: u64,
    rtt: u64,
    queue: f64,
    loss: u32,
    bursts: u64,
}

impl Path {
    fn natures(self) -> [Nature; 2] {
        let rate = self.megabits * 125_000;
        let delay = Duration::from_micros(self.rtt * 500);
        let there = Nature {
            delay,
            rate,
            queue: (rate as f64 * self.rtt as f64 / 1e3 * self.queue) as u64,
            loss: self.loss,
            bursts: Duration::from_micros(self.bursts),
            ..Nature::default()
        };
        let back = Nature {
            delay,
            ..Nature::default()
        };
        [there, back]
    }

    /// Creates two hosts, of which the first sends without end.
    fn world(self, congestion: Congestion, seed: u64) -> World {
        let options = Options {
            congestion,
            ..Options::default()
        };
        let mut world = World::pair(seed, self.natures(), [options.clone(), options]);
        // Timers of a runtime have this resolution.
        world.tick = Duration::from_millis(1);
        let client = &mut world.only(0).program;
        client.to_write = u64::MAX / 2;
        client.is_careless = true;
        world.hosts[1].serves.is_careless = true;
        world
    }

    /// Payload received in each second, as a part of the link's rate.
    fn seconds(self, seconds: u64, congestion: Congestion) -> Vec<f64> {
        let mut world = self.world(congestion, 1);
        let mut before = 0;
        let mut parts = Vec::new();
        for _ in 0..seconds {
            world.run(Duration::from_secs(1), |_| false);
            let read = world.only(1).program.read;
            let part = (read - before) as f64 * 8e-6 / self.megabits as f64;
            before = read;
            parts.push(part);
        }
        parts
    }
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len() as f64
}

/// Mean without the first two seconds, in which the flow finds the rate of the path.
fn later(path: Path, seconds: u64, congestion: Congestion) -> f64 {
    mean(&path.seconds(seconds, congestion)[2..])
}

#[test]
fn long_lossy_paths_are_filled() {
    for (megabits, loss, seconds) in [(200, 500, 8), (200, 5000, 8), (1000, 0, 4), (1000, 100, 4)] {
        let path = Path {
            megabits,
            rtt: 100,
            queue: 1.0,
            loss,
            ..Path::default()
        };
        let part = later(path, seconds, Congestion::Model);
        assert!(part >= 0.85, "{path:?}: {part:.3}");
    }
    let path = Path {
        megabits: 300,
        rtt: 80,
        queue: 1.0,
        loss: 20_000,
        ..Path::default()
    };
    let part = later(path, 12, Congestion::Model);
    assert!(part >= 0.8, "{path:?}: {part:.3}");
}

#[test]
fn short_queues_are_no_reason_to_starve() {
    for (megabits, rtt, queue) in [(20, 40, 0.1), (100, 100, 0.1), (100, 40, 0.25)] {
        let path = Path {
            megabits,
            rtt,
            queue,
            ..Path::default()
        };
        for congestion in [Congestion::Model, Congestion::Cubic] {
            let part = later(path, 20, congestion);
            assert!(part >= 0.8, "{path:?}, {congestion:?}: {part:.3}");
        }
    }
}

#[test]
fn a_short_queue_is_not_flooded() {
    for congestion in [Congestion::Model, Congestion::Native] {
        let path = Path {
            megabits: 50,
            rtt: 40,
            queue: 0.25,
            ..Path::default()
        };
        let mut world = path.world(congestion, 1);
        world.run(Duration::from_secs(5), |_| false);
        let stats = world.only(0).connection.stats();
        assert!(stats.sent > 2000, "{congestion:?}: {stats:?}");
        // Retransmissions are less than a tenth of all packets.
        assert!(
            stats.retransmitted * 10 < stats.sent,
            "{congestion:?}: {stats:?}"
        );
    }
}

/// Between losses a rate R grows for 1 / (loss R) seconds; one of them takes a ninth of it. So R
/// settles where both are equal, at the root of 9 growth / loss. Growth goes by the power of ten
/// that holds a ninth of the capacity, as the receiver measures it.
fn native_rate(path: Path) -> f64 {
    // Packets of a burst arrive together, as on a far faster path.
    let capacity = if path.bursts > 0 {
        6e9
    } else {
        path.megabits as f64 * 1e6
    };
    let step = 10_f64.powf((capacity / 9.0).log10().ceil()) * 1.5e-6 / 1500.0;
    // Growth in packets of each interval of ten milliseconds, of which a second has a hundred.
    let growth = step * 100.0 * 100.0;
    (9.0 * growth / (f64::from(path.loss) * 1e-6)).sqrt() * 1500.0 * 8e-6
}

#[test]
fn rare_losses_slow_the_native_control_as_its_formula_says() {
    for (megabits, loss, bursts) in [
        (200, 500, 0),
        (200, 500, 120),
        (200, 5000, 0),
        (200, 5000, 120),
        (1000, 100, 0),
        (1000, 100, 120),
    ] {
        let path = Path {
            megabits,
            rtt: 100,
            queue: 1.0,
            loss,
            bursts,
        };
        let seconds = 20;
        let rate = |seed| {
            let mut world = path.world(Congestion::Native, seed);
            world.run(Duration::from_secs(seconds), |_| false);
            world.only(1).program.read as f64 * 8e-6 / seconds as f64
        };
        let rates = [1, 2, 3].map(rate);
        let formula = native_rate(path);
        let part = mean(&rates) / formula;
        assert!(
            (0.75..1.35).contains(&part),
            "{path:?}: {rates:.0?} Mbit/s, by the formula {formula:.0}"
        );
    }
}

#[test]
fn pairs_leave_unpaced_without_segmentation_offload() {
    let options = Options {
        max_bandwidth: Some(1_500_000),
        initial_sequence: Some(5),
        ..Options::default()
    };
    let nature = Nature {
        delay: Duration::from_millis(50),
        ..Nature::default()
    };
    let mut world = World::pair(1, [nature.clone(), nature], [options.clone(), options]);
    world.run(Duration::from_secs(1), |_| false);
    let mut now = world.now;
    let connection = &mut world.only(0).connection;
    assert!(connection.write(now, &[0; 60 * 1456]).is_ready());
    let mut sent = Vec::new();
    for _ in 0..1000 {
        connection.handle_timeout(now);
        while let Some(transmit) = connection.poll_transmit(now, 1) {
            if let Some(Packet::Data(data)) = Packet::parse(transmit.contents) {
                sent.push((data.sequence, now));
            }
            connection.on_transmitted(now);
        }
        now += Duration::from_micros(100);
    }
    assert_eq!(sent.len(), 60);
    // The first packets make up for the idle time before the write.
    for pair in sent[8..].windows(2) {
        let is_unpaced = pair[0].1 == pair[1].1;
        assert_eq!(is_unpaced, pair[0].0 & 15 == 0, "{:?}", pair[0].0);
    }
    // 1000 packets a second, pairs included.
    let took = sent[59].1 - sent[0].1;
    assert!(took > Duration::from_millis(53), "{took:?}");
}

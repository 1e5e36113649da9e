//! How much of a link the controls use.

use std::time::Duration;

use super::link::Nature;
use super::world::World;
use crate::{Congestion, Options};

/// A path of so many megabits per second, with a round trip in milliseconds, a queue as long as a part of
/// what fills the path, and losses in millionths.
#[derive(Debug, Clone, Copy)]
struct Path {
    megabits: u64,
    rtt: u64,
    queue: f64,
    loss: u32,
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
            ..Nature::default()
        };
        let back = Nature {
            delay,
            ..Nature::default()
        };
        [there, back]
    }

    /// What arrives as payload in each second, as a part of what the link carries.
    fn seconds(self, seconds: u64, congestion: Congestion, show: bool) -> Vec<f64> {
        let options = Options {
            congestion,
            ..Options::default()
        };
        let mut world = World::pair(1, self.natures(), [options.clone(), options]);
        // Timers of a runtime are no better.
        world.tick = Duration::from_millis(1);
        let client = &mut world.only(0).program;
        client.to_write = u64::MAX / 2;
        client.is_careless = true;
        world.hosts[1].serves.is_careless = true;
        let mut before = 0;
        let mut parts = Vec::new();
        for second in 0..seconds {
            world.run(Duration::from_secs(1), |_| false);
            let read = world.only(1).program.read;
            let part = (read - before) as f64 * 8e-6 / self.megabits as f64;
            before = read;
            parts.push(part);
            if show {
                let connection = &world.only(0).connection;
                let (stats, control) = (connection.stats(), connection.control());
                println!("{second}: {part:.3} {stats:?} {control}");
            }
        }
        parts
    }
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len() as f64
}

/// All but the beginning, which is about finding out how much the path carries.
fn later(path: Path, seconds: u64, congestion: Congestion) -> f64 {
    mean(&path.seconds(seconds, congestion, false)[2..])
}

#[test]
fn long_lossy_paths_are_filled() {
    for (megabits, loss, seconds) in [(200, 500, 8), (200, 5000, 8), (1000, 0, 4), (1000, 100, 4)] {
        let path = Path {
            megabits,
            rtt: 100,
            queue: 1.0,
            loss,
        };
        let part = later(path, seconds, Congestion::Model);
        assert!(part >= 0.85, "{path:?}: {part:.3}");
    }
}

/// `ONE="megabits rtt queue loss seconds"` shows one path second by second.
#[test]
#[ignore = "prints a table to tune by"]
fn table() {
    if let Ok(one) = std::env::var("ONE") {
        let mut numbers = one.split(' ').map(|n| n.parse::<f64>().unwrap());
        let mut next = || numbers.next().unwrap();
        let path = Path {
            megabits: next() as u64,
            rtt: next() as u64,
            queue: next(),
            loss: next() as u32,
        };
        path.seconds(next() as u64, Congestion::Model, true);
        return;
    }
    let mut paths = Vec::new();
    for (megabits, rtt, loss) in [
        (200, 100, 0),
        (200, 100, 500),
        (200, 100, 5000),
        (1000, 100, 0),
        (1000, 100, 100),
        (100, 1, 0),
        (1000, 10, 100),
    ] {
        for queue in [0.1, 0.3, 1.0, 3.0] {
            paths.push(Path {
                megabits,
                rtt,
                queue,
                loss,
            });
        }
    }
    for path in paths {
        let parts = path.seconds(10, Congestion::Model, false);
        let (all, later) = (mean(&parts), mean(&parts[2..]));
        println!("{path:?}: {all:.3}, later {later:.3}");
    }
}

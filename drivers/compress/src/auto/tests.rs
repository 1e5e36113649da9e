//! The machine on simulated links, codecs and data, compared with the bare link.

#![expect(
    clippy::cast_possible_truncation,
    reason = "simulated amounts are small and above 0"
)]

use super::*;
use crate::codec::Algorithm;

const BLOCK: usize = 64 << 10;

/// The simulation: bytes per second, shares left, and bytes that the socket buffers.
struct World {
    link: fn(u64) -> f64,
    /// Speed and share left of each codec, for the block that begins at this byte.
    codec: fn(Choice, u64) -> (f64, f64),
    /// Speed at which the receiver unpacks.
    receiver: fn(Choice) -> f64,
    buffer: f64,
    /// Seconds that the source needs for a byte.
    source: f64,
    threads: usize,
}

/// A link of this rate in bytes per second, and codecs on compressible data.
const WORLD: World = World {
    link: |_| 12.5e6,
    codec: |choice, _| compressible(choice),
    receiver: |_| f64::INFINITY,
    buffer: 2e6,
    source: 0.0,
    threads: 1,
};

fn compressible(choice: Choice) -> (f64, f64) {
    match (choice.algorithm, choice.level) {
        (Algorithm::Stored | Algorithm::Fill, _) => (f64::INFINITY, 1.0),
        (Algorithm::Lz4, _) => (600e6, 0.55),
        (Algorithm::Lzo, _) => (400e6, 0.55),
        (Algorithm::Zstd, 1) => (350e6, 0.42),
        (Algorithm::Zstd, 3) => (170e6, 0.40),
        (Algorithm::Zlib, _) => (50e6, 0.39),
        (Algorithm::Zstd, 9) => (45e6, 0.37),
        (Algorithm::Zstd, _) => (8e6, 0.34),
    }
}

fn random(choice: Choice) -> (f64, f64) {
    (compressible(choice).0, 1.0)
}

/// The result of a run: its seconds, and the number of blocks of each choice.
struct Run {
    seconds: f64,
    samples: usize,
    blocks: Vec<(Choice, usize)>,
}

impl Run {
    fn share(&self, choice: Choice) -> f64 {
        let all: usize = self.blocks.iter().map(|(_, n)| n).sum();
        let these: usize = self
            .blocks
            .iter()
            .filter(|(c, _)| *c == choice)
            .map(|(_, n)| n)
            .sum();
        amount(these as u64) / amount(all as u64)
    }
}

/// Moves these bytes and feeds the machine as a stream does; `fixed` overrules it.
fn run(world: &World, total: u64, fixed: Option<Choice>) -> Run {
    let start = Instant::now();
    let most = 0.99;
    let mut auto = Auto::new(world.threads, most);
    let mut run = Run {
        seconds: 0.0,
        samples: 0,
        blocks: Vec::new(),
    };
    let at = |now: f64| start + Duration::from_secs_f64(now);
    let (mut now, mut queued, mut wire, mut original) = (0.0_f64, 0.0_f64, 0.0_f64, 0_u64);
    while original < total {
        now += world.source * BLOCK as f64;
        queued = (queued - world.source * BLOCK as f64 * (world.link)(original)).max(0.0);
        let mut next = fixed.map_or_else(|| auto.choose(at(now)), Next::Pack);
        if let Next::Sample(sampler) = next {
            run.samples += 1;
            now += 4096.0 / (world.codec)(sampler, original).0 + 5e-6;
            next = auto.sampled((world.codec)(sampler, original).1);
        }
        let tried = match next {
            Next::Contest(choices) => choices,
            Next::Pack(choice) => vec![choice],
            Next::Sample(_) => unreachable!("a sample was taken just now"),
        };
        // Several threads work as one that is faster.
        let busy: f64 = tried
            .iter()
            .map(|choice| BLOCK as f64 / (world.codec)(*choice, original).0 / world.threads as f64)
            .sum();
        now += busy;
        let outcomes: Vec<_> = tried
            .iter()
            .map(|choice| {
                let (speed, left) = (world.codec)(*choice, original);
                Outcome {
                    choice: *choice,
                    original: BLOCK,
                    packed: (BLOCK as f64 * left.min(1.0)) as usize,
                    time: Duration::from_secs_f64(BLOCK as f64 / speed),
                }
            })
            .collect();
        let sent = outcomes
            .iter()
            .min_by_key(|outcome| outcome.packed)
            .unwrap();
        let (choice, packed) = (sent.choice, sent.packed as f64);
        let left = packed / BLOCK as f64;
        original += BLOCK as u64;
        // A receiver that unpacks more slowly holds up the link.
        let link = (world.link)(original).min((world.receiver)(choice) * left);
        queued = (queued - busy * link).max(0.0);
        auto.packed(at(now), &outcomes);
        // As a socket does: it fills up, and takes more when a third is free.
        let mut rest = packed;
        while queued + rest > world.buffer {
            let taken = world.buffer - queued;
            (wire, rest) = (wire + taken, rest - taken);
            auto.moved(wire as u64, original);
            auto.full(at(now));
            now += world.buffer * 0.33 / link;
            queued = world.buffer * 0.67;
            auto.free(at(now));
        }
        queued += rest;
        wire += rest;
        auto.moved(wire as u64, original);
        match run.blocks.last_mut() {
            Some((last, n)) if *last == choice => *n += 1,
            _ => run.blocks.push((choice, 1)),
        }
    }
    run.seconds = now + queued / (world.link)(original);
    run
}

fn best_fixed(world: &World, total: u64) -> (Choice, f64) {
    let all = FIELD
        .iter()
        .map(|&(algorithm, level, _)| Choice { algorithm, level });
    all.filter(|choice| choice.algorithm.is_built())
        .chain([Choice::STORED])
        .map(|choice| (choice, run(world, total, Some(choice)).seconds))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap()
}

/// Holds the machine to its promise: against the bare link, and against the best codec in
/// hindsight.
fn hold(world: &World, total: u64, of_best: f64) -> Run {
    let ours = run(world, total, None);
    let bare = run(world, total, Some(Choice::STORED)).seconds;
    let (best, time) = best_fixed(world, total);
    assert!(
        ours.seconds * 0.98 <= bare,
        "{:.3} s, bare {bare:.3} s: {:?}",
        ours.seconds,
        ours.blocks
    );
    assert!(
        ours.seconds * of_best <= time,
        "{:.3} s, {best:?} {time:.3} s, bare {bare:.3} s: {:?}",
        ours.seconds,
        ours.blocks
    );
    ours
}

#[test]
fn on_a_slow_link_the_best_codec_is_found() {
    hold(&WORLD, 200 << 20, 0.95);
    // At 2 Mbit/s there is time for the hardest work.
    let slow = World {
        link: |_| 0.25e6,
        buffer: 2e5,
        ..WORLD
    };
    let run = hold(&slow, 20 << 20, 0.93);
    assert!(
        run.share(Choice {
            algorithm: Algorithm::Zstd,
            level: 15
        }) > 0.9,
        "{:?}",
        run.blocks
    );
    // At 1 Gbit/s packing must be quick.
    let quick = World {
        link: |_| 125e6,
        ..WORLD
    };
    let run = hold(&quick, 4 << 30, 0.95);
    assert!(
        run.share(Choice {
            algorithm: Algorithm::Zstd,
            level: 1
        }) > 0.8,
        "{:?}",
        run.blocks
    );
}

#[test]
fn several_threads_count() {
    let world = World {
        link: |_| 125e6,
        threads: 4,
        ..WORLD
    };
    let run = hold(&world, 4 << 30, 0.93);
    assert!(
        run.share(Choice {
            algorithm: Algorithm::Zstd,
            level: 3
        }) > 0.6,
        "{:?}",
        run.blocks
    );
}

#[test]
fn on_a_link_that_never_fills_nothing_is_tried() {
    let world = World {
        link: |_| 1e12,
        source: 1.0 / 3e9,
        ..WORLD
    };
    let run = hold(&world, 4 << 30, 0.98);
    assert_eq!((run.samples, run.share(Choice::STORED)), (0, 1.0));
}

#[test]
fn on_a_link_that_is_faster_than_any_codec_nothing_is_lost() {
    let world = World {
        link: |_| 5e9,
        ..WORLD
    };
    let run = hold(&world, 16 << 30, 0.98);
    assert!(run.share(Choice::STORED) > 0.999, "{:?}", run.blocks);
}

#[test]
fn on_random_data_samples_become_rare() {
    for link in [|_| 12.5e6, |_| 1.25e9] {
        let world = World {
            link,
            codec: |choice, _| random(choice),
            ..WORLD
        };
        let run = hold(&world, 2 << 30, 0.98);
        assert!(run.samples < 200, "{} samples", run.samples);
        assert!(run.share(Choice::STORED) > 0.999, "{:?}", run.blocks);
    }
}

#[test]
fn data_that_change_are_followed() {
    // A hundred megabytes of each kind in turn.
    let world = World {
        codec: |choice, at| match at / (100 << 20) % 2 {
            0 => compressible(choice),
            _ => random(choice),
        },
        ..WORLD
    };
    hold(&world, 800 << 20, 0.85);
}

#[test]
fn a_link_that_changes_is_followed() {
    let world = World {
        link: |at| match at / (1 << 30) % 2 {
            0 => 125e6,
            _ => 6e6,
        },
        ..WORLD
    };
    let ours = run(&world, 4 << 30, None).seconds;
    let (_, best) = best_fixed(&world, 4 << 30);
    assert!(ours * 0.95 <= best, "{ours:.1} s, best fixed {best:.1} s");
}

#[test]
fn a_receiver_that_unpacks_slowly_is_no_slow_link() {
    let world = World {
        link: |_| 400e6,
        receiver: |choice| match choice.algorithm {
            Algorithm::Stored => f64::INFINITY,
            _ => 200e6,
        },
        ..WORLD
    };
    hold(&world, 16 << 30, 0.97);
}

#[test]
fn a_source_that_is_slower_than_the_link_costs_no_work() {
    let world = World {
        source: 1.0 / 10e6,
        ..WORLD
    };
    let run = hold(&world, 200 << 20, 0.98);
    assert!(run.share(Choice::STORED) > 0.99, "{:?}", run.blocks);
}

#[test]
fn bursts_after_pauses_say_nothing_about_the_link() {
    let mut auto = Auto::new(1, 0.99);
    let mut now = Instant::now();
    let (mut wire, mut original) = (0, 0);
    for _ in 0..20 {
        // A megabyte a second in one burst, over a link that moves it in 10 ms.
        for _ in 0..16 {
            let next = auto.choose(now);
            assert_eq!(next, Next::Pack(Choice::STORED), "{:?}", auto.link);
            (wire, original) = (wire + BLOCK as u64, original + BLOCK as u64);
            auto.moved(wire, original);
            auto.full(now);
            now += Duration::from_micros(600);
            auto.free(now);
        }
        now += Duration::from_secs(1);
    }
    assert!(
        auto.link.is_none_or(|link| link.rate > 50e6),
        "{:?}",
        auto.link
    );
}

//! Every byte arrives once and in order on any path, and both ends learn of the end.

use std::ops::Range;
use std::time::Duration;

use super::link::{Dice, Nature};
use super::world::World;
use crate::handshake::Handshake;
use crate::options::{HEADER, IP_UDP};
use crate::{Congestion, ConnectionError, Options};

const MS: Duration = Duration::from_millis(1);

/// A path with random properties.
fn nature(dice: &mut Dice) -> Nature {
    let some = |dice: &mut Dice, most: u64| {
        if dice.below(2) == 0 {
            0
        } else {
            dice.below(most) as u32
        }
    };
    Nature {
        delay: MS * dice.below(60) as u32,
        rate: if dice.below(2) == 0 {
            0
        } else {
            100_000 + dice.below(10_000_000)
        },
        queue: 20_000 + dice.below(200_000),
        loss: some(dice, 300_000),
        duplication: some(dice, 100_000),
        reordering: some(dice, 100_000),
        jitter: if dice.below(2) == 0 {
            Duration::ZERO
        } else {
            MS * dice.below(10) as u32
        },
        mtu: 0,
        bursts: Duration::ZERO,
        blackouts: if dice.below(6) == 0 {
            let start = MS * dice.below(2000) as u32;
            vec![start..start + MS * dice.below(4000) as u32]
        } else {
            Vec::new()
        },
    }
}

fn options(dice: &mut Dice) -> Options {
    Options {
        mss: [1500, 1500, 576, 1200, 76][dice.below(5) as usize],
        congestion: if dice.below(4) == 0 {
            Congestion::Native
        } else {
            Congestion::Model
        },
        send_buffer: [25_600, 256, 64][dice.below(3) as usize],
        receive_buffer: [25_600, 256, 64][dice.below(3) as usize],
        initial_sequence: (dice.below(2) == 0).then_some(0x7fff_fff0),
        connect_timeout: Duration::from_secs(60),
        ..Options::default()
    }
}

fn one(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut natures = [nature(&mut dice), nature(&mut dice)];
    let chosen = [options(&mut dice), options(&mut dice)];
    // Packets longer than the agreed size never arrive; the handshake fits.
    let agreed = chosen[0].mss.min(chosen[1].mss);
    let longest = (usize::from(agreed) - IP_UDP).max(HEADER + Handshake::LEN);
    natures.iter_mut().for_each(|nature| nature.mtu = longest);
    let memory = |options: &Options| {
        let packets = options.send_buffer + options.receive_buffer;
        // Some blocks of memory more, and the records of packets.
        packets as usize * (usize::from(agreed) + 200) + 1_000_000
    };
    let darkness = natures[0].blackouts.clone();
    let bounds = [memory(&chosen[0]), memory(&chosen[1])];
    let what = format!("seed {seed}: {natures:?} {chosen:?}");
    let mut world = World::pair(seed, natures, chosen);
    let (up, down) = (dice.below(60_000), dice.below(60_000));
    let down = if dice.below(2) == 0 { 0 } else { down };
    let client = &mut world.only(0).program;
    client.stream = 1;
    client.to_write = up;
    client.expects = 2;
    client.reads_first = down;
    client.closes = true;
    let server = &mut world.hosts[1].serves;
    server.stream = 2;
    server.to_write = down;
    server.expects = 1;
    let ended = world.run(Duration::from_secs(300), |world| {
        let is_over = |host: usize| {
            let mut seats = world.hosts[host].seats.values();
            seats.next().is_some_and(|seat| seat.connection.is_over())
        };
        is_over(0) && is_over(1)
    });
    assert!(ended, "{what}\n{}", world.summary());
    let client = world.only(0).program.clone();
    let server = world.only(1).program.clone();
    for (program, bound) in [(&client, bounds[0]), (&server, bounds[1])] {
        assert!(
            program.most_memory < bound,
            "{what}: {}",
            program.most_memory
        );
    }
    assert_eq!((client.written, server.read), (up, up), "{what}");
    assert_eq!((server.written, client.read), (down, down), "{what}");
    assert_eq!(client.closed, Some(None), "{what}");
    // A close waits for three seconds to be sure that the other end got the acknowledgement. It
    // repeats it with the end, which may overtake it.
    let is_long = |dark: &Range<Duration>| dark.end - dark.start >= MS * 3000;
    let unsure = Some(Some(ConnectionError::Unacknowledged));
    if server.closed != unsure || !darkness.iter().any(is_long) {
        assert_eq!(server.closed, Some(None), "{what}");
    }
    assert_eq!(server.end, Some(Ok(())), "{what}");
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    let seeds = std::env::var("SEEDS").map_or(3000, |n| n.parse().unwrap());
    let from = std::env::var("FROM").map_or(0, |n| n.parse().unwrap());
    for seed in from..seeds {
        one(seed);
    }
}

//! Peers with the habits of the reference, by changes of their packets.
#![expect(clippy::ptr_arg, reason = "all habits have one type")]

use std::collections::BTreeSet;
use std::time::Duration;

use super::link::Nature;
use super::world::World;
use crate::handshake::Request;
use crate::packet::{Control, Packet};
use crate::{Congestion, Options};

const MS: Duration = Duration::from_millis(1);

/// State of a meddler.
#[derive(Debug, Default)]
pub(super) struct Memory {
    seen: BTreeSet<Vec<u8>>,
    count: u64,
}

/// Changes a packet; returns whether it is sent.
pub(super) type Meddler = fn(&mut Memory, &mut Vec<u8>) -> bool;

/// Reports every loss once.
fn no_second_report(memory: &mut Memory, packet: &mut Vec<u8>) -> bool {
    let Some(Packet::Control(Control::Nak(report))) = Packet::parse(packet) else {
        return true;
    };
    let fresh = report.flatten().filter(|(first, last)| {
        let key = [first.to_be_bytes(), last.to_be_bytes()].concat();
        memory.seen.insert(key)
    });
    fresh.count() > 0
}

/// Acknowledges with four words only: no rates.
fn no_rates(_: &mut Memory, packet: &mut Vec<u8>) -> bool {
    if let Some(Packet::Control(Control::Ack(_))) = Packet::parse(packet) {
        packet.truncate(32);
    }
    true
}

/// Sends no light acknowledgements, and only every tenth full one: once in 100 milliseconds.
fn lazy(memory: &mut Memory, packet: &mut Vec<u8>) -> bool {
    let Some(Packet::Control(Control::Ack(ack))) = Packet::parse(packet) else {
        return true;
    };
    memory.count += 1;
    ack.full.is_some() && memory.count.is_multiple_of(10)
}

/// Answers a repeated handshake with neither version nor type nor cookie.
fn terse(memory: &mut Memory, packet: &mut Vec<u8>) -> bool {
    if let Some(Packet::Control(Control::Handshake(answer))) = Packet::parse(packet)
        && answer.request == Request::Confirm
    {
        memory.count += 1;
        // The first is lost.
        if memory.count == 1 {
            return false;
        }
        packet[16..24].fill(0);
        packet[44..48].fill(0);
    }
    true
}

/// Confirms no acknowledgement.
fn no_confirmation(_: &mut Memory, packet: &mut Vec<u8>) -> bool {
    !matches!(
        Packet::parse(packet),
        Some(Packet::Control(Control::Ack2 { .. }))
    )
}

/// Sends one shutdown, without padding.
fn one_end(memory: &mut Memory, packet: &mut Vec<u8>) -> bool {
    if let Some(Packet::Control(Control::Shutdown { .. })) = Packet::parse(packet) {
        memory.count += 1;
        packet.truncate(16);
        return memory.count == 1;
    }
    true
}

/// Sends only handshake packets.
pub(super) fn taciturn(_: &mut Memory, packet: &mut Vec<u8>) -> bool {
    matches!(
        Packet::parse(packet),
        Some(Packet::Control(Control::Handshake(_)))
    )
}

/// Sends both ways with a far end of that habit; returns the time.
fn transfer(seed: u64, loss: u32, meddler: Meddler, congestion: Congestion) -> Duration {
    let nature = Nature {
        delay: 10 * MS,
        loss,
        ..Nature::default()
    };
    let options = Options {
        congestion,
        ..Options::default()
    };
    let mut world = World::pair(seed, [nature.clone(), nature], [options.clone(), options]);
    world.meddler = Some((1, meddler, Memory::default()));
    let client = &mut world.only(0).program;
    client.stream = 1;
    client.expects = 2;
    client.to_write = 300_000;
    client.reads_first = 300_000;
    client.closes = true;
    let server = &mut world.hosts[1].serves;
    server.stream = 2;
    server.expects = 1;
    server.to_write = 300_000;
    let done = world.run(Duration::from_secs(60), |world| {
        let mut seats = world.hosts.iter().flat_map(|host| host.seats.values());
        world.hosts[1].seats.len() == 1 && seats.all(|seat| seat.program.closed.is_some())
    });
    assert!(done, "seed {seed}\n{}", world.summary());
    for host in [0, 1] {
        let program = &world.only(host).program;
        assert_eq!(
            (program.read, program.closed),
            (300_000, Some(None)),
            "seed {seed}"
        );
    }
    world.now - world.start
}

#[test]
fn peers_of_old_habits_are_served_well() {
    let habits: [(&str, Meddler); 6] = [
        ("no second report", no_second_report),
        ("no rates", no_rates),
        ("lazy", lazy),
        ("terse", terse),
        ("no confirmation", no_confirmation),
        ("one end", one_end),
    ];
    for (name, habit) in habits {
        for congestion in [Congestion::Model, Congestion::Native] {
            let mut longest = Duration::ZERO;
            for seed in 0..10 {
                let loss = [0, 20_000][seed as usize % 2];
                longest = longest.max(transfer(seed, loss, habit, congestion));
            }
            // Silence and collapsed rates would cost half a minute.
            assert!(longest < 12_000 * MS, "{name}, {congestion:?}: {longest:?}");
        }
    }
}

/// Sends 2 MB one way at 1 % loss both ways to a far end of that habit; returns the time.
fn send(seed: u64, meddler: Meddler) -> Duration {
    let nature = Nature {
        delay: 10 * MS,
        loss: 10_000,
        ..Nature::default()
    };
    let mut world = World::pair(
        seed,
        [nature.clone(), nature],
        [Options::default(), Options::default()],
    );
    world.meddler = Some((1, meddler, Memory::default()));
    world.tick = MS;
    let client = &mut world.only(0).program;
    client.to_write = 2_000_000;
    client.is_careless = true;
    client.closes = true;
    world.hosts[1].serves.is_careless = true;
    let done = world.run(Duration::from_secs(60), |world| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.program.closed.is_some())
    });
    assert!(done, "seed {seed}\n{}", world.summary());
    world.now - world.start
}

#[test]
fn packets_lost_twice_are_repaired_although_reported_once() {
    let mut times: Vec<_> = (0..100)
        .map(|seed| (send(seed, no_second_report), seed))
        .collect();
    times.sort();
    assert!(times[50].0 < 250 * MS, "{times:?}");
    assert!(times[90].0 < 350 * MS, "{times:?}");
    // A lost packet of the handshake is repeated after 250 milliseconds.
    assert!(times[99].0 < 900 * MS, "{times:?}");
}

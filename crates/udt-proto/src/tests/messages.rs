//! Messages arrive whole, once, and in order where requested; expired ones are dropped.

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::Duration;

use super::link::{Dice, Nature};
use super::world::{World, byte};
use crate::{ConnectionError, MessageOptions, Options, Service};

const MS: Duration = Duration::from_millis(1);

/// Content of a message: its number and a pattern.
fn message(number: u64, len: usize) -> Vec<u8> {
    let pattern = (0..len as u64).map(|at| byte(number, at));
    number.to_be_bytes().into_iter().chain(pattern).collect()
}

fn length(number: u64, seed: u64) -> usize {
    let mut dice = Dice::new(seed.wrapping_mul(1_000_003) + number);
    let most = if dice.below(4) == 0 { 6_000 } else { 200 };
    dice.below(most) as usize
}

struct Outcome {
    got: Vec<u64>,
    count: u64,
}

/// Sends messages one way and closes; received messages are whole in any case.
fn exchange(seed: u64, nature: Nature, count: u64, options: MessageOptions, mss: u16) -> Outcome {
    let chosen = Options {
        service: Service::Message,
        mss,
        initial_sequence: Some(0x7fff_fff0),
        connect_timeout: Duration::from_secs(60),
        ..Options::default()
    };
    let mut world = World::pair(seed, [nature.clone(), nature], [chosen.clone(), chosen]);
    let (mut sent, mut closing) = (0, false);
    let (mut got, mut ended) = (Vec::new(), false);
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..200_000 {
        let now = world.now;
        let client = &mut world.only(0).connection;
        while sent < count
            && client.is_connected()
            && let Poll::Ready(result) =
                client.send_message(now, &message(sent, length(sent, seed)), options)
        {
            result.unwrap();
            sent += 1;
        }
        if sent == count && !closing {
            closing = true;
            client.close(now);
        }
        if let Some(seat) = world.hosts[1].seats.values_mut().next() {
            while !ended
                && let Poll::Ready(result) = seat.connection.receive_message(now, &mut buffer)
            {
                let Some(len) = result.unwrap() else {
                    ended = true;
                    break;
                };
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                let expected = message(number, length(number, seed));
                assert!(buffer[..len] == expected, "seed {seed}: message {number}");
                got.push(number);
            }
        }
        if ended && world.only(0).connection.is_over() {
            break;
        }
        world.run(MS, |_| false);
    }
    assert!(
        ended,
        "seed {seed}: {} of {count}\n{}",
        got.len(),
        world.summary()
    );
    Outcome { got, count }
}

fn nature(dice: &mut Dice) -> Nature {
    Nature {
        delay: MS * dice.below(40) as u32,
        loss: dice.below(300_000) as u32,
        duplication: dice.below(100_000) as u32,
        reordering: dice.below(100_000) as u32,
        jitter: MS * dice.below(5) as u32,
        ..Nature::default()
    }
}

#[test]
fn every_message_arrives_once() {
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let options = MessageOptions::default().with_order(seed % 2 == 0);
        let nature = nature(&mut dice);
        let outcome = exchange(
            seed,
            nature,
            60,
            options,
            [1500, 576, 76][seed as usize % 3],
        );
        let all: Vec<_> = (0..outcome.count).collect();
        if options.in_order {
            assert_eq!(outcome.got, all, "seed {seed}");
        } else {
            let mut sorted = outcome.got;
            sorted.sort_unstable();
            assert_eq!(sorted, all, "seed {seed}");
        }
    }
}

#[test]
fn expired_messages_are_dropped() {
    let mut left_out = 0;
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let options = MessageOptions::default()
            .with_order(seed % 2 == 0)
            .with_time_to_live(MS * dice.below(120) as u32);
        let nature = nature(&mut dice);
        let outcome = exchange(
            seed,
            nature,
            60,
            options,
            [1500, 576, 76][seed as usize % 3],
        );
        let once: BTreeSet<_> = outcome.got.iter().copied().collect();
        assert_eq!(once.len(), outcome.got.len(), "seed {seed}: twice");
        if options.in_order {
            assert!(outcome.got.is_sorted(), "seed {seed}");
        }
        left_out += outcome.count - once.len() as u64;
    }
    assert!(left_out > 100, "{left_out} of 6000");
}

#[test]
fn that_something_was_left_out_is_acknowledged_at_once() {
    let chosen = Options {
        service: Service::Message,
        ..Options::default()
    };
    let nature = Nature {
        delay: MS * 50,
        ..Nature::default()
    };
    let mut world = World::pair(1, [nature.clone(), nature], [chosen.clone(), chosen]);
    let is_drained = |world: &World| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.connection.is_drained())
    };
    world.run(MS * 500, |_| false);
    let plain = MessageOptions::default();
    for _ in 0..20 {
        let now = world.now;
        let client = &mut world.only(0).connection;
        assert_eq!(
            client.send_message(now, b"heard", plain),
            Poll::Ready(Ok(()))
        );
        assert!(world.run(MS * 1_000, is_drained));
        world.run(MS * 300, |_| false);
    }
    let dark = world.now - world.start;
    world.links[0].nature.blackouts = vec![dark..dark + MS * 20];
    let now = world.now;
    let client = &mut world.only(0).connection;
    let brief = plain.with_time_to_live(MS);
    let sent = client.send_message(now, &[0; 4_000], brief);
    assert_eq!(sent, Poll::Ready(Ok(())));
    // It is overdue after little more than a round trip, dropped, and the drop is acknowledged.
    let since = world.now;
    assert!(world.run(MS * 1_000, is_drained));
    let took = world.now - since;
    assert!(took < MS * 218, "{took:?}: overdue, given up, acknowledged");
}

#[test]
fn a_message_is_refused_that_can_never_fit() {
    let chosen = Options {
        service: Service::Message,
        send_buffer: 32,
        ..Options::default()
    };
    let mut world = World::pair(
        1,
        [Nature::default(), Nature::default()],
        [chosen.clone(), chosen],
    );
    assert!(world.run(MS * 100, |world| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.connection.is_connected())
    }));
    let now = world.now;
    let client = &mut world.only(0).connection;
    let limit = 32 * 1456;
    let options = MessageOptions::default();
    let too_long = client.send_message(now, &vec![0; limit + 1], options);
    assert_eq!(
        too_long,
        Poll::Ready(Err(ConnectionError::MessageTooLong { limit }))
    );
    assert_eq!(
        client.send_message(now, &vec![0; limit], options),
        Poll::Ready(Ok(()))
    );
    assert_eq!(client.send_message(now, &[0], options), Poll::Pending);
    let wrong = client.write(now, b"x");
    assert_eq!(wrong, Poll::Ready(Err(ConnectionError::WrongService)));
}

#[test]
fn a_message_that_the_peer_has_no_room_for_is_refused_not_waited_with() {
    let options = |receive_buffer| Options {
        service: Service::Message,
        receive_buffer,
        ..Options::default()
    };
    let nature = Nature {
        delay: 10 * MS,
        ..Nature::default()
    };
    let mut world = World::pair(1, [nature.clone(), nature], [options(25_600), options(100)]);
    world.run(100 * MS, |_| false);
    let (now, plain) = (world.now, MessageOptions::default());
    let client = &mut world.only(0).connection;
    let mut long = vec![7; 100 * 1456];
    let limit = 99 * 1456;
    let refused = client.send_message(now, &long, plain);
    let why = ConnectionError::MessageTooLong { limit };
    assert_eq!(refused, Poll::Ready(Err(why)));
    long.truncate(limit);
    assert_eq!(client.send_message(now, &long, plain), Poll::Ready(Ok(())));
    let mut room = vec![0; limit];
    let arrived = (0..1_000).find_map(|_| {
        world.run(MS, |_| false);
        let now = world.now;
        match world.only(1).connection.receive_message(now, &mut room) {
            Poll::Ready(arrived) => Some(arrived),
            Poll::Pending => None,
        }
    });
    assert_eq!(arrived, Some(Ok(Some(limit))));
    assert!(room == long);
}

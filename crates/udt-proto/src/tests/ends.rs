//! How connections begin and end, as each end sees it.

use std::task::Poll;
use std::time::Duration;

use super::doubles::{Memory, taciturn};
use super::link::Nature;
use super::world::{Program, World};
use crate::{ConnectionError, Endpoint, Options};

const MS: Duration = Duration::from_millis(1);

fn path(delay: u32, loss: u32) -> Nature {
    Nature {
        delay: MS * delay,
        loss,
        ..Nature::default()
    }
}

fn pair(seed: u64, natures: [Nature; 2], up: u64) -> World {
    let mut world = World::pair(seed, natures, [Options::default(), Options::default()]);
    let client = &mut world.only(0).program;
    client.stream = 1;
    client.to_write = up;
    world.hosts[1].serves.expects = 1;
    world
}

fn is_over(world: &World, host: usize) -> bool {
    let mut seats = world.hosts[host].seats.values();
    seats.next().is_some_and(|seat| seat.connection.is_over())
}

fn has_read(world: &World, host: usize, bytes: u64) -> bool {
    let mut seats = world.hosts[host].seats.values();
    seats.next().is_some_and(|seat| seat.program.read == bytes)
}

#[test]
fn nobody_there_is_told_after_three_seconds() {
    let dead = path(1, 1_000_000);
    let mut world = pair(1, [dead.clone(), dead], 10);
    assert!(world.run(10_000 * MS, |world| is_over(world, 0)));
    assert_eq!(world.now - world.start, 3_000 * MS);
    assert_eq!(
        world.only(0).program.closed,
        Some(Some(ConnectionError::TimedOut))
    );
    assert!((12..=14).contains(&world.datagrams), "{}", world.datagrams);
}

#[test]
fn an_unreachable_port_is_told_at_once_but_only_while_connecting() {
    let dead = path(1, 1_000_000);
    let mut world = pair(1, [dead.clone(), dead], 10);
    world.run(10 * MS, |_| false);
    world.only(0).connection.on_unreachable();
    world.run(MS, |_| false);
    assert_eq!(
        world.only(0).program.closed,
        Some(Some(ConnectionError::Unreachable))
    );

    let mut world = pair(1, [path(1, 0), path(1, 0)], 10);
    assert!(world.run(1_000 * MS, |world| has_read(world, 1, 10)));
    world.only(0).connection.on_unreachable();
    assert!(world.only(0).connection.is_connected());
}

#[test]
fn a_handshake_may_have_no_deadline() {
    let now = World::new(0).now;
    let options = Options {
        connect_timeout: Duration::MAX,
        rendezvous_timeout: Duration::MAX,
        ..Options::default()
    };
    let mut endpoint = Endpoint::new(now, [7; 16]);
    let peer = ([10, 0, 0, 9], 5000).into();
    let mut connection = endpoint.connect(now, peer, options);
    assert!(connection.poll_transmit(now, 1).is_some());
    connection.handle_timeout(now + Duration::from_secs(1_000_000));
    assert!(!connection.is_over());
}

#[test]
fn an_end_at_once_reaches_a_client_that_missed_the_answer() {
    // The listener's program closes at once; its answer is lost and repeated.
    let mut back = path(10, 0);
    back.blackouts = vec![25 * MS..200 * MS];
    let mut world = pair(1, [path(10, 0), back], 0);
    world.hosts[1].serves.closes = true;
    assert!(world.run(10_000 * MS, |world| is_over(world, 0)));
    let client = &world.only(0).program;
    assert_eq!((client.end, client.closed), (Some(Ok(())), Some(None)));
}

#[test]
fn a_connection_that_nobody_waits_for_any_more_is_given_up_at_both_ends() {
    // Both exchanges of the handshake take 40 ms.
    for given_up in (0..50).step_by(5) {
        let mut world = pair(1, [path(10, 0), path(10, 0)], 0);
        world.run(given_up * MS, |_| false);
        let now = world.now;
        world.only(0).connection.abort(now);
        world.run(100 * MS, |_| false);
        assert!(is_over(&world, 0), "{given_up}");
        let mut theirs = world.hosts[1].seats.values();
        let theirs = theirs.next().map(|seat| seat.program.closed);
        let told = Some(Some(Some(ConnectionError::PeerAborted)));
        // It begins when the second request arrives.
        let may_be_none = given_up <= 20;
        assert!(
            theirs == told || may_be_none && theirs.is_none(),
            "{given_up}: {theirs:?}"
        );
    }
}

#[test]
fn a_handshake_that_was_given_up_ends_without_an_answer() {
    let mut back = path(10, 0);
    back.blackouts = vec![25 * MS..60_000 * MS];
    let mut world = pair(1, [path(10, 0), back], 0);
    world.run(25 * MS, |_| false);
    let now = world.now;
    world.only(0).connection.abort(now);
    let closed = Some(Some(ConnectionError::Closed));
    world.run(MS, |_| false);
    assert_eq!(world.only(0).program.closed, closed);
    let datagrams = world.datagrams;
    assert!(world.run(4_000 * MS, |world| is_over(world, 0)));
    assert_eq!(world.only(0).program.closed, closed);
    // It sends no more requests.
    assert!(world.datagrams <= datagrams + 30, "{}", world.datagrams);
}

#[test]
fn a_stale_cookie_is_asked_for_again() {
    // The answer to the cookie is lost for more than half a second.
    let mut back = path(10, 0);
    back.blackouts = vec![25 * MS..600 * MS];
    let mut world = pair(1, [path(10, 0), back], 10);
    let mut asked_again = false;
    for _ in 0..2_000 {
        world.run(MS, |_| false);
        let time = world.now - world.start;
        let connection = &world.only(0).connection;
        if time > 500 * MS && !connection.is_connected() {
            asked_again |= connection.handshake_cookie() == Some(0);
        }
    }
    assert!(asked_again);
    assert!(world.only(0).connection.is_connected());
    assert!(has_read(&world, 1, 10));
}

#[test]
fn a_path_is_never_too_long_to_connect_over() {
    // The handshake takes two round trips, and three seconds are allowed.
    let mut late = Vec::new();
    for delay in (10..700).step_by(10) {
        let mut world = pair(1, [path(delay, 0), path(delay, 0)], 10);
        world.run(4_000 * MS, |world| {
            let mut seats = world.hosts[0].seats.values();
            seats.all(|seat| seat.connection.is_connected())
        });
        let took = world.now - world.start;
        let rtt = world.only(0).connection.stats().rtt;
        // An ambiguous answer is no measurement.
        let is_wrong = rtt < MS * delay * 2 && rtt != 100 * MS;
        if took > MS * delay * 4 || is_wrong {
            late.push((delay, took, rtt));
        }
    }
    assert!(
        late.is_empty(),
        "delay, time to connect, round trip: {late:?}"
    );
}

#[test]
fn the_dead_are_noticed_within_a_minute() {
    let mut back = path(10, 0);
    back.blackouts = vec![1_000 * MS..1_000_000 * MS];
    let mut there = path(10, 0);
    there.blackouts = back.blackouts.clone();
    let mut world = pair(1, [there, back], 10);
    assert!(world.run(100_000 * MS, |world| is_over(world, 0) && is_over(world, 1)));
    let took = world.now - world.start;
    assert!(took > 30_000 * MS && took < 60_000 * MS, "{took:?}");
    for host in [0, 1] {
        let closed = world.only(host).program.closed;
        assert_eq!(closed, Some(Some(ConnectionError::PeerGone)));
        let end = world.only(host).program.end;
        assert_eq!(end, Some(Err(ConnectionError::PeerGone)));
    }
}

/// A client that has read all that a server has written so far.
fn reading(seed: u64) -> World {
    let mut world = pair(seed, [path(10, 0), path(10, 0)], 0);
    let server = &mut world.hosts[1].serves;
    (server.stream, server.to_write) = (2, 50_000);
    world.only(0).program.expects = 2;
    assert!(world.run(20_000 * MS, |world| has_read(world, 0, 50_000)));
    world
}

#[test]
fn an_end_that_was_lost_is_noticed_while_the_port_answers() {
    for (seed, loss) in [(1, 0), (2, 300_000), (3, 300_000), (4, 300_000)] {
        let mut world = reading(seed);
        world
            .links
            .iter_mut()
            .for_each(|link| link.nature.loss = loss);
        // As libudt after a lost shutdown: only the listener is left.
        let id = world.only(1).connection.id();
        world.hosts[1].seats.clear();
        world.hosts[1].endpoint.forget(id);
        let begun = world.now;
        assert!(world.run(60_000 * MS, |world| is_over(world, 0)));
        let took = world.now - begun;
        let most = if loss == 0 { 9_000 * MS } else { 40_000 * MS };
        assert!(took < most, "seed {seed}: {took:?}");
        let program = &world.only(0).program;
        assert_eq!(program.end, Some(Err(ConnectionError::Forgotten)));
        assert_eq!(program.closed, Some(Some(ConnectionError::Forgotten)));
    }
}

#[test]
fn a_peer_that_answers_an_inquiry_is_there() {
    for loss in [0, 200_000] {
        let mut world = reading(1);
        world
            .links
            .iter_mut()
            .for_each(|link| link.nature.loss = loss);
        world.meddler = Some((1, taciturn, Memory::default()));
        assert!(
            !world.run(600_000 * MS, |world| is_over(world, 0)),
            "loss {loss}"
        );
    }
}

#[test]
fn giving_up_is_told_apart_from_an_end() {
    for seed in 0..50 {
        let mut world = pair(seed, [path(10, 100_000), path(10, 100_000)], 5_000_000);
        assert!(world.run(20_000 * MS, |world| {
            let mut seats = world.hosts[1].seats.values();
            seats.next().is_some_and(|seat| seat.program.read > 10_000)
        }));
        let now = world.now;
        world.only(0).connection.abort(now);
        assert!(world.run(60_000 * MS, |world| is_over(world, 0) && is_over(world, 1)));
        let server = &world.only(1).program;
        assert_eq!(
            server.end,
            Some(Err(ConnectionError::PeerAborted)),
            "seed {seed}"
        );
        let now = world.now;
        let written = world.only(0).connection.write(now, b"more");
        assert_eq!(written, Poll::Ready(Err(ConnectionError::Closed)));
    }
}

#[test]
fn an_abort_after_reading_everything_does_not_spoil_the_peers_close() {
    for seed in 0..200 {
        let loss = if seed % 2 == 0 { 0 } else { 200_000 };
        let mut world = pair(seed, [path(10, loss), path(10, loss)], 100_000);
        world.only(0).program.closes = true;
        assert!(world.run(60_000 * MS, |world| has_read(world, 1, 100_000)));
        let now = world.now;
        world.only(1).connection.abort(now);
        assert!(world.run(60_000 * MS, |world| is_over(world, 0) && is_over(world, 1)));
        assert_eq!(world.only(0).program.closed, Some(None), "seed {seed}");
    }
}

#[test]
fn an_aborted_connection_takes_no_memory() {
    let mut world = pair(1, [path(10, 0), path(10, 0)], 30_000_000);
    world.hosts[1].serves.end = Some(Ok(()));
    assert!(world.run(20_000 * MS, |world| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.connection.memory() > 20_000_000)
    }));
    let dark = world.now - world.start;
    for link in &mut world.links {
        link.nature.blackouts = vec![dark..1_000_000 * MS];
    }
    let now = world.now;
    let client = &mut world.only(0).connection;
    client.abort(now);
    assert!(!client.is_over(), "the peer is still to be told");
    assert!(client.memory() < 10_000, "{}", client.memory());
}

#[test]
fn unread_data_is_not_acknowledged_after_an_abort() {
    let mut world = pair(1, [path(10, 0), path(10, 0)], 3_000_000);
    world.only(0).program.closes = true;
    assert!(world.run(20_000 * MS, |world| {
        let mut seats = world.hosts[1].seats.values();
        seats.next().is_some_and(|seat| seat.program.read > 10_000)
    }));
    let now = world.now;
    world.only(1).connection.abort(now);
    assert!(world.run(60_000 * MS, |world| is_over(world, 0) && is_over(world, 1)));
    let closed = world.only(0).program.closed.unwrap();
    assert_eq!(closed, Some(ConnectionError::PeerAborted));
}

#[test]
fn a_close_without_answers_acknowledges_with_the_shutdown() {
    // Everything arrives, but for five seconds nothing is returned.
    let mut there = path(10, 0);
    there.blackouts = vec![35 * MS..5_000 * MS];
    let mut world = pair(1, [there, path(10, 0)], 0);
    let server = &mut world.hosts[1].serves;
    (server.stream, server.to_write) = (2, 50_000);
    let client = &mut world.only(0).program;
    (client.expects, client.reads_first, client.closes) = (2, 50_000, true);
    assert!(world.run(20_000 * MS, |world| is_over(world, 0) && is_over(world, 1)));
    assert_eq!(world.only(0).program.read, 50_000);
    assert_eq!(world.only(0).program.closed, Some(None));
    let server = &world.only(1).program;
    assert_eq!((server.closed, server.end), (Some(None), Some(Ok(()))));
}

#[test]
fn a_close_does_not_wait_for_ever() {
    let mut there = path(10, 0);
    there.blackouts = vec![500 * MS..1_000_000 * MS];
    let options = Options {
        linger: 2_000 * MS,
        ..Options::default()
    };
    let mut world = World::pair(1, [there, path(10, 0)], [options, Options::default()]);
    world.run(600 * MS, |_| false);
    let now = world.now;
    let client = &mut world.only(0).connection;
    assert_eq!(client.write(now, b"hello"), Poll::Ready(Ok(5)));
    client.close(now);
    let again = client.write(now, b"hello");
    assert_eq!(again, Poll::Ready(Err(ConnectionError::Closed)));
    world.run(2_100 * MS, |_| false);
    let closed = world.only(0).program.closed;
    assert_eq!(closed, Some(Some(ConnectionError::LingerExpired)));
}

#[test]
fn two_meet() {
    for seed in 0..200 {
        let loss = if seed % 2 == 0 { 0 } else { 300_000 };
        let mut world = World::new(seed);
        let links = [
            world.add_link(path(20, loss)),
            world.add_link(path(20, loss)),
        ];
        let hosts = links.map(|link| world.add_host(link));
        for (one, other) in [(0, 1), (1, 0)] {
            let options = Options {
                initial_sequence: Some(0x7fff_fff0 + one as u32 * 1_000),
                mss: 1200 + one as u16 * 100,
                ..Options::default()
            };
            let (now, peer) = (world.now, world.hosts[hosts[other]].address);
            let endpoint = &mut world.hosts[hosts[one]].endpoint;
            let connection = endpoint.rendezvous(now, peer, options);
            let program = Program {
                stream: one as u64,
                to_write: 20_000,
                expects: other as u64,
                reads_first: 20_000,
                closes: true,
                ..Program::default()
            };
            world.seat(hosts[one], connection, program);
            // The other end starts later.
            world.run(MS * 30 * (seed as u32 % 20), |_| false);
        }
        let ended = world.run(60_000 * MS, |world| is_over(world, 0) && is_over(world, 1));
        assert!(ended, "seed {seed}\n{}", world.summary());
        for host in hosts {
            let program = &world.only(host).program;
            assert_eq!(
                (program.read, program.closed),
                (20_000, Some(None)),
                "seed {seed}"
            );
        }
    }
}

//! Reports of a peer about the path and itself are believed within bounds.

use std::time::Duration;

use super::hostile::{connected, connected_with, packet, tell};
use super::link::Nature;
use super::world::World;
use crate::packet::{Ack, Control, FullAck, begin_nak, push_loss};
use crate::{Congestion, ConnectionError, Options};

const MS: Duration = Duration::from_millis(1);

#[test]
fn warnings_slow_it_down_and_no_more() {
    for congestion in [Congestion::Native, Congestion::Model] {
        let mut world = connected_with(Options {
            congestion,
            ..Options::default()
        });
        let mut report = Vec::new();
        begin_nak(&mut report, 1);
        push_loss(&mut report, 1003, 1003);
        assert_eq!(tell(&mut world, &report), None, "out of slow start");
        for _ in 0..20_000 {
            assert_eq!(tell(&mut world, &packet(&Control::Warning, 1)), None);
        }
        world.only(0).program.to_write = 300_000;
        let done = world.run(60_000 * MS, |world| {
            let mut seats = world.hosts[1].seats.values();
            seats.all(|seat| seat.program.read == 300_000)
        });
        assert!(done, "{congestion:?}");
    }
}

/// Makes the client believe in an endless round trip, and cuts the link.
fn deceived() -> World {
    let mut world = connected();
    let full = FullAck {
        rtt: u32::MAX,
        variance: u32::MAX,
        room: 8192,
        rates: None,
    };
    let ack = Ack {
        number: 1,
        next: 1000,
        full: Some(full),
    };
    for _ in 0..100 {
        assert_eq!(tell(&mut world, &packet(&Control::Ack(ack), 1)), None);
    }
    let dark = world.now - world.start;
    for link in &mut world.links {
        link.nature.blackouts = vec![dark..1_000_000_000 * MS];
    }
    world
}

#[test]
fn a_lie_about_the_round_trip_does_not_hold_an_ended_connection() {
    let is_over = |world: &World| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.connection.is_over())
    };
    let mut world = deceived();
    assert!(world.run(180_000 * MS, is_over), "gone, not just slow");
    let closed = world.only(0).program.closed;
    assert_eq!(closed, Some(Some(ConnectionError::PeerGone)));

    let mut world = deceived();
    let now = world.now;
    world.only(0).connection.abort(now);
    assert!(world.run(20_000 * MS, is_over), "told often enough");
}

#[test]
fn a_storm_of_loss_reports_costs_little() {
    let nature = Nature {
        delay: 100 * MS,
        ..Nature::default()
    };
    let options = Options {
        initial_sequence: Some(1000),
        ..Options::default()
    };
    let mut world = World::pair(3, [nature.clone(), nature], [options.clone(), options]);
    let client = &mut world.only(0).program;
    client.to_write = 200_000_000;
    client.is_careless = true;
    world.hosts[1].serves.is_careless = true;
    let has_much = |world: &World| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.connection.stats().in_flight > 5_000)
    };
    assert!(world.run(20_000 * MS, has_much));
    let (now, client) = (world.now, &mut world.only(0).connection);
    let (acked, _) = client.reported();
    let first = 1000 + u32::try_from(acked).unwrap();
    let mut report = Vec::new();
    begin_nak(&mut report, 1);
    push_loss(&mut report, first, first + 4_999);
    for _ in 0..10_000 {
        client.handle_datagrams(now, &report, report.len());
    }
    assert!(client.is_connected());
    let (_, left) = client.reported();
    assert!(left < 5_000, "{left} may be looked at still");
}

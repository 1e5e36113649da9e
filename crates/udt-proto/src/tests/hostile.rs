//! Packets of strangers and bad peers cost nothing, or the connection, and never more.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::link::Nature;
use super::world::World;
use crate::handshake::{Handshake, Request};
use crate::packet::{Ack, Control, Packet, begin_nak, push_loss, write_control};
use crate::{
    Connection, ConnectionError, Endpoint, Event, Options, PeerMisbehaved, Routed, Service,
};

const MS: Duration = Duration::from_millis(1);

pub(super) fn packet(control: &Control<'_>, to: u32) -> Vec<u8> {
    let mut out = Vec::new();
    write_control(&mut out, control, to);
    out
}

fn stranger(number: u32) -> SocketAddr {
    (std::net::Ipv4Addr::from_bits(0x0a00_0100 + number), 9000).into()
}

fn request(request: Request, cookie: u32) -> Handshake {
    Handshake {
        version: 4,
        service: 1,
        initial: 77,
        mss: 1500,
        window: 8192,
        request,
        id: 99,
        cookie,
        address: [0; 4],
    }
}

/// A listener, and the time of its creation.
fn listener(backlog: usize) -> (Endpoint, Instant) {
    let now = World::new(0).now;
    let mut endpoint = Endpoint::new(now, [7; 16]);
    endpoint.listen(Options::default(), backlog);
    (endpoint, now)
}

fn ask(endpoint: &mut Endpoint, now: Instant, from: SocketAddr, what: Handshake) -> Routed {
    let bytes = packet(&Control::Handshake(what), 0);
    endpoint.route(now, from, &bytes, bytes.len()).0
}

fn cookie(endpoint: &mut Endpoint, now: Instant, from: SocketAddr) -> u32 {
    let Routed::Reply(bytes) = ask(endpoint, now, from, request(Request::Ask, 0)) else {
        panic!("a cookie");
    };
    let Some(Packet::Control(Control::Handshake(answer))) = Packet::parse(&bytes) else {
        panic!("a handshake");
    };
    assert_eq!(answer.request, Request::Ask);
    answer.cookie
}

#[test]
fn half_open_floods_leave_no_trace() {
    let (mut endpoint, now) = listener(5);
    for number in 0..100_000 {
        let bytes = packet(&Control::Handshake(request(Request::Ask, 0)), 0);
        let (routed, _) = endpoint.route(now, stranger(number), &bytes, bytes.len());
        let Routed::Reply(reply) = routed else {
            panic!("a cookie");
        };
        assert!(reply.len() <= bytes.len());
    }
    assert!(endpoint.is_empty());
}

#[test]
fn cookies_are_for_one_address_and_a_minute_or_two() {
    let (mut endpoint, now) = listener(5);
    let from = stranger(1);
    let cookie = cookie(&mut endpoint, now + 59_000 * MS, from);
    let confirm = request(Request::Confirm, cookie);
    let mut is_in = |from, at, confirm| {
        let routed = ask(&mut endpoint, at, from, confirm);
        match routed {
            Routed::Incoming(connection) => {
                endpoint.forget(connection.id());
                true
            }
            routed => {
                assert!(matches!(routed, Routed::Nobody), "{routed:?}");
                false
            }
        }
    };
    assert!(is_in(from, now + 59_000 * MS, confirm));
    // The reference forgets it here.
    assert!(is_in(from, now + 61_000 * MS, confirm));
    assert!(is_in(from, now + 119_000 * MS, confirm));
    assert!(!is_in(from, now + 121_000 * MS, confirm));
    assert!(!is_in(stranger(2), now + 59_000 * MS, confirm));
    let same_host = SocketAddr::new(from.ip(), 9001);
    assert!(!is_in(same_host, now + 59_000 * MS, confirm));
    for wrong in [0, cookie + 1, !cookie] {
        assert!(!is_in(
            from,
            now + 59_000 * MS,
            request(Request::Confirm, wrong)
        ));
    }
}

#[test]
fn odd_handshakes_are_nobodys() {
    let (mut endpoint, now) = listener(5);
    let from = stranger(1);
    let whole = packet(&Control::Handshake(request(Request::Ask, 0)), 0);
    let long = [whole.clone(), vec![0]].concat();
    for len in (0..whole.len()).chain([long.len()]) {
        let datagram = long.get(..len).unwrap();
        let (routed, taken) = endpoint.route(now, from, datagram, len.max(1));
        assert!(matches!(routed, Routed::Nobody), "{len}");
        assert_eq!(taken, len);
    }
    for id in [0, 0x8000_0000, u32::MAX] {
        let what = Handshake {
            id,
            ..request(Request::Ask, 0)
        };
        assert!(matches!(
            ask(&mut endpoint, now, from, what),
            Routed::Nobody
        ));
    }
    for to in [1, 0x3fff_ffff, 0x8000_0001, u32::MAX] {
        let bytes = packet(&Control::KeepAlive, to);
        let (routed, _) = endpoint.route(now, from, &bytes, bytes.len());
        assert!(matches!(routed, Routed::Nobody));
    }
}

#[test]
fn bad_handshakes_and_those_beyond_the_backlog_are_rejected() {
    let (mut endpoint, now) = listener(2);
    let from = stranger(1);
    let cookie = cookie(&mut endpoint, now, from);
    let good = request(Request::Confirm, cookie);
    let is_refused = |routed: Routed| {
        let Routed::Reply(bytes) = routed else {
            return false;
        };
        let packet = Packet::parse(&bytes);
        matches!(packet, Some(Packet::Control(Control::Handshake(answer)))
            if answer.request == Request::Refuse(1002))
    };
    for bad in [
        Handshake { version: 5, ..good },
        Handshake { service: 2, ..good },
        Handshake { service: 0, ..good },
        Handshake { mss: 75, ..good },
        Handshake {
            initial: 0x8000_0000,
            ..good
        },
    ] {
        assert!(is_refused(ask(&mut endpoint, now, from, bad)), "{bad:?}");
    }
    let mut ids = Vec::new();
    for id in 1..=2 {
        let what = Handshake { id, ..good };
        let Routed::Incoming(connection) = ask(&mut endpoint, now, from, what) else {
            panic!("a connection");
        };
        ids.push(connection.id());
        // A repetition creates no second connection.
        let again = ask(&mut endpoint, now, from, what);
        assert!(matches!(again, Routed::Connection(id) if id == connection.id()));
    }
    assert!(is_refused(ask(
        &mut endpoint,
        now,
        from,
        Handshake { id: 3, ..good }
    )));
    endpoint.taken(ids[0]);
    let third = ask(&mut endpoint, now, from, Handshake { id: 3, ..good });
    assert!(matches!(third, Routed::Incoming(_)));
    assert_eq!(endpoint.len(), 3);
}

#[test]
fn a_connection_that_ends_unaccepted_counts_in_the_backlog() {
    let (mut endpoint, now) = listener(2);
    let from = stranger(1);
    let cookie = cookie(&mut endpoint, now, from);
    let come = |endpoint: &mut Endpoint, id| {
        let what = Handshake {
            id,
            ..request(Request::Confirm, cookie)
        };
        match ask(endpoint, now, from, what) {
            Routed::Incoming(connection) => Some(connection.id()),
            _ => None,
        }
    };
    let first = come(&mut endpoint, 1).unwrap();
    endpoint.forget(first);
    assert!(come(&mut endpoint, 2).is_some());
    // Both wait to be accepted, so the backlog is full.
    assert_eq!(come(&mut endpoint, 3), None);
    endpoint.taken(first);
    assert!(come(&mut endpoint, 3).is_some());
}

#[test]
fn one_number_does_not_tell_the_next() {
    let (mut endpoint, now) = listener(0);
    let mut last = 0;
    for _ in 0..1000 {
        let id = endpoint.connect(now, stranger(1), Options::default()).id();
        assert!((1..1 << 30).contains(&id.get()));
        assert!(id.get().abs_diff(last) > 16, "{last} and then {id}");
        last = id.get();
    }
}

/// Two connected ends, with data in flight.
pub(super) fn connected() -> World {
    connected_with(Options::default())
}

pub(super) fn connected_with(options: Options) -> World {
    let nature = Nature {
        delay: 10 * MS,
        ..Nature::default()
    };
    let options = Options {
        initial_sequence: Some(1000),
        ..options
    };
    let mut world = World::pair(3, [nature.clone(), nature], [options.clone(), options]);
    let client = &mut world.only(0).program;
    client.stream = 1;
    client.to_write = 20 * 1456;
    world.hosts[1].serves.expects = 1;
    assert!(world.run(1000 * MS, |world| {
        let mut seats = world.hosts[0].seats.values();
        seats.all(|seat| seat.connection.stats().sent == 20)
    }));
    world
}

/// Delivers this to the client from the server; returns the end of the connection, if any.
pub(super) fn tell(world: &mut World, bytes: &[u8]) -> Option<Option<ConnectionError>> {
    let now = world.now;
    let seat = world.only(0);
    seat.connection.handle_datagrams(now, bytes, bytes.len());
    let mut events = std::iter::from_fn(|| seat.connection.poll_event());
    events.find_map(|event| match event {
        Event::Closed(why) => Some(why),
        _ => None,
    })
}

fn misbehaved(how: PeerMisbehaved) -> Option<Option<ConnectionError>> {
    Some(Some(ConnectionError::Misbehaved(how)))
}

#[test]
fn an_acknowledgement_of_unsent_packets_ends_it() {
    let ack = |next| {
        let ack = Ack {
            number: 0,
            next,
            full: None,
        };
        packet(&Control::Ack(ack), 1)
    };
    assert_eq!(tell(&mut connected(), &ack(1020)), None);
    assert_eq!(tell(&mut connected(), &ack(999)), None);
    for beyond in [1021, 1_000_000, 0x3fff_ffff] {
        let end = tell(&mut connected(), &ack(beyond));
        assert_eq!(
            end,
            misbehaved(PeerMisbehaved::AcknowledgedUnsent),
            "{beyond}"
        );
    }
}

#[test]
fn bad_loss_reports_end_it() {
    let nak = |ranges: &[(u32, u32)], more: &[u8]| {
        let mut out = Vec::new();
        begin_nak(&mut out, 1);
        for (first, last) in ranges {
            push_loss(&mut out, *first, *last);
        }
        out.extend_from_slice(more);
        out
    };
    assert_eq!(tell(&mut connected(), &nak(&[(1000, 1019)], &[])), None);
    assert_eq!(
        tell(&mut connected(), &nak(&[(990, 995), (1003, 1003)], &[])),
        None
    );
    assert_eq!(
        tell(&mut connected(), &nak(&[(0x7fff_0000, 1003)], &[])),
        None
    );
    let bad = misbehaved(PeerMisbehaved::BadLossReport);
    for ranges in [
        [(1000, 1020)],
        [(1005, 1004)],
        [(1020, 1020)],
        [(1000, 0x3000_0000)],
    ] {
        assert_eq!(
            tell(&mut connected(), &nak(&ranges, &[])),
            bad,
            "{ranges:?}"
        );
    }
    // Half a range, and half a word.
    assert_eq!(tell(&mut connected(), &nak(&[], &[0x80, 0, 3, 0xe8])), bad);
    assert_eq!(tell(&mut connected(), &nak(&[(1001, 1001)], &[0x80])), bad);
}

#[test]
fn giving_up_part_of_a_stream_ends_it() {
    let drop = Control::Drop {
        message: 1,
        first: 1000,
        last: 1001,
    };
    let end = tell(&mut connected(), &packet(&drop, 1));
    assert_eq!(end, misbehaved(PeerMisbehaved::DroppedStream));
}

#[test]
fn noise_changes_nothing() {
    let mut world = connected();
    for kind in [1, 4, 6, 8, 9, 0x7fff_u32] {
        for len in [16, 17, 20, 40] {
            let mut bytes = vec![0xff; len];
            bytes[..4].copy_from_slice(&(0x8000_0000 | kind << 16).to_be_bytes());
            assert_eq!(tell(&mut world, &bytes), None);
        }
    }
    assert_eq!(tell(&mut world, &[0]), None);
    assert_eq!(tell(&mut world, &[]), None);
    let done = world.run(1000 * MS, |world| {
        let mut seats = world.hosts[1].seats.values();
        seats.all(|seat| seat.program.read == 20 * 1456)
    });
    assert!(done);
}

#[test]
fn a_shutdown_from_elsewhere_is_nobodys() {
    let mut world = connected();
    let (now, id) = (world.now, world.only(0).connection.id());
    let bytes = packet(&Control::Shutdown { reason: 0 }, id.get());
    let endpoint = &mut world.hosts[0].endpoint;
    let (routed, _) = endpoint.route(now, stranger(1), &bytes, bytes.len());
    assert!(matches!(routed, Routed::Nobody));
}

#[test]
fn a_shutdown_that_comes_too_early_is_no_end() {
    let mut world = connected();
    let shutdown = packet(&Control::Shutdown { reason: 0 }, 1);
    let end = tell(&mut world, &shutdown);
    assert_eq!(end, Some(Some(ConnectionError::Unacknowledged)));

    // Data behind a hole, then the end.
    let mut world = connected();
    let now = world.now;
    let mut behind = vec![0; 20];
    behind[..4].copy_from_slice(&1005_u32.to_be_bytes());
    let client = &mut world.only(0).connection;
    client.handle_datagrams(now, &behind, 20);
    client.handle_datagrams(now, &shutdown, shutdown.len());
    let read = client.read(now, &mut [0; 10]);
    assert_eq!(read, Poll::Ready(Err(ConnectionError::Truncated)));
}

#[test]
fn a_program_that_does_not_read_holds_a_bounded_buffer() {
    let options = Options {
        receive_buffer: 100,
        ..Options::default()
    };
    let natures = [Nature::default(), Nature::default()];
    let mut world = World::pair(3, natures, [Options::default(), options]);
    world.only(0).program.to_write = 10_000_000;
    world.only(0).program.is_careless = true;
    // The program ends before it begins, so it never reads.
    world.hosts[1].serves.end = Some(Ok(()));
    world.run(20_000 * MS, |_| false);
    let server = &world.only(1).connection;
    assert!(server.stats().received <= 100);
    assert!(server.memory() < 300 * 1456, "{}", server.memory());
    assert!(world.datagrams < 5_000, "{} datagrams", world.datagrams);
}

#[test]
fn a_connection_that_nobody_reads_yet_holds_little() {
    let mut world = World::pair(
        3,
        [Nature::default(), Nature::default()],
        Default::default(),
    );
    world.only(0).program.to_write = 10_000_000;
    world.hosts[1].serves.end = Some(Ok(()));
    world.run(20_000 * MS, |_| false);
    let server = world.only(1);
    assert!(
        server.connection.memory() < 200_000,
        "{}",
        server.connection.memory()
    );
    server.program.end = None;
    server.program.may_read = true;
    assert!(world.run(2_000 * MS, |world| {
        world.hosts[1]
            .seats
            .values()
            .all(|seat| seat.program.read == 10_000_000)
    }));
}

#[test]
fn an_idle_connection_costs_little() {
    let mut world = connected();
    // Even one that was busy.
    world.only(0).program.to_write = 30_000_000;
    world.run(30_000 * MS, |_| false);
    assert_eq!(world.only(1).program.read, 30_000_000);
    for host in 0..2 {
        let connection: &Connection = &world.only(host).connection;
        assert!(connection.is_connected());
        assert!(connection.memory() < 4_000, "{}", connection.memory());
    }
    let before = world.datagrams;
    world.run(10_000 * MS, |_| false);
    assert!(world.datagrams - before < 80, "keep-alives alone");
}

#[test]
fn services_do_not_mix() {
    let mut world = connected();
    let now = world.now;
    let client = &mut world.only(0).connection;
    let sent = client.send_message(now, b"x", Default::default());
    assert_eq!(sent, Poll::Ready(Err(ConnectionError::WrongService)));
    let options = Options {
        service: Service::Message,
        ..Options::default()
    };
    let natures = [Nature::default(), Nature::default()];
    let mut world = World::pair(3, natures, [options, Options::default()]);
    world.run(100 * MS, |_| false);
    let closed = world.only(0).program.closed;
    assert_eq!(closed, Some(Some(ConnectionError::Rejected)));
}

//! Answers of a connection to packets of the reference, row by row.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::world::World;
use crate::handshake::{Handshake, Request, address_words};
use crate::packet::{Ack, Control, FullAck, Message, Packet, write_control, write_data_header};
use crate::{Connection, Endpoint, MessageOptions, Options, Routed, Service};

const MS: Duration = Duration::from_millis(1);
/// Socket id of the peer, and the first sequence number of both ends: the next ones wrap around.
const PEER: u32 = 77;
const FIRST: u32 = 0x7fff_fffe;

/// Our end, connected to a peer that this test plays.
struct Ours {
    now: Instant,
    connection: Connection,
}

/// Sent packets, in words.
fn words(datagram: &[u8]) -> Vec<u32> {
    let words = datagram.chunks_exact(4);
    words
        .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
        .collect()
}

fn sequence(index: u32) -> u32 {
    FIRST.wrapping_add(index) & 0x7fff_ffff
}

impl Ours {
    /// Connects the peer to a listener, and checks the answers.
    fn listening(options: Options) -> Self {
        let now = World::new(0).now;
        let from: SocketAddr = "10.1.2.3:4000".parse().unwrap();
        let service = match options.service {
            Service::Stream => 1,
            Service::Message => 2,
        };
        let mut endpoint = Endpoint::new(now, [7; 16]);
        endpoint.listen(options, 1);
        let ask = Handshake {
            version: 4,
            service,
            initial: FIRST,
            mss: 1400,
            window: 8192,
            request: Request::Ask,
            id: PEER,
            cookie: 0,
            address: [0x0100_007f, 0, 0, 0],
        };
        let mut packet = Vec::new();
        write_control(&mut packet, &Control::Handshake(ask), 0);
        let Routed::Reply(answer) = endpoint.route(now, from, &packet, 64).0 else {
            panic!("a cookie");
        };
        // The answer is the request, with a cookie and another destination.
        let (mut expected, answer) = (words(&packet), words(&answer));
        expected[3] = PEER;
        expected[11] = answer[11];
        assert_eq!(answer, expected);
        let confirm = Handshake {
            request: Request::Confirm,
            cookie: answer[11],
            ..ask
        };
        write_control(&mut packet, &Control::Handshake(confirm), 0);
        let Routed::Incoming(connection) = endpoint.route(now, from, &packet, 64).0 else {
            panic!("a connection");
        };
        let mut ours = Self {
            now,
            connection: *connection,
        };
        let said = ours.says();
        let id = ours.connection.id().get();
        let [address, ..] = address_words(from.ip());
        let window = 25_600;
        let head = [0x8000_0000, 0, 0, PEER, 4, service, FIRST, 1400, window];
        let tail = [u32::MAX, id, answer[11], address, 0, 0, 0];
        assert_eq!(words(&said[0]), [&head[..], &tail].concat());
        // The reference drops the packet behind it, which is no data.
        assert_eq!(words(&said[1]), [0x8001_0000, 0, 0, PEER, 0]);
        assert_eq!(said.len(), 2);
        ours
    }

    /// Begins to read.
    fn waits_to_read(&mut self) {
        let read = self.connection.read(self.now, &mut [0; 8]);
        assert_eq!(read, Poll::Pending);
    }

    /// Returns all datagrams to send now.
    fn says(&mut self) -> Vec<Vec<u8>> {
        self.connection.handle_timeout(self.now);
        let mut said = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(self.now, 64) {
            let size = transmit.segment_size.unwrap_or(transmit.contents.len());
            said.extend(transmit.contents.chunks(size).map(<[u8]>::to_vec));
            self.connection.on_transmitted(self.now);
        }
        said
    }

    /// Returns the same after a time, with all sent before.
    fn says_within(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let end = self.now + time;
        let mut said = self.says();
        while let Some(at) = self.connection.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            said.extend(self.says());
        }
        self.now = end;
        said
    }

    fn hears(&mut self, datagram: &[u8]) {
        let now = self.now;
        self.connection
            .handle_datagrams(now, datagram, datagram.len());
    }

    fn hears_control(&mut self, control: &Control<'_>) {
        let mut packet = Vec::new();
        write_control(&mut packet, control, self.connection.id().get());
        self.hears(&packet);
    }

    fn hears_data(&mut self, index: u32, message: Message, len: usize) {
        let mut packet = vec![7; 16 + len];
        let to = self.connection.id().get();
        write_data_header(&mut packet, sequence(index), message, to);
        self.hears(&packet);
    }

    fn hears_ack(&mut self, number: u32, index: u32) {
        let full = FullAck {
            rtt: 1000,
            variance: 100,
            room: 8000,
            rates: None,
        };
        let next = sequence(index);
        let full = (number > 0).then_some(full);
        self.hears_control(&Control::Ack(Ack { number, next, full }));
    }
}

fn middle() -> Message {
    Message::new(1, false, false, false)
}

#[test]
fn acknowledgements_come_when_and_as_long_as_they_should() {
    let mut ours = Ours::listening(Options::default());
    ours.waits_to_read();
    // The first is number 1 and has all six words.
    ours.hears_data(0, middle(), 1356);
    let said = ours.says();
    let ack = words(&said[0]);
    assert_eq!((said.len(), ack.len()), (1, 10));
    assert_eq!(ack[..5], [0x8002_0000, 1, 0, PEER, sequence(1)]);
    assert!(
        ack[8] > 0 && ack[9] > 0,
        "an early rate is better than none"
    );
    // A light one each 64 packets, with one word.
    ours.hears_control(&Control::Ack2 { number: 1 });
    ours.now += MS;
    for index in 1..=128 {
        ours.hears_data(index, middle(), 1356);
        let said = ours.says();
        match index {
            64 | 128 => assert_eq!(
                words(&said[0]),
                [0x8002_0000, 0, 0, PEER, sequence(index + 1)]
            ),
            _ => assert!(said.is_empty(), "{index}"),
        }
    }
    // The rest within 10 ms, in a full one.
    ours.hears_data(129, middle(), 1356);
    let said = ours.says_within(10 * MS);
    assert_eq!(
        words(&said[0])[..5],
        [0x8002_0000, 2, 0, PEER, sequence(130)]
    );
    ours.hears_control(&Control::Ack2 { number: 2 });
    // The end of a write is acknowledged sooner, without the rates.
    ours.now += 2 * MS;
    ours.hears_data(130, Message::new(1, false, true, false), 10);
    let ack = words(&ours.says()[0]);
    assert_eq!(ack[..5], [0x8002_0000, 3, 0, PEER, sequence(131)]);
    assert_eq!(ack.len(), 8);
    // Until it is confirmed it is repeated under a new number.
    let again = ours.says_within(400 * MS);
    assert!(again.iter().any(|packet| words(packet)[1] == 4));
    let last = words(again.last().unwrap())[1];
    ours.hears_control(&Control::Ack2 { number: last });
    let said = ours.says_within(5_000 * MS);
    assert!(
        said.iter()
            .all(|packet| words(packet) == [0x8001_0000, 0, 0, PEER, 0])
    );
    assert!(
        (5..=17).contains(&said.len()),
        "{} times kept alive",
        said.len()
    );
}

#[test]
fn missing_packets_are_reported_at_once_and_again() {
    let mut ours = Ours::listening(Options::default());
    for index in [0, 3, 4, 6] {
        ours.hears_data(index, middle(), 1356);
    }
    let is_report = |packet: &Vec<u8>| packet.starts_with(&[0x80, 0x03]);
    let report = |packets: &[Vec<u8>]| packets.iter().find(|p| is_report(p)).map(|p| words(p));
    let all = [sequence(1) | 1 << 31, sequence(2), sequence(5)];
    let head = [0x8003_0000, 0, 0, PEER];
    let said = ours.says();
    assert_eq!(report(&said), Some([&head[..], &all].concat()));
    // The rest is reported until it is filled.
    ours.hears_data(1, middle(), 1356);
    let said = ours.says_within(2_000 * MS);
    let some = [sequence(2), sequence(5)];
    assert_eq!(report(&said), Some([&head[..], &some].concat()));
    assert!(said.iter().filter(|packet| is_report(packet)).count() >= 2);
    ours.hears_data(2, middle(), 1356);
    ours.hears_data(5, middle(), 1356);
    assert_eq!(report(&ours.says_within(2_000 * MS)), None);
    let mut read = vec![0; 10_000];
    let now = ours.now;
    assert_eq!(
        ours.connection.read(now, &mut read),
        Poll::Ready(Ok(7 * 1356))
    );
}

#[test]
fn data_is_cut_into_equal_packets_and_sent_again_as_it_was() {
    let mut ours = Ours::listening(Options::default());
    let now = ours.now;
    let written = ours.connection.write(now, &[9; 3 * 1356 + 5]);
    assert_eq!(written, Poll::Ready(Ok(3 * 1356 + 5)));
    let said = ours.says_within(20 * MS);
    let lens: Vec<_> = said.iter().map(Vec::len).collect();
    assert_eq!(lens, [1372, 1372, 1372, 21]);
    // First, middle and last packet of message 1; the numbers wrap around.
    let flags = [1 << 31 | 1, 1, 1, 1 << 30 | 1];
    for ((index, packet), flags) in (0..).zip(&said).zip(flags) {
        let [number, message, _, to] = words(&packet[..16])[..] else {
            panic!("a header");
        };
        assert_eq!((number, message, to), (sequence(index), flags, PEER));
    }
    // A light acknowledgement is not confirmed, every full one is.
    ours.hears_ack(0, 1);
    assert!(ours.says().is_empty());
    for number in [8, 9] {
        ours.hears_ack(number, 1);
        assert_eq!(words(&ours.says()[0]), [0x8006_0000, number, 0, PEER, 0]);
    }
    ours.now += 20 * MS;
    let report = [&words(&said[2])[..1], &[]].concat();
    let mut nak = Vec::new();
    crate::packet::begin_nak(&mut nak, ours.connection.id().get());
    crate::packet::push_loss(&mut nak, report[0], report[0]);
    ours.hears(&nak);
    let again = ours.says();
    assert_eq!(again.len(), 1);
    assert_eq!(
        (&again[0][..8], &again[0][12..]),
        (&said[2][..8], &said[2][12..])
    );
    // The shutdown follows the last acknowledgement.
    let now = ours.now;
    ours.connection.close(now);
    let is_end = |packet: &Vec<u8>| packet.starts_with(&[0x80, 0x05]);
    assert!(!ours.says_within(5 * MS).iter().any(is_end));
    ours.hears_ack(10, 4);
    let said = ours.says();
    assert!(
        said.iter()
            .any(|packet| words(packet) == [0x8005_0000, 0, 0, PEER, 0])
    );
}

#[test]
fn a_message_that_is_too_late_is_named_with_its_last_packet() {
    let mut ours = Ours::listening(Options {
        service: Service::Message,
        ..Options::default()
    });
    let brief = MessageOptions::default().with_time_to_live(MS);
    let (now, plain) = (ours.now, MessageOptions::default().with_order(true));
    let connection = &mut ours.connection;
    assert_eq!(
        connection.send_message(now, &[1; 3000], brief),
        Poll::Ready(Ok(()))
    );
    assert_eq!(
        connection.send_message(now, &[2; 10], plain),
        Poll::Ready(Ok(()))
    );
    let said = ours.says_within(20 * MS);
    assert_eq!(said.len(), 4);
    let alone = words(&said[3][..16]);
    assert_eq!(
        alone[1],
        0b111 << 29 | 2,
        "first and last, in order, message 2"
    );
    let mut nak = Vec::new();
    crate::packet::begin_nak(&mut nak, ours.connection.id().get());
    crate::packet::push_loss(&mut nak, sequence(1), sequence(2));
    ours.hears(&nak);
    let said = ours.says();
    let drop = [0x8007_0000, 1, 0, PEER, sequence(0), sequence(2)];
    assert_eq!(words(&said[0]), drop);
    assert!(
        said[1..].iter().all(|packet| packet[0] & 0x80 != 0),
        "no data"
    );
}

#[test]
fn a_message_given_up_makes_way_and_takes_nothing_with_it() {
    let mut ours = Ours::listening(Options {
        service: Service::Message,
        ..Options::default()
    });
    // Message 1 lacks its end; the reference names a packet too many, the first of message 2.
    ours.hears_data(0, Message::new(1, true, false, true), 1356);
    ours.hears_data(3, Message::new(2, true, true, true), 10);
    let (message, first, last) = (1, sequence(0), sequence(3));
    ours.hears_control(&Control::Drop {
        message,
        first,
        last,
    });
    let (now, mut room) = (ours.now, [0; 100]);
    let got = ours.connection.receive_message(now, &mut room);
    assert_eq!(got, Poll::Ready(Ok(Some(10))));
    let said = ours.says_within(20 * MS);
    assert!(
        said.iter().any(|packet| words(packet)[4] == sequence(4)),
        "all is accounted for"
    );
}

#[test]
fn a_rendezvous_sends_the_packets_of_the_reference() {
    let now = World::new(0).now;
    let peer: SocketAddr = "10.1.2.3:4000".parse().unwrap();
    let mut endpoint = Endpoint::new(now, [7; 16]);
    let options = Options {
        initial_sequence: Some(5),
        ..Options::default()
    };
    let connection = endpoint.rendezvous(now, peer, options);
    let mut ours = Ours { now, connection };
    let id = ours.connection.id().get();
    let said = |ours: &mut Ours| {
        let said: Vec<_> = ours.says().iter().map(|packet| words(packet)).collect();
        let short = said
            .iter()
            .map(|w| (w[0], w[3], w[6], w[9].cast_signed(), w[10], w[11]));
        short.collect::<Vec<_>>()
    };
    assert_eq!(said(&mut ours), [(0x8000_0000, 0, 5, 0, id, 0)]);
    ours.now += 250 * MS;
    assert_eq!(said(&mut ours), [(0x8000_0000, 0, 5, 0, id, 0)], "again");
    let theirs = |request| {
        Control::Handshake(Handshake {
            version: 4,
            service: 1,
            initial: FIRST,
            mss: 1500,
            window: 8192,
            request,
            id: PEER,
            cookie: 0,
            address: [0; 4],
        })
    };
    // Each end has its own first number.
    ours.hears_control(&theirs(Request::Meet));
    assert_eq!(said(&mut ours), [(0x8000_0000, PEER, 5, -1, id, 0)]);
    assert!(!ours.connection.is_connected());
    ours.hears_control(&theirs(Request::Confirm));
    assert!(ours.connection.is_connected());
    said(&mut ours);
    // A repeated request is answered, a confirmation is not.
    ours.hears_control(&theirs(Request::Meet));
    assert_eq!(said(&mut ours), [(0x8000_0000, PEER, 5, -2, id, 0)]);
    ours.hears_control(&theirs(Request::Met));
    assert!(said(&mut ours).is_empty());
    let Poll::Ready(Ok(4)) = ours.connection.write(ours.now, b"word") else {
        panic!("room");
    };
    let said = ours.says();
    let Some(Packet::Data(data)) = Packet::parse(&said[0]) else {
        panic!("data");
    };
    assert_eq!((data.sequence, data.payload), (5, &b"word"[..]));
}

#[test]
fn the_last_packet_goes_out_again_after_a_round_trip_or_two() {
    let mut ours = Ours::listening(Options::default());
    for number in 1..100 {
        ours.hears_ack(number, 0);
    }
    ours.says();
    let now = ours.now;
    assert_eq!(ours.connection.write(now, b"tail"), Poll::Ready(Ok(4)));
    let first = ours.says();
    // The round trip takes a millisecond; the reference would wait for 300.
    let again = ours.says_within(50 * MS);
    let is_it = |packet: &Vec<u8>| packet[..8] == first[0][..8] && packet[16..] == *b"tail";
    assert!((1..6).contains(&again.iter().filter(|packet| is_it(packet)).count()));
}

#[test]
fn packets_that_tear_too_many_holes_are_lost_themselves() {
    let mut ours = Ours::listening(Options::default());
    ours.waits_to_read();
    let last = 20_000;
    for index in (0..last).step_by(2) {
        ours.hears_data(index, middle(), 1356);
    }
    assert_eq!(ours.connection.stats().received, 8193, "holes are counted");
    let said = ours.says();
    assert!(said.iter().all(|packet| packet.len() <= 1372));
    // All data arrives in the end.
    let mut sink = vec![0; 20_000 * 1356];
    let mut read = 0;
    for index in 0..last {
        ours.hears_data(index, middle(), 1356);
        let now = ours.now;
        if let Poll::Ready(Ok(n)) = ours.connection.read(now, &mut sink) {
            read += n;
        }
    }
    assert_eq!(read, sink.len());
}

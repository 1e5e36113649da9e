//! Runs operations, read from bytes, against two machines on a bad link, and checks invariants.
//!
//! The fuzz targets and the property tests share it, so that each can replay the findings of the
//! other. An operation is a byte for its kind and its end, a byte of length, and that many bytes.

use std::collections::{BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::handshake::Handshake;
use crate::options::{Congestion, Options, Service};
use crate::packet::{Control, Packet, write_control};
use crate::{Connection, Endpoint, Event, MessageOptions, Routed};

/// Most packets on the link; later ones are lost.
const LINE: usize = 64;
/// Most memory of a connection with these options.
const MOST_MEMORY: usize = 1 << 20;

/// Checks that a packet parses to the same after it is written, and that its parts are bounded.
///
/// # Panics
///
/// When a check fails.
pub fn packet(bytes: &[u8]) {
    let Some(Packet::Control(control)) = Packet::parse(bytes) else {
        return;
    };
    if let Control::Nak(report) = control {
        assert!(report.count() <= bytes.len() / 4 + 1);
    }
    if control == Control::Unknown {
        return;
    }
    let mut out = Vec::new();
    write_control(&mut out, &control, 1);
    assert_eq!(Packet::parse(&out), Some(Packet::Control(control)));
}

/// Writes one operation.
pub fn encode(op: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    let mut out = vec![op, len];
    out.extend(payload.iter().take(len.into()));
    out
}

#[expect(
    clippy::disallowed_methods,
    reason = "an Instant can be had in no other way"
)]
fn start() -> Instant {
    Instant::now()
}

/// Runs operations against a pair with a stream of bytes.
///
/// # Panics
///
/// When an invariant is broken.
pub fn connection(bytes: &[u8]) {
    run(Rig::new(options()), bytes);
}

/// Runs operations against a pair with messages, under the protocol's own congestion control.
///
/// # Panics
///
/// When an invariant is broken.
pub fn messages(bytes: &[u8]) {
    let options = Options {
        service: Service::Message,
        congestion: Congestion::Native,
        ..options()
    };
    run(Rig::new(options), bytes);
}

fn run(mut rig: Rig, mut bytes: &[u8]) {
    while let Some(([op, len], rest)) = bytes.split_first_chunk::<2>() {
        let (payload, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        bytes = rest;
        rig.apply(*op, payload);
    }
}

/// One end, and the packets in flight to it.
struct End {
    address: SocketAddr,
    endpoint: Endpoint,
    connection: Option<Connection>,
    line: VecDeque<Vec<u8>>,
    written: u64,
    read: u64,
    /// Messages received.
    got: BTreeSet<u64>,
    is_closed: bool,
}

struct Rig {
    service: Service,
    now: Instant,
    ends: [End; 2],
    /// Whether a forged packet arrived, so that received data is unknown.
    is_forged: bool,
}

/// The byte at a position of an end's stream.
fn byte(end: usize, position: u64) -> u8 {
    position.to_le_bytes()[0] ^ position.to_le_bytes()[1] ^ u8::from(end > 0)
}

/// A message: its number, and a pattern.
fn message(end: usize, number: u64, len: usize) -> Vec<u8> {
    let pattern = (0..len as u64).map(|at| byte(end, at ^ number));
    number.to_be_bytes().into_iter().chain(pattern).collect()
}

fn options() -> Options {
    Options {
        mss: 200,
        flow_window: 64,
        send_buffer: 64,
        receive_buffer: 64,
        initial_sequence: Some(0x7fff_fff0),
        linger: Duration::from_secs(5),
        ..Options::default()
    }
}

impl Rig {
    fn new(options: Options) -> Self {
        let now = start();
        let mut number = 0;
        let mut ends = [(); 2].map(|()| {
            number += 1;
            End {
                address: (Ipv4Addr::new(10, 0, 0, number), 5000).into(),
                endpoint: Endpoint::new(now, [number; 16]),
                connection: None,
                line: VecDeque::new(),
                written: 0,
                read: 0,
                got: BTreeSet::new(),
                is_closed: false,
            }
        });
        let [near, far] = &mut ends;
        let service = options.service;
        far.endpoint.listen(options.clone(), 4);
        near.connection = Some(near.endpoint.connect(now, far.address, options));
        Self {
            service,
            now,
            ends,
            is_forged: false,
        }
    }

    fn apply(&mut self, op: u8, payload: &[u8]) {
        let which = usize::from(op & 1);
        let number = payload.first().copied().map_or(0, usize::from);
        match op >> 1 & 7 {
            // Delivers a packet, in order or not, once or twice.
            0 => {
                for _ in 0..=number & 15 {
                    self.deliver(which, 0, false);
                }
            }
            1 => self.deliver(which, number & 63, number & 64 != 0),
            // Loses a packet.
            2 => {
                let line = &mut self.ends[which].line;
                line.drain(..(number & 15).min(line.len()));
            }
            3 => {
                self.now += Duration::from_millis(1 << (number & 15));
            }
            4 if self.service == Service::Message => self.send(which, number),
            5 if self.service == Service::Message => self.receive(which),
            4 => self.write(which, number * 8),
            5 => self.read(which, number * 8 + 1),
            6 => self.forge(which, payload),
            _ => self.end(which, number),
        }
        self.settle();
    }

    fn deliver(&mut self, which: usize, at: usize, again: bool) {
        let line = &mut self.ends[which].line;
        let Some(datagram) = (if again {
            line.get(at).cloned()
        } else {
            line.remove(at)
        }) else {
            return;
        };
        self.arrive(which, &datagram);
    }

    fn arrive(&mut self, which: usize, datagram: &[u8]) {
        let from = self.ends[1 - which].address;
        let end = &mut self.ends[which];
        let stride = datagram.len().max(1);
        let (routed, taken) = end.endpoint.route(self.now, from, datagram, stride);
        assert_eq!(taken, datagram.len());
        match routed {
            Routed::Nobody => {}
            Routed::Connection(id) => {
                if let Some(connection) = end.connection.as_mut().filter(|c| c.id() == id) {
                    connection.handle_datagrams(self.now, datagram, stride);
                }
            }
            Routed::Reply(bytes) => {
                assert!(bytes.len() <= datagram.len(), "amplification");
                self.ends[1 - which].line.push_back(bytes.to_vec());
            }
            Routed::Incoming(connection) => {
                end.endpoint.taken(connection.id());
                if end.connection.is_none() {
                    end.connection = Some(*connection);
                } else {
                    end.endpoint.forget(connection.id());
                }
            }
        }
    }

    /// Delivers a forged packet to the right connection.
    fn forge(&mut self, which: usize, payload: &[u8]) {
        self.is_forged = true;
        let mut datagram = payload.to_vec();
        let end = &self.ends[which];
        let id = end.connection.as_ref().map_or(0, |c| c.id().get());
        if let Some(place) = datagram.get_mut(12..16)
            && place != [0; 4]
        {
            place.copy_from_slice(&id.to_be_bytes());
        }
        self.arrive(which, &datagram);
        assert!(self.ends[which].endpoint.len() <= 2);
    }

    fn write(&mut self, which: usize, len: usize) {
        let end = &mut self.ends[which];
        let Some(connection) = &mut end.connection else {
            return;
        };
        let bytes: Vec<_> = (0..len as u64)
            .map(|at| byte(which, end.written + at))
            .collect();
        if let Poll::Ready(Ok(taken)) = connection.write(self.now, &bytes) {
            assert!(taken <= len);
            end.written += taken as u64;
        }
    }

    fn read(&mut self, which: usize, len: usize) {
        let other = self.ends[1 - which].written;
        let end = &mut self.ends[which];
        let Some(connection) = &mut end.connection else {
            return;
        };
        let mut buffer = vec![0; len];
        let Poll::Ready(Ok(got)) = connection.read(self.now, &mut buffer) else {
            return;
        };
        if self.is_forged {
            return;
        }
        for (at, got) in buffer[..got].iter().enumerate() {
            assert_eq!(*got, byte(1 - which, end.read + at as u64));
        }
        end.read += got as u64;
        assert!(end.read <= other, "more was read than written");
        if got == 0 {
            assert_eq!(end.read, other, "an end before the end");
        }
    }

    /// Sends a message, with length and options derived from its number.
    fn send(&mut self, which: usize, number: usize) {
        let end = &mut self.ends[which];
        let Some(connection) = &mut end.connection else {
            return;
        };
        let mut options = MessageOptions::default().with_order(number & 1 != 0);
        if number & 6 == 0 {
            options = options.with_time_to_live(Duration::from_millis(number as u64));
        }
        let message = message(which, end.written, number * 8);
        if let Poll::Ready(Ok(())) = connection.send_message(self.now, &message, options) {
            end.written += 1;
        }
    }

    fn receive(&mut self, which: usize) {
        let other = self.ends[1 - which].written;
        let end = &mut self.ends[which];
        let Some(connection) = &mut end.connection else {
            return;
        };
        let mut buffer = vec![0; 3000];
        let Poll::Ready(Ok(Some(len))) = connection.receive_message(self.now, &mut buffer) else {
            return;
        };
        if self.is_forged {
            return;
        }
        let got = &buffer[..len];
        let number = u64::from_be_bytes(got[..8].try_into().expect("a message has a number"));
        assert!(number < other, "more came than was sent");
        assert!(
            *got == message(1 - which, number, len - 8),
            "another message"
        );
        assert!(end.got.insert(number), "a message came twice");
    }

    fn end(&mut self, which: usize, number: usize) {
        let Some(connection) = &mut self.ends[which].connection else {
            return;
        };
        match number & 3 {
            0 => connection.close(self.now),
            1 => connection.abort(self.now),
            2 => connection.on_unreachable(),
            _ => connection.handle_timeout(self.now),
        }
    }

    /// Drives both ends, and checks them.
    fn settle(&mut self) {
        for which in [0, 1] {
            let mut out = Vec::new();
            let end = &mut self.ends[which];
            let Some(connection) = &mut end.connection else {
                continue;
            };
            connection.handle_timeout(self.now);
            let mut calls = 0;
            while let Some(transmit) = connection.poll_transmit(self.now, 8) {
                let size = transmit.segment_size.unwrap_or(transmit.contents.len());
                assert!(transmit.contents.len().div_ceil(size) <= 8);
                out.extend(transmit.contents.chunks(size).map(<[u8]>::to_vec));
                connection.on_transmitted(self.now);
                calls += 1;
                assert!(calls < 1_000, "it never stops");
            }
            let most = connection.datagram_size().max(16 + Handshake::LEN);
            assert!(out.iter().all(|datagram| datagram.len() <= most));
            while let Some(event) = connection.poll_event() {
                if matches!(event, Event::Closed(_)) {
                    assert!(!end.is_closed, "closed twice");
                    end.is_closed = true;
                }
            }
            let rests_until = connection.poll_timeout();
            assert!(rests_until.is_none_or(|at| at > self.now), "it never rests");
            assert!(connection.memory() < MOST_MEMORY);
            assert!(!connection.is_over() || connection.poll_timeout().is_none());
            assert!(!connection.is_over() || end.is_closed);
            let line = &mut self.ends[1 - which].line;
            line.extend(out);
            line.truncate(LINE);
        }
    }
}

//! `World`: hosts with endpoints and programs, joined by links, in simulated time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::doubles::{Meddler, Memory};
use super::link::{Dice, Link, Nature};
use super::tcp::{self, Tcp};
use crate::{Connection, ConnectionError, ConnectionId, Endpoint, Event, Options, Routed};

/// The byte of a stream at a position.
pub(super) fn byte(stream: u64, position: u64) -> u8 {
    (position ^ (position >> 8) ^ (position >> 16) ^ stream.wrapping_mul(167)) as u8
}

/// Program at one end of a connection, and its results.
#[derive(Debug, Default, Clone)]
pub(super) struct Program {
    /// Stream that it writes, and its length.
    pub(super) stream: u64,
    pub(super) to_write: u64,
    /// Stream that it expects.
    pub(super) expects: u64,
    /// Whether it closes after it has written everything and read this many bytes.
    pub(super) closes: bool,
    pub(super) reads_first: u64,
    /// Most bytes of a read, 0 for all.
    pub(super) sips: usize,
    /// Whether it does not check the bytes.
    pub(super) is_careless: bool,
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) end: Option<Result<(), ConnectionError>>,
    pub(super) closed: Option<Option<ConnectionError>>,
    pub(super) write_error: Option<ConnectionError>,
    pub(super) most_memory: usize,
    /// Operations that the events allow.
    pub(super) may_read: bool,
    pub(super) may_write: bool,
    pub(super) is_closing: bool,
}

/// A connection and its program.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) connection: Connection,
    pub(super) program: Program,
}

/// A host on the network.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) address: SocketAddr,
    pub(super) endpoint: Endpoint,
    pub(super) seats: BTreeMap<ConnectionId, Seat>,
    /// Program of incoming connections.
    pub(super) serves: Program,
    pub(super) segments: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    at: Instant,
    number: u64,
    to: usize,
    from: SocketAddr,
    bytes: Vec<u8>,
}

/// The whole simulation.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) start: Instant,
    pub(super) hosts: Vec<Host>,
    /// Link of each host, by its number.
    pub(super) links: Vec<Link>,
    pub(super) leaves_by: Vec<usize>,
    flying: BinaryHeap<Reverse<Flying>>,
    number: u64,
    pub(super) dice: Dice,
    /// Lateness of timers, as of real ones.
    pub(super) tick: Duration,
    pub(super) datagrams: u64,
    pub(super) tcps: Vec<Tcp>,
    /// Changes the packets of a host.
    pub(super) meddler: Option<(usize, Meddler, Memory)>,
    buffer: Vec<u8>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "an Instant can be had in no other way"
)]
pub(crate) fn any_instant() -> Instant {
    Instant::now()
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let now = any_instant();
        Self {
            now,
            start: now,
            hosts: Vec::new(),
            links: Vec::new(),
            leaves_by: Vec::new(),
            flying: BinaryHeap::new(),
            number: 0,
            dice: Dice::new(seed),
            tick: Duration::ZERO,
            datagrams: 0,
            tcps: Vec::new(),
            meddler: None,
            buffer: Vec::new(),
        }
    }

    /// Two hosts: the second listens, the first is connected to it.
    pub(super) fn pair(seed: u64, natures: [Nature; 2], options: [Options; 2]) -> Self {
        let mut world = Self::new(seed);
        let [near, far] = natures;
        let (near, far) = (world.add_link(near), world.add_link(far));
        let client = world.add_host(near);
        let server = world.add_host(far);
        let [ours, theirs] = options;
        world.hosts[server].endpoint.listen(theirs, 10);
        world.connect(client, server, ours, Program::default());
        world
    }

    pub(super) fn add_link(&mut self, nature: Nature) -> usize {
        let seed = self.dice.roll();
        self.links.push(Link::new(self.now, nature, seed));
        self.links.len() - 1
    }

    pub(super) fn add_host(&mut self, leaves_by: usize) -> usize {
        let number = self.hosts.len();
        let address = (Ipv4Addr::new(10, 0, 0, number as u8), 5000).into();
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&self.dice.roll().to_le_bytes());
        self.hosts.push(Host {
            address,
            endpoint: Endpoint::new(self.now, seed),
            seats: BTreeMap::new(),
            serves: Program::default(),
            segments: 44,
        });
        self.leaves_by.push(leaves_by);
        number
    }

    pub(super) fn connect(
        &mut self,
        from: usize,
        to: usize,
        options: Options,
        program: Program,
    ) -> ConnectionId {
        let peer = self.hosts[to].address;
        let now = self.now;
        let connection = self.hosts[from].endpoint.connect(now, peer, options);
        self.seat(from, connection, program)
    }

    pub(super) fn seat(
        &mut self,
        host: usize,
        connection: Connection,
        program: Program,
    ) -> ConnectionId {
        let id = connection.id();
        let seat = Seat {
            connection,
            program,
        };
        self.hosts[host].seats.insert(id, seat);
        id
    }

    /// Describes the state of all connections.
    pub(super) fn summary(&self) -> String {
        let mut out = format!(
            "at {:?}, {} datagrams",
            self.now - self.start,
            self.datagrams
        );
        for (number, host) in self.hosts.iter().enumerate() {
            for seat in host.seats.values() {
                let (connection, program) = (&seat.connection, &seat.program);
                let stats = connection.stats();
                out += &format!("\n{number}: {stats:?}\n   {program:?}\n   {connection:?}");
            }
        }
        out
    }

    /// The only connection of a host.
    pub(super) fn only(&mut self, host: usize) -> &mut Seat {
        self.hosts[host]
            .seats
            .values_mut()
            .next()
            .expect("a connection")
    }

    /// Runs until the condition holds or the time has passed; returns whether it held.
    pub(super) fn run(&mut self, for_: Duration, until: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + for_;
        self.all_act();
        while !until(self) {
            let flying = self.flying.peek().map(|Reverse(flying)| flying.at);
            let timers = self.hosts.iter().flat_map(|host| host.seats.values());
            let timer = timers
                .filter_map(|seat| seat.connection.poll_timeout())
                .min();
            let timer = timer.map(|at| at.max(self.now) + self.tick);
            let timer = timer.into_iter().chain(self.tcps.iter().map(Tcp::wakes_at));
            let Some(at) = timer.chain(flying).min() else {
                return false;
            };
            if at > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(at);
            self.deliver();
            self.all_act();
        }
        true
    }

    /// Delivers the packets that arrive now, those of equal length together.
    fn deliver(&mut self) {
        let mut batch: Option<Flying> = None;
        let mut stride = 0;
        while let Some(Reverse(next)) = self.flying.peek()
            && next.at <= self.now
        {
            let Some(Reverse(next)) = self.flying.pop() else {
                break;
            };
            match &mut batch {
                Some(batch)
                    if batch.to == next.to
                        && batch.from == next.from
                        && batch.bytes.len() % stride == 0
                        && next.bytes.len() <= stride =>
                {
                    batch.bytes.extend_from_slice(&next.bytes);
                }
                _ => {
                    let ready = batch.take();
                    self.arrive(ready, stride);
                    stride = next.bytes.len();
                    batch = Some(next);
                }
            }
        }
        self.arrive(batch, stride);
    }

    fn arrive(&mut self, batch: Option<Flying>, stride: usize) {
        let Some(batch) = batch else { return };
        let now = self.now;
        if self.arrive_for_tcp(&batch, stride) {
            return;
        }
        let host = &mut self.hosts[batch.to];
        let mut rest = batch.bytes.as_slice();
        let mut replies = Vec::new();
        while !rest.is_empty() {
            let (routed, len) = host.endpoint.route(now, batch.from, rest, stride);
            let (these, after) = rest.split_at(len);
            rest = after;
            match routed {
                Routed::Nobody => {}
                Routed::Connection(id) => {
                    if let Some(seat) = host.seats.get_mut(&id) {
                        seat.connection.handle_datagrams(now, these, stride);
                    }
                }
                Routed::Reply(bytes) => {
                    assert!(bytes.len() <= len, "amplification");
                    replies.push(bytes.to_vec());
                }
                Routed::Incoming(connection) => {
                    let id = connection.id();
                    host.endpoint.taken(id);
                    let seat = Seat {
                        connection: *connection,
                        program: host.serves.clone(),
                    };
                    host.seats.insert(id, seat);
                }
            }
        }
        for bytes in replies {
            self.send(batch.to, batch.from, &bytes);
        }
    }

    /// Delivers packets to the TCP flows; returns whether they were theirs.
    fn arrive_for_tcp(&mut self, batch: &Flying, stride: usize) -> bool {
        let now = self.now;
        let number = |packet: &[u8]| u64::from_be_bytes(packet[4..12].try_into().unwrap());
        let packets = batch.bytes.chunks(stride);
        if let Some(tcp) = self.tcps.iter_mut().find(|tcp| tcp.from == batch.to) {
            packets.for_each(|packet| tcp.on_ack(now, number(packet)));
            return true;
        }
        let Some(tcp) = self.tcps.iter_mut().find(|tcp| tcp.to == batch.to) else {
            return false;
        };
        tcp.arrived += packets.len() as u64;
        for packet in packets {
            self.send(batch.to, batch.from, &packet[..tcp::ACK]);
        }
        true
    }

    /// Sends a datagram.
    pub(super) fn send(&mut self, from: usize, to: SocketAddr, bytes: &[u8]) {
        let address = self.hosts[from].address;
        let mut bytes = bytes.to_vec();
        if let Some((host, meddler, memory)) = &mut self.meddler
            && *host == from
            && !meddler(memory, &mut bytes)
        {
            return;
        }
        self.datagrams += 1;
        for at in self.links[self.leaves_by[from]].pass(self.now, bytes.len()) {
            let Some(at) = at else { continue };
            let Some(to) = self.hosts.iter().position(|host| host.address == to) else {
                continue;
            };
            self.number += 1;
            self.flying.push(Reverse(Flying {
                at,
                number: self.number,
                to,
                from: address,
                bytes: bytes.clone(),
            }));
        }
    }

    fn all_act(&mut self) {
        let now = self.now;
        for number in 0..self.tcps.len() {
            let tcp = &mut self.tcps[number];
            tcp.on_wake(now);
            let (from, to, packets) = (tcp.from, self.hosts[tcp.to].address, tcp.send(now));
            packets
                .iter()
                .for_each(|packet| self.send(from, to, packet));
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(1 << 16, 0);
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            let segments = host.segments;
            let mut out = Vec::new();
            for (id, seat) in &mut host.seats {
                seat.connection.handle_timeout(now);
                seat.act(now, &mut buffer);
                while let Some(transmit) = seat.connection.poll_transmit(now, segments) {
                    let size = transmit.segment_size.unwrap_or(transmit.contents.len());
                    assert!(transmit.contents.len() <= 65_507);
                    let pieces: Vec<_> =
                        transmit.contents.chunks(size).map(<[u8]>::to_vec).collect();
                    let to = seat.connection.peer();
                    seat.connection.on_transmitted(now);
                    out.extend(pieces.into_iter().map(|bytes| (to, bytes)));
                }
                let rests_until = seat.connection.poll_timeout();
                assert!(rests_until.is_none_or(|at| at > now), "it never rests");
                let memory = seat.connection.memory();
                seat.program.most_memory = seat.program.most_memory.max(memory);
                if seat.connection.is_over() {
                    host.endpoint.forget(*id);
                }
            }
            for (to, bytes) in out {
                self.send(number, to, &bytes);
            }
        }
        self.buffer = buffer;
    }
}

impl Seat {
    /// Runs the program as far as it can go.
    fn act(&mut self, now: Instant, buffer: &mut [u8]) {
        let Self {
            connection,
            program,
        } = self;
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Closed(why) => {
                    assert_eq!(program.closed, None, "closed once");
                    program.closed = Some(why);
                    program.may_read = true;
                    program.may_write = true;
                }
                Event::Readable => program.may_read = true,
                Event::Writable => program.may_write = true,
                Event::Connected | Event::Drained => {}
            }
        }
        let size = if program.sips == 0 {
            buffer.len()
        } else {
            program.sips
        };
        if connection.is_for_messages() {
            return;
        }
        while program.end.is_none() && program.may_read {
            let buffer = &mut buffer[..size];
            match connection.read(now, buffer) {
                Poll::Pending => program.may_read = false,
                Poll::Ready(Ok(0)) => program.end = Some(Ok(())),
                Poll::Ready(Ok(len)) => {
                    if !program.is_careless {
                        for (at, got) in buffer[..len].iter().enumerate() {
                            let position = program.read + at as u64;
                            assert_eq!(*got, byte(program.expects, position), "at {position}");
                        }
                    }
                    program.read += len as u64;
                }
                Poll::Ready(Err(why)) => program.end = Some(Err(why)),
            }
            if program.sips > 0 {
                break;
            }
        }
        while program.written < program.to_write
            && program.write_error.is_none()
            && program.may_write
        {
            let len = (program.to_write - program.written).min(if program.is_careless {
                60_000
            } else {
                5_000
            }) as usize;
            if !program.is_careless {
                for (at, to) in buffer[..len].iter_mut().enumerate() {
                    *to = byte(program.stream, program.written + at as u64);
                }
            }
            match connection.write(now, &buffer[..len]) {
                Poll::Pending => program.may_write = false,
                Poll::Ready(Ok(len)) => program.written += len as u64,
                Poll::Ready(Err(why)) => program.write_error = Some(why),
            }
        }
        let is_done = program.written == program.to_write && program.read >= program.reads_first;
        if program.closes && is_done && !program.is_closing && connection.is_connected() {
            program.is_closing = true;
            connection.close(now);
        }
    }
}

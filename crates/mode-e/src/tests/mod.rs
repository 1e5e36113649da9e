//! Every interleaving of two connections' headers, split at every byte, and the rules of both ends.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the numbers in these tests are small"
)]

use byte_ranges::{Range64, RangeSet};

use crate::*;

mod deframe;
mod gather;
mod schedule;

fn limits() -> Limits {
    Limits::default()
        .with_max_connections(8)
        .with_max_empty(2)
        .with_max_block(1 << 20)
}

fn block(header: Header, payload: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], payload].concat()
}

/// A connection and its driving loop: bytes in, steps out, payload moved `bite` bytes at a time.
struct Conn {
    deframer: Deframer,
    bite: u64,
    /// Whether the end-of-data mark has arrived, and the bytes behind it.
    ended: bool,
    later: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Bytes(u64, Vec<u8>),
    Eof(u64),
    Eod(bool),
    Digest([u8; 32]),
    Hint(Hint),
    Retired,
}

impl Conn {
    fn new(bite: u64) -> Self {
        Self {
            deframer: Deframer::new(limits()),
            bite,
            ended: false,
            later: Vec::new(),
        }
    }

    fn next_transfer(&mut self) {
        self.deframer.next_transfer();
        self.ended = false;
    }

    /// Consumes bytes up to their end or the end-of-data mark.
    fn take(&mut self, mut bytes: &[u8], seen: &mut Vec<Seen>) -> Result<(), BadBlock> {
        if self.ended {
            self.later.extend_from_slice(bytes);
            return Ok(());
        }
        loop {
            match self.deframer.poll()? {
                Step::Header { need } => {
                    assert!((1..=HEADER_LEN).contains(&need));
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    let taken = self.deframer.feed(bytes);
                    assert_eq!(taken, need.min(bytes.len()));
                    bytes = &bytes[taken..];
                }
                Step::Payload { offset, len } => {
                    assert_eq!(
                        self.deframer.feed(b"x"),
                        0,
                        "payload is not for the deframer"
                    );
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    let n = len.min(self.bite).min(bytes.len() as u64);
                    let (piece, rest) = bytes.split_at(n as usize);
                    seen.push(Seen::Bytes(offset, piece.to_vec()));
                    self.deframer.moved(n);
                    bytes = rest;
                }
                Step::Stale { len } => {
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    let n = len.min(self.bite).min(bytes.len() as u64);
                    self.deframer.moved(n);
                    bytes = &bytes[n as usize..];
                }
                Step::Eof { connections } => seen.push(Seen::Eof(connections)),
                Step::Digest(digest) => seen.push(Seen::Digest(digest)),
                Step::Hint(hint) => seen.push(Seen::Hint(hint)),
                Step::Eod { close } => {
                    seen.push(Seen::Eod(close));
                    self.ended = true;
                    self.later = bytes.to_vec();
                    return Ok(());
                }
                Step::Retired => {
                    seen.push(Seen::Retired);
                    self.ended = true;
                    self.later = bytes.to_vec();
                    return Ok(());
                }
            }
        }
    }
}

/// All steps for `wire` on a new connection, with pieces of payload joined.
fn steps(wire: &[u8], pieces: &[&[u8]], bite: u64) -> Result<Vec<Seen>, BadBlock> {
    assert_eq!(pieces.concat(), wire);
    let mut conn = Conn::new(bite);
    let mut seen = Vec::new();
    for piece in pieces {
        conn.take(piece, &mut seen)?;
    }
    Ok(joined(seen))
}

fn joined(seen: Vec<Seen>) -> Vec<Seen> {
    let mut out: Vec<Seen> = Vec::new();
    for step in seen {
        match (out.last_mut(), step) {
            (Some(Seen::Bytes(at, held)), Seen::Bytes(offset, more))
                if *at + held.len() as u64 == offset =>
            {
                held.extend(more);
            }
            (_, step) => out.push(step),
        }
    }
    out
}

/// Checks `wire` whole, split in two at every byte, and byte by byte, with large and small moves.
fn check(wire: &[u8], expected: &Result<Vec<Seen>, BadBlockKind>) {
    let kind = |r: Result<Vec<Seen>, BadBlock>| r.map_err(|bad| bad.kind);
    for bite in [1, 2, u64::MAX] {
        assert_eq!(&kind(steps(wire, &[wire], bite)), expected);
        let bytes: Vec<_> = wire.chunks(1).collect();
        assert_eq!(&kind(steps(wire, &bytes, bite)), expected);
        for at in 0..wire.len() {
            let (a, b) = wire.split_at(at);
            assert_eq!(&kind(steps(wire, &[a, b], bite)), expected, "cut at {at}");
        }
    }
}

fn raw(flags: u8, count: u64, offset: u64) -> Header {
    Header::new(Flags::from_bits(flags), count, offset)
}

/// Two connections, fed alternately in every order of whole blocks, each cut at every byte.
#[test]
fn every_interleaving_of_two_connections_completes() {
    let file = b"0123456789";
    let what = RangeSet::up_to(10);
    for order in 0..1u32 << 6 {
        let mut scheduler = Scheduler::new(&what, 3, Streams::new(1, 2).unwrap());
        let mut wires = [Vec::new(), Vec::new()];
        let mut turns = (0..).map(|i: u32| if i < 6 { order >> i & 1 } else { i & 1 } as usize);
        while !scheduler.is_finished() {
            let turn = turns.next().unwrap();
            if let Next::Data(header) | Next::End(header) = scheduler.next(turn) {
                let at = header.offset as usize;
                let payload = if header.count > 0 {
                    &file[at..at + header.count as usize]
                } else {
                    b""
                };
                wires[turn].extend(block(header, payload));
            }
        }
        for cut in 0..wires[0].len().max(wires[1].len()) {
            receive(&wires, cut, file);
        }
    }
}

fn receive(wires: &[Vec<u8>; 2], cut: usize, file: &[u8]) {
    let mut gather = Gather::new(limits());
    let mut conns = [Conn::new(2), Conn::new(u64::MAX)];
    let mut copy = vec![0; file.len()];
    gather.opened().unwrap();
    gather.opened().unwrap();
    for second_half in [false, true] {
        for (conn, wire) in conns.iter_mut().zip(wires) {
            let (head, tail) = wire.split_at(cut.min(wire.len()));
            let mut seen = Vec::new();
            conn.take(if second_half { tail } else { head }, &mut seen)
                .unwrap();
            if conn.deframer.just_begun() {
                gather.begun().unwrap();
            }
            for step in seen {
                match step {
                    Seen::Bytes(offset, bytes) => {
                        copy[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                        gather.record(offset, bytes.len() as u64).unwrap();
                    }
                    Seen::Eof(count) => gather.eof(count).unwrap(),
                    Seen::Eod(_) => gather.eod().unwrap(),
                    Seen::Digest(_) | Seen::Hint(_) => panic!("nothing was tagged"),
                    Seen::Retired => panic!("nothing was kept"),
                }
            }
        }
    }
    assert!(gather.is_complete(), "cut at {cut}");
    assert_eq!(copy, file);
    assert_eq!(gather.received(), &RangeSet::up_to(file.len() as u64));
}

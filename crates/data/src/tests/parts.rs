//! Sinks that take whole parts: MODE E and MODE S over sockets, within bounded memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use ftp_wire::command::{Mode, Type};
use gridftp_dsi::{
    Error as StorageError, ErrorKind as StorageKind, Finish, Sink, Stat, WriteModel,
};
use mode_e::Header;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::{Kept, Memory, bare, bytes, incoming, move_file, pair, whole};
use crate::{ErrorKind, PartMemory, Wait, Watch};

fn in_parts(part: u64) -> Kept {
    Kept {
        part: Some(part),
        slow: 2,
        ..Kept::default()
    }
}

/// Data blocks of a connection, and its last mark.
fn wire(content: &[u8], blocks: &[(usize, usize)], mark: Header) -> Vec<u8> {
    let mut wire = Vec::new();
    for (at, len) in blocks {
        wire.extend(Header::data(*at as u64, *len as u64).to_bytes());
        wire.extend(&content[*at..][..*len]);
    }
    wire.extend(mark.to_bytes());
    wire
}

#[tokio::test]
async fn a_sink_of_parts_gets_whole_ones() {
    let content = bytes(3_000_000);
    for (mode, streams) in [(Mode::Stream, 1), (Mode::Extended, 4)] {
        for (part, window) in [(100_000, 100_000), (1 << 20, 4 << 20), (8 << 20, 1)] {
            let (mut from, mut to) = pair().await;
            to.options_mut().parts = window;
            let sink = in_parts(part);
            let plan = whole(mode, 3_000_000).parallelism(streams);
            let (_, got) =
                move_file(&mut from, &mut to, &Memory(content.clone()), &plan, &sink).await;
            assert!(sink.data() == content, "{mode:?}, parts of {part}");
            assert_eq!(
                (got.ranges, got.end),
                (RangeSet::up_to(3_000_000), 3_000_000)
            );
        }
    }
}

#[tokio::test]
async fn text_is_stored_in_whole_parts() {
    let (mut to, mut streams) = bare(1).await;
    let (sink, watch) = (in_parts(7), Watch::new());
    let mut plan = incoming(Mode::Stream);
    plan.ty = Type::Ascii;
    streams[0]
        .write_all(b"one\r\ntwo\r\nthree\r\nfour\r\n")
        .await
        .unwrap();
    streams.clear();
    let got = to.receive(&sink, &plan, &watch).await.unwrap();
    assert_eq!(sink.data(), b"one\ntwo\nthree\nfour\n");
    assert_eq!(got.end, 19);
}

#[tokio::test]
async fn a_late_first_part_stops_no_other_part() {
    const PART: usize = 256 << 10;
    let (mut to, mut streams) = bare(3).await;
    to.options_mut().parts = 2 * PART;
    let content = bytes(16 * PART);
    let blocks = |from: usize, to: usize| (from..to).map(|n| (n * PART, PART)).collect::<Vec<_>>();
    let [first, second, third] = [
        wire(&content, &blocks(0, 1), Header::eof(3)),
        wire(&content, &blocks(1, 8), Header::eod()),
        wire(&content, &blocks(8, 16), Header::eod()),
    ];
    let (sink, watch) = (in_parts(PART as u64), Watch::new());
    let [one, two, three] = &mut streams[..] else {
        unreachable!("three connections")
    };
    let sending = async {
        let (second, third) = tokio::join!(two.write_all(&second), three.write_all(&third));
        second.and(third).unwrap();
        while watch.received().total() < 15 * PART as u64 {
            tokio::task::yield_now().await;
        }
        one.write_all(&first).await.unwrap();
    };
    let plan = incoming(Mode::Extended);
    let (got, ()) = tokio::join!(to.receive(&sink, &plan, &watch), sending);
    assert_eq!(got.unwrap().ranges, RangeSet::up_to(16 * PART as u64));
    assert!(sink.data() == content);
}

#[tokio::test]
async fn a_peer_that_starves_the_parts_in_memory_is_told() {
    let (mut to, mut streams) = bare(2).await;
    to.options_mut().parts = 2000;
    to.options_mut().stall = Duration::from_millis(400);
    let content = bytes(10_000);
    // Each connection begins a part and continues with a later one that has no room.
    for (stream, at) in streams.iter_mut().zip([0, 2000]) {
        let part = wire(&content, &[(at, 500), (at + 4000, 500)], Header::eod());
        stream.write_all(&part).await.unwrap();
    }
    let (sink, watch) = (in_parts(1000), Watch::new());
    let error = to.receive(&sink, &incoming(Mode::Extended), &watch).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Part));
    assert!(error.to_string().contains("memory for parts"), "{error}");
    assert!(watch.received().is_empty(), "half a part was recorded");
}

#[tokio::test]
async fn parts_with_gaps_do_not_count_and_whole_ones_are_stored() {
    let content = bytes(10_000);
    let (mut to, mut streams) = bare(1).await;
    let blocks = [(0, 1500), (1600, 1400), (5000, 300)];
    let all = wire(&content, &blocks, Header::eof(1));
    streams[0].write_all(&all).await.unwrap();
    streams[0]
        .write_all(&Header::eod().to_bytes())
        .await
        .unwrap();
    let (sink, watch) = (in_parts(1000), Watch::new());
    let got = to
        .receive(&sink, &incoming(Mode::Extended), &watch)
        .await
        .unwrap();
    assert_eq!(got.ranges.to_string(), "0-1000,2000-3000,5000-5300");
}

#[tokio::test]
async fn whole_parts_are_stored_when_the_peer_is_lost() {
    let content = bytes(10_000);
    let (mut to, mut streams) = bare(1).await;
    let mut cut = wire(&content, &[(0, 3500)], Header::eod());
    cut.truncate(17 + 3200);
    let sink = Kept {
        slow: 100,
        ..in_parts(1000)
    };
    let (watch, plan) = (Watch::new(), incoming(Mode::Extended));
    let lost = async {
        streams[0].write_all(&cut).await.unwrap();
        while watch.bytes() < 3000 {
            tokio::task::yield_now().await;
        }
        streams.clear();
    };
    let (error, ()) = tokio::join!(to.receive(&sink, &plan, &watch), lost);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(watch.received().to_string(), "0-3000");
    assert!(sink.data() == content[..3000]);
}

#[tokio::test]
async fn a_restart_skips_the_parts_of_the_earlier_attempt() {
    let content = bytes(10_000);
    let (mut to, mut streams) = bare(1).await;
    streams[0].write_all(&content[1500..]).await.unwrap();
    streams.clear();
    let sink = Kept {
        earlier: Range64::new(0, 2000).into_iter().collect(),
        ..in_parts(1000)
    };
    let watch = Watch::new();
    let plan = incoming(Mode::Stream).start(1500);
    let got = to.receive(&sink, &plan, &watch).await.unwrap();
    assert_eq!(
        (got.ranges.to_string().as_str(), got.end),
        ("1500-10000", 10_000)
    );
    assert!(sink.data()[2000..] == content[2000..]);
}

#[tokio::test]
async fn a_full_store_fails_the_transfer() {
    let (mut from, mut to) = pair().await;
    let sink = Kept {
        full_at: Some(1_500_000),
        ..in_parts(1 << 20)
    };
    let (sending, receiving) = (Watch::new(), Watch::new());
    let plan = whole(Mode::Extended, 3_000_000).parallelism(2);
    let (source, taken) = (Memory(bytes(3_000_000)), incoming(Mode::Extended));
    let (_, got) = tokio::join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &taken, &receiving)
    );
    let error = got.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert_eq!(error.storage_error().unwrap().kind(), StorageKind::NoSpace);
}

/// A sink of parts with writes that wait for a signal.
struct Gated {
    kept: Kept,
    gate: Arc<Semaphore>,
    /// Bytes that wait there, of all sinks.
    waiting: Arc<AtomicU64>,
    most: u64,
}

impl Sink for Gated {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), StorageError> {
        let len = data.len() as u64;
        let waiting = self.waiting.fetch_add(len, Ordering::Relaxed) + len;
        assert!(waiting <= self.most, "{waiting} bytes are in memory");
        // An error is the open gate.
        drop(self.gate.acquire().await);
        self.waiting.fetch_sub(len, Ordering::Relaxed);
        self.kept.write_at(offset, data).await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<(), StorageError> {
        self.kept.checkpoint(held, durable).await
    }

    fn held(&self) -> RangeSet {
        self.kept.held()
    }

    fn order(&self) -> WriteModel {
        self.kept.order()
    }

    async fn finish(self, done: Finish) -> Result<Stat, StorageError> {
        self.kept.finish(done).await
    }
}

#[tokio::test]
async fn all_transfers_together_stay_within_the_memory_for_parts() {
    const PART: usize = 64 << 10;
    const MOST: u64 = 4 * PART as u64 + 1000;
    let memory = PartMemory::new(MOST);
    let (gate, waiting) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let mut transfers = Vec::new();
    for number in 1..=3 {
        let (to, mut streams) = bare(1).await;
        let mut to = to.with_part_memory(memory.of(&number.to_string()));
        let sink = Gated {
            kept: in_parts(PART as u64),
            gate: Arc::clone(&gate),
            waiting: Arc::clone(&waiting),
            most: MOST,
        };
        let content = bytes(8 * PART + number);
        transfers.push(tokio::spawn(async move {
            let (watch, plan) = (Watch::new(), incoming(Mode::Stream));
            let sending = async {
                streams[0].write_all(&content).await.unwrap();
                streams.clear();
            };
            let (got, ()) = tokio::join!(to.receive(&sink, &plan, &watch), sending);
            assert_eq!(got.unwrap().bytes, content.len() as u64);
            assert!(sink.kept.data() == content);
        }));
    }
    // Each transfer has a part, whatever the others took.
    while waiting.load(Ordering::Relaxed) < 3 * PART as u64 {
        assert!(memory.taken() <= MOST);
        tokio::task::yield_now().await;
    }
    gate.close();
    for transfer in transfers {
        transfer.await.unwrap();
    }
    assert_eq!(memory.taken(), 0);
}

#[tokio::test]
async fn a_part_larger_than_all_memory_is_refused_with_both_lengths() {
    let (to, _streams) = bare(1).await;
    let mut to = to.with_part_memory(PartMemory::new(999));
    let (sink, watch) = (in_parts(1000), Watch::new());
    let refused = to.receive(&sink, &incoming(Mode::Stream), &watch).await;
    let refused = refused.unwrap_err();
    let cause = refused.storage_error().unwrap();
    assert_eq!(cause.kind(), StorageKind::TooLarge);
    let why = std::error::Error::source(cause).unwrap().to_string();
    assert!(why.contains("1000 bytes") && why.contains("999"), "{why}");
}

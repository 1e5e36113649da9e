//! MODE S with a trailer behind more than 1 GiB, where the most bytes are held back: in order, in
//! parts, in gaps, and with blocks smaller than those.

use byte_ranges::Range64;
use ftp_wire::command::Tag;
use ftp_wire::receipt::Extent;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::{Consumer, ErrorKind};

const TAG: Option<Tag> = Some(Tag::new(1, Extent::Whole));

/// Offset at which the data begins.
const FAR: u64 = 1500 << 20;

/// Bytes of a part.
const PART: u64 = 64 << 10;

/// Size and number of the blocks of pools.
const POOLS: [(usize, usize); 3] = [(1 << 10, 4), (64 << 10, 2), (1 << 20, 1)];

/// A trailer with as many hints of another file.
fn trailer(hints: u64) -> Vec<u8> {
    let told: Vec<u8> = (0..hints).flat_map(|n| [n as u8; 16]).collect();
    [
        &told[..],
        b"GFTP-dig",
        &[7; 32],
        &hints.to_be_bytes(),
        b"GFTP-end",
    ]
    .concat()
}

/// Sends a stream in pieces of `piece` bytes to a channel that runs `receive`; returns its result and
/// the received ranges.
async fn receive<R>(
    (size, blocks): (usize, usize),
    stream: &[u8],
    piece: usize,
    receive: impl AsyncFnOnce(&mut DataChannel, ReceivePlan, &Watch) -> R,
) -> (R, RangeSet) {
    let mut to = with_pool(Pool::new(size, blocks));
    to.options_mut().ahead = 1000;
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let mut peer = TcpStream::connect(address).await.unwrap();
    peer.set_nodelay(true).unwrap();
    let watch = Watch::new();
    // The values of the bytes before are not known, so the digest is compared with none.
    watch.go_on(None);
    let feed = async {
        for piece in stream.chunks(piece) {
            peer.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(peer);
    };
    let plan = incoming(Mode::Stream).tag(TAG);
    let (got, ()) = tokio::join!(receive(&mut to, plan, &watch), feed);
    (got, watch.received())
}

/// A consumer that takes its time.
#[derive(Default)]
struct Text(Vec<u8>);

impl Consumer for Text {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        tokio::task::yield_now().await;
        self.0.extend(bytes);
        Ok(())
    }
}

#[tokio::test]
async fn a_consumer_gets_all_bytes_in_order_and_of_a_cut_stream_only_data() {
    let content = bytes(300_000);
    for (hints, pool) in [0, 2048]
        .into_iter()
        .flat_map(|n| POOLS.map(|pool| (n, pool)))
    {
        let stream = [&content[..], &trailer(hints)].concat();
        for (piece, missing) in [(777, 0), (33_000, 0), (33_000, 1), (1 << 20, 20_000)] {
            let mut text = Text::default();
            let cut = &stream[..stream.len() - missing];
            let work = async |to: &mut DataChannel, plan: ReceivePlan, watch: &Watch| {
                to.receive_chunks(&mut text, &plan.start(FAR), watch).await
            };
            let (got, _) = receive(pool, cut, piece, work).await;
            if missing == 0 {
                got.unwrap();
                assert!(text.0 == content, "{hints} {pool:?} {piece}");
            } else {
                assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed);
                assert!(content.starts_with(&text.0));
            }
        }
    }
}

/// A sink of random writes or of parts that has some bytes already.
struct Far {
    part: Option<u64>,
    held: RangeSet,
    got: Mutex<Vec<(u64, Bytes)>>,
}

impl Sink for Far {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), StorageError> {
        tokio::task::yield_now().await;
        let data = Bytes::copy_from_slice(&data);
        self.got.lock().unwrap().push((offset, data));
        Ok(())
    }

    async fn checkpoint(&self, _: &RangeSet, _: bool) -> Result<(), StorageError> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        self.held.clone()
    }

    fn order(&self) -> WriteModel {
        self.part.map_or(WriteModel::Random, WriteModel::Parts)
    }

    async fn finish(self, _: Finish) -> Result<Stat, StorageError> {
        Err(StorageError::new(StorageKind::Unsupported, "finish"))
    }
}

#[tokio::test]
async fn a_sink_gets_the_bytes_of_all_gaps() {
    let content = bytes(6 * PART as usize + 1234);
    let end = FAR + content.len() as u64;
    let part = |from: u64, to: u64| Range64::new(FAR + from * PART, FAR + to * PART);
    for more in [
        None,
        part(1, 2),
        part(1, 6),
        Range64::new(FAR + 5 * PART, end),
        Range64::new(FAR, end),
    ] {
        let mut held = RangeSet::up_to(FAR);
        held.extend(more);
        let left = held.complement(end);
        let at = |range: Range64| (range.start() - FAR) as usize..(range.end() - FAR) as usize;
        let bytes = left.iter().flat_map(|range| &content[at(range)]);
        let bytes: Vec<u8> = bytes.copied().collect();
        for (hints, pool) in [0, 2048]
            .into_iter()
            .flat_map(|n| POOLS.map(|pool| (n, pool)))
        {
            let stream = [&bytes[..], &trailer(hints)].concat();
            for (piece, part) in [(777, None), (33_000, Some(PART)), (1 << 20, Some(PART))] {
                let sink = Far {
                    part,
                    held: held.clone(),
                    got: Mutex::default(),
                };
                let work = async |to: &mut DataChannel, plan: ReceivePlan, watch: &Watch| {
                    to.receive(&sink, &plan.held(held.clone()), watch).await
                };
                let (got, received) = receive(pool, &stream, piece, work).await;
                got.unwrap();
                assert_eq!(received, left, "{more:?} {hints} {pool:?} {piece}");
                let mut all = content.clone();
                left.iter().for_each(|range| all[at(range)].fill(0));
                for (offset, data) in sink.got.lock().unwrap().iter() {
                    let from = (offset - FAR) as usize;
                    all[from..from + data.len()].copy_from_slice(data);
                }
                assert!(all == content, "{more:?} {hints} {pool:?} {piece}");
            }
        }
    }
}

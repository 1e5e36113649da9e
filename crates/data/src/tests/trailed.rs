//! MODE S with a trailer: the digest behind the data, without which it was cut off.

use byte_ranges::Range64;
use ftp_wire::command::Tag;
use ftp_wire::receipt::Extent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::trailer::Holder;
use crate::{Chunks, Earlier, ErrorKind};

const TAG: Option<Tag> = Some(Tag::new(1, Extent::Whole));

fn taken() -> ReceivePlan {
    incoming(Mode::Stream).tag(TAG)
}

/// A trailer without hints, as the wire has it.
fn trailer(digest: Option<[u8; 32]>) -> Vec<u8> {
    let begin = if digest.is_some() {
        b"GFTP-dig"
    } else {
        b"GFTP-nil"
    };
    let digest = digest.unwrap_or_default();
    [&begin[..], &digest, &[0; 8], b"GFTP-end"].concat()
}

fn digest(content: &[u8]) -> [u8; 32] {
    blake3::hash(content).into()
}

/// Receives a stream that a peer sends in pieces of so many bytes.
async fn receive(stream: &[u8], piece: usize, sink: &Kept) -> (Result<Received>, Watch) {
    receive_rest(stream, piece, sink, RangeSet::new()).await
}

/// As [`receive`], with the ranges `held` before.
async fn receive_rest(
    stream: &[u8],
    piece: usize,
    sink: &Kept,
    held: RangeSet,
) -> (Result<Received>, Watch) {
    let (mut to, mut streams) = bare(1).await;
    let mut peer = streams.remove(0);
    peer.set_nodelay(true).unwrap();
    let watch = Watch::new();
    let plan = taken().held(held);
    let send = async {
        for piece in stream.chunks(piece) {
            peer.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(peer);
    };
    let ((), got) = tokio::join!(send, to.receive(sink, &plan, &watch));
    assert!(!to.is_set());
    (got, watch)
}

#[tokio::test]
async fn both_ends_prove_files_of_every_size() {
    for len in [0, 1, 55, 56, 57, (64 << 10) - 56, 64 << 10, 3_000_001] {
        let content = bytes(len);
        let plan = whole(Mode::Stream, len as u64).tag(TAG);
        for sink in [
            Kept::default(),
            Kept {
                slow: 3,
                ..Kept::default()
            },
            Kept {
                sequential: true,
                ..Kept::default()
            },
            Kept {
                part: Some(64 << 10),
                ..Kept::default()
            },
        ] {
            let (mut from, mut to) = pair().await;
            let (sending, receiving) = (Watch::new(), Watch::new());
            let (source, incoming) = (Disk::new(&content), taken());
            let (sent, got) = tokio::try_join!(
                from.send(&source, &plan, &sending),
                to.receive(&sink, &incoming, &receiving)
            )
            .unwrap();
            assert!(sink.data() == content, "{len}");
            assert_eq!((sent.bytes, got.bytes), (len as u64, len as u64));
            assert_eq!(got.ranges, RangeSet::up_to(len as u64));
            let receipts = [&sending, &receiving].map(|watch| watch.receipt().unwrap());
            assert_eq!(receipts[0], receipts[1]);
            assert_eq!(receipts[0].blake3, Some(digest(&content)), "{len}");
            assert_eq!(receiving.told_digest(), receiving.file_digest());
        }
    }
}

#[tokio::test]
async fn full_blocks_are_written_up_to_the_end_of_a_page() {
    let content = bytes(3_000_001);
    let (mut from, mut to) = pair().await;
    let (sending, receiving) = (Watch::new(), Watch::new());
    let plan = whole(Mode::Stream, 3_000_001).tag(TAG);
    let (source, incoming, sink) = (Disk::new(&content), taken(), Writes::default());
    tokio::try_join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &incoming, &receiving)
    )
    .unwrap();
    let writes = sink.0.into_inner().unwrap();
    // How much comes at once is a matter of time, but a full block ends with a page.
    let most = |at| Holder::data(at, Holder::fill(at, 64 << 10));
    for (at, len) in &writes {
        assert!(*len <= most(*at), "{len} at {at}");
    }
    let is_full = |(at, len): &(u64, usize)| *len == most(*at);
    assert!(writes.iter().any(is_full), "{writes:?}");
}

#[tokio::test]
async fn the_trailer_is_behind_the_bytes_of_the_file() {
    for len in [0, 10, 300_000] {
        let content = bytes(len);
        let mut from = channel();
        let address = from.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        let mut peer = TcpStream::connect(address).await.unwrap();
        let (source, watch) = (Memory(content.clone()), Watch::new());
        let plan = whole(Mode::Stream, len as u64).tag(TAG);
        let read = async {
            let mut got = Vec::new();
            peer.read_to_end(&mut got).await.unwrap();
            got
        };
        let (sent, got) = tokio::join!(from.send(&source, &plan, &watch), read);
        sent.unwrap();
        let expected = [&content[..], &trailer(Some(digest(&content)))].concat();
        assert!(got == expected, "{len}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_off_is_no_file_and_leaves_its_bytes() {
    let content = bytes(100_000);
    let whole = [&content[..], &trailer(Some(digest(&content)))].concat();
    for missing in [1, 40, 56, 57, 60_000, 100_000, 100_055, 100_056] {
        let cut = &whole[..whole.len() - missing];
        let sink = Kept::default();
        let (got, watch) = receive(cut, 7000, &sink).await;
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed, "{missing}");
        let data = cut.len().saturating_sub(56);
        assert!(sink.data() == content[..data], "{missing}");
        assert_eq!(watch.received(), RangeSet::up_to(data as u64));
    }
}

#[tokio::test]
async fn a_stream_may_come_in_pieces_of_any_length() {
    let content = bytes(300);
    let stream = [&content[..], &trailer(Some(digest(&content)))].concat();
    for piece in [1, 55, 56, 57, 355] {
        let sink = Kept::default();
        let (got, _) = receive(&stream, piece, &sink).await;
        got.unwrap();
        assert!(sink.data() == content, "{piece}");
    }
}

#[tokio::test]
async fn data_that_was_changed_is_corrupt_and_other_ends_are_none() {
    let content = bytes(100_000);
    let mut changed = content.clone();
    changed[70_000] ^= 1;
    let good = trailer(Some(digest(&content)));
    let mut other = good.clone();
    other[3] ^= 1;
    let mut tail = good.clone();
    tail[55] ^= 1;
    for (data, end, kind) in [
        (&content, &good, None),
        (&content, &trailer(None), None),
        (&changed, &good, Some(ErrorKind::Corrupt)),
        (&content, &other, Some(ErrorKind::Closed)),
        (&content, &tail, Some(ErrorKind::Closed)),
        (&content, &Vec::new(), Some(ErrorKind::Closed)),
    ] {
        let stream = [&data[..], end].concat();
        let (got, watch) = receive(&stream, 1 << 20, &Kept::default()).await;
        assert_eq!(got.err().map(|error| error.kind()), kind);
        if kind.is_none() {
            let receipt = watch.receipt().unwrap();
            assert_eq!(receipt.blake3, Some(digest(&content)));
        }
        assert_eq!(watch.differing(), None);
    }
}

/// Sends the rest of `content` to a sink with the first `held` bytes, of which each end knows the
/// values or not; returns the receipts.
async fn go_on(content: &[u8], held: u64, knows: [bool; 2]) -> (Result<Received>, [Watch; 2]) {
    let (mut from, mut to) = pair().await;
    let here = RangeSet::up_to(held);
    let sink = Kept {
        data: Mutex::new(content.to_vec()),
        groups: Some(Vec::new()),
        ..Kept::default()
    };
    let watches = [Watch::new(), Watch::new()];
    for (watch, knows) in watches.iter().zip(knows) {
        let earlier = match knows {
            true => Earlier::of_sink(&sink, &here).await,
            false => None,
        };
        watch.go_on(earlier);
    }
    let rest = Range64::new(held, content.len() as u64);
    let plan = SendPlan::new(Mode::Stream, Type::Image, rest.into_iter().collect()).tag(TAG);
    let incoming = taken().start(held);
    let source = Disk::new(content);
    let [sending, receiving] = &watches;
    let (sent, got) = tokio::join!(
        from.send(&source, &plan, sending),
        to.receive(&sink, &incoming, receiving)
    );
    sent.unwrap();
    assert!(sink.data() == content);
    (got, watches)
}

#[tokio::test]
async fn a_restart_proves_the_whole_file_where_the_bytes_before_it_are_known() {
    let content = bytes((2 << 20) + 777);
    for held in [5, 1 << 20, (1 << 20) + 9, content.len() as u64] {
        for knows in [[true, true], [true, false], [false, true], [false, false]] {
            let (got, watches) = go_on(&content, held, knows).await;
            got.unwrap();
            let whole = Some(digest(&content));
            let known = watches.each_ref().map(|watch| watch.receipt().unwrap());
            let expected = knows.map(|knows| whole.filter(|_| knows));
            assert_eq!(known.map(|receipt| receipt.blake3), expected, "{held}");
            assert_eq!(watches[1].told_digest().is_some(), knows[0]);
        }
    }
}

/// Number of bytes of a group of a digest.
const MIB: u64 = digest_tree::GROUP;

/// The ranges of these offsets.
fn ranges(ranges: &[(u64, u64)]) -> RangeSet {
    let range = |(start, end): &(u64, u64)| Range64::new(*start, *end);
    ranges.iter().filter_map(range).collect()
}

/// The bytes of `content` that are not in `held`.
fn rest_of(content: &[u8], held: &RangeSet) -> Vec<u8> {
    let left = held.complement(content.len() as u64);
    let bytes = |range: Range64| &content[range.start() as usize..range.end() as usize];
    left.iter().flat_map(bytes).copied().collect()
}

#[tokio::test]
async fn a_restart_brings_the_bytes_between_those_that_are_held() {
    let content = bytes((3 << 20) + 777);
    let size = content.len() as u64;
    for held in [
        ranges(&[(0, 5), (70, 2 * MIB), (2 * MIB + 1, size)]),
        ranges(&[(0, MIB), (2 * MIB, 3 * MIB)]),
        ranges(&[(100, 200), (64 << 10, 128 << 10)]),
        ranges(&[(0, size)]),
    ] {
        let (mut from, mut to) = pair().await;
        for slow in [0, 3] {
            // Where it is held, the sink has other bytes than the source.
            let sink = Kept {
                data: Mutex::new(vec![1; content.len()]),
                slow,
                ..Kept::default()
            };
            let plan = SendPlan::new(Mode::Stream, Type::Image, held.complement(size)).tag(TAG);
            let (sending, receiving) = (Watch::new(), Watch::new());
            for watch in [&sending, &receiving] {
                watch.go_on(None);
            }
            let (source, incoming) = (Disk::new(&content), taken().held(held.clone()));
            let (_, got) = tokio::try_join!(
                from.send(&source, &plan, &sending),
                to.receive(&sink, &incoming, &receiving)
            )
            .unwrap();
            assert_eq!(got.ranges, held.complement(size));
            let mut expected = content.clone();
            for range in &held {
                expected[range.start() as usize..range.end() as usize].fill(1);
            }
            assert!(sink.data() == expected, "{held:?}");
            (from, to) = pair().await;
        }
    }
}

#[tokio::test]
async fn a_stream_with_gaps_may_come_in_pieces_of_any_length_and_be_cut_off() {
    let content = bytes(700);
    let held = ranges(&[(10, 20), (90, 91), (200, 600)]);
    let (rest, left) = (rest_of(&content, &held), held.complement(700));
    let stream = [&rest[..], &trailer(None)].concat();
    for piece in [1, 10, 55, 56, 57, 300, 355] {
        for missing in [0, 1, 56, 57, 156, 157, 250] {
            let sink = Kept {
                data: Mutex::new(vec![0; 700]),
                ..Kept::default()
            };
            let cut = &stream[..stream.len() - missing];
            let (got, watch) = receive_rest(cut, piece, &sink, held.clone()).await;
            let mut expected = left.clone();
            if missing > 0 {
                assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed);
                // Bytes in front of the last gap cannot be a trailer.
                let (at, end) = (cut.len() as u64, rest.len() as u64);
                let sure = at.saturating_sub(56).max(at.min(end - 100));
                expected = RangeSet::new();
                let mut left = left.clone();
                let mut bytes = sure;
                while let Some(range) = left.take_first(bytes).filter(|_| bytes > 0) {
                    bytes -= range.len();
                    expected.insert(range);
                }
            } else {
                got.unwrap();
            }
            assert_eq!(watch.received(), expected, "{piece} {missing}");
            for range in &expected {
                let range = range.start() as usize..range.end() as usize;
                assert_eq!(sink.data()[range.clone()], content[range]);
            }
        }
    }
}

#[tokio::test]
async fn a_copy_that_differs_goes_on_with_the_groups_that_agree() {
    let content = bytes((5 << 20) + 777);
    let size = content.len() as u64;
    let mut changed = content.clone();
    // In the second group and in the short one at the end.
    changed[(1 << 20) + 5] ^= 1;
    changed[(5 << 20) + 776] ^= 1;
    let bad = ranges(&[(MIB, 2 * MIB), (5 * MIB, size)]);

    let (mut from, mut to) = pair().await;
    let (sending, receiving, sink) = (Watch::new(), Watch::new(), Kept::default());
    let (source, incoming) = (Disk::new(&content), taken());
    let plan = whole(Mode::Stream, size).tag(TAG);
    // The hints of the content that was meant, behind other bytes.
    let (mut told, mut peer) = (channel(), bare(1).await);
    let address = told.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let mut stream = Vec::new();
    let mut reader = TcpStream::connect(address).await.unwrap();
    let (sent, read) = tokio::join!(
        told.send(&source, &plan, &sending),
        reader.read_to_end(&mut stream)
    );
    sent.unwrap();
    read.unwrap();
    assert_eq!(stream.len() as u64, size + 56 + 6 * 16);
    stream[..changed.len()].copy_from_slice(&changed);
    let write = async {
        peer.1[0].write_all(&stream).await.unwrap();
        drop(peer.1);
    };
    let (got, ()) = tokio::join!(peer.0.receive(&sink, &incoming, &receiving), write);
    assert_eq!(got.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(receiving.received(), RangeSet::up_to(size));
    assert_eq!(receiving.differing(), Some(bad.clone()));

    let held = bad.complement(size);
    let groups = receiving.take_groups();
    let sink = Kept {
        groups: Some(groups),
        ..sink
    };
    let (sending, receiving) = (Watch::new(), Watch::new());
    for watch in [&sending, &receiving] {
        watch.go_on(Earlier::of_sink(&sink, &held).await);
    }
    let plan = SendPlan::new(Mode::Stream, Type::Image, bad.clone()).tag(TAG);
    let incoming = taken().held(held);
    let (sent, got) = tokio::try_join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &incoming, &receiving)
    )
    .unwrap();
    assert_eq!((sent.bytes, got.ranges), (MIB + 777, bad));
    assert!(sink.data() == content);
    let receipts = [&sending, &receiving].map(|watch| watch.file_digest());
    let expected = Some(blake3::hash(&content).to_string());
    assert_eq!(receipts, [expected.clone(), expected]);
}

/// A sequence of bytes of unknown length.
struct Three(u8);

impl Chunks for Three {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        self.0 += 1;
        Ok((self.0 <= 3).then(|| Bytes::from(vec![self.0; 1000])))
    }
}

#[tokio::test]
async fn bytes_of_unknown_length_have_a_trailer_too() {
    let (mut from, mut to) = pair().await;
    let (sending, receiving) = (Watch::new(), Watch::new());
    let plan = SendPlan::new(Mode::Stream, Type::Image, RangeSet::new()).tag(TAG);
    let (sink, incoming) = (Kept::default(), taken());
    let mut chunks = Three(0);
    tokio::try_join!(
        from.send_chunks(&mut chunks, &plan, &sending),
        to.receive(&sink, &incoming, &receiving)
    )
    .unwrap();
    let content: Vec<u8> = (1..=3).flat_map(|n| [n; 1000]).collect();
    assert_eq!(sink.data(), content);
    let receipts = [&sending, &receiving].map(|watch| watch.receipt().unwrap().blake3);
    assert_eq!(receipts, [Some(digest(&content)); 2]);
}

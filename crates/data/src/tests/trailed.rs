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

/// A trailer as the wire has it.
fn trailer(digest: Option<[u8; 32]>) -> Vec<u8> {
    let begin = if digest.is_some() {
        b"GFTP-dig"
    } else {
        b"GFTP-nil"
    };
    [&begin[..], &digest.unwrap_or_default(), b"GFTP-end"].concat()
}

fn digest(content: &[u8]) -> [u8; 32] {
    blake3::hash(content).into()
}

/// Receives a stream that a peer sends in pieces of so many bytes.
async fn receive(stream: &[u8], piece: usize, sink: &Kept) -> (Result<Received>, Watch) {
    let (mut to, mut streams) = bare(1).await;
    let mut peer = streams.remove(0);
    peer.set_nodelay(true).unwrap();
    let watch = Watch::new();
    let plan = taken();
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
    for len in [0, 1, 47, 48, 49, (64 << 10) - 48, 64 << 10, 3_000_001] {
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
    let most = |at| Holder::data(Holder::fill(at, 64 << 10));
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
    for missing in [1, 40, 48, 49, 60_000, 100_000, 100_047, 100_048] {
        let cut = &whole[..whole.len() - missing];
        let sink = Kept::default();
        let (got, watch) = receive(cut, 7000, &sink).await;
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed, "{missing}");
        let data = cut.len().saturating_sub(48);
        assert!(sink.data() == content[..data], "{missing}");
        assert_eq!(watch.received(), RangeSet::up_to(data as u64));
    }
}

#[tokio::test]
async fn a_stream_may_come_in_pieces_of_any_length() {
    let content = bytes(300);
    let stream = [&content[..], &trailer(Some(digest(&content)))].concat();
    for piece in [1, 47, 48, 49, 347] {
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
    tail[47] ^= 1;
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

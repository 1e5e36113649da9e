//! Tagged transfers: data never counts for another file, whether earlier files failed or not.

use byte_ranges::Range64;
use digest_tree::{Piece, Tree};
use ftp_wire::command::Tag;
use ftp_wire::receipt::{Extent, HEAD};
use mode_e::Header;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::{Earlier, ErrorKind};

fn tagged(tag: u64) -> ReceivePlan {
    incoming(Mode::Extended).tag(Some(Tag::new(tag, Extent::Head)))
}

/// The wire of one file on two connections.
fn wire(tag: Option<u64>, file: &[u8]) -> [Vec<u8>; 2] {
    let (a, b) = file.split_at(file.len() / 2);
    [(0, a, Header::eof(2)), (a.len(), b, Header::eod())].map(|(offset, part, end)| {
        let mut wire = Vec::new();
        wire.extend(
            tag.into_iter()
                .flat_map(|tag| Header::of_tag(tag).to_bytes()),
        );
        wire.extend(Header::data(offset as u64, part.len() as u64).to_bytes());
        wire.extend(part);
        wire.extend(end.to_bytes());
        wire
    })
}

#[tokio::test]
async fn abandoned_and_refused_files_do_not_affect_the_next_ones() {
    let (mut to, mut streams) = bare(2).await;
    let files: Vec<_> = (0..60_usize).map(|n| vec![n as u8; 3000]).collect();
    for (n, file) in files.iter().enumerate() {
        for (stream, wire) in streams.iter_mut().zip(wire(Some(n as u64), file)) {
            stream.write_all(&wire).await.unwrap();
        }
    }
    for (n, file) in files.iter().enumerate() {
        let (watch, plan) = (Watch::new(), tagged(n as u64));
        match n % 4 {
            // Refused before its data was read.
            0 | 1 => {}
            2 => {
                let full_at = Some((n * 40) as u64);
                let full = Kept {
                    full_at,
                    ..Kept::default()
                };
                let got = to.receive(&full, &plan, &watch).await;
                assert_eq!(got.unwrap_err().kind(), ErrorKind::Storage);
                assert!(to.is_cached(), "the connections are kept");
            }
            _ => {
                let sink = Kept::default();
                to.receive(&sink, &plan, &watch).await.unwrap();
                assert!(&sink.data() == file, "file {n}");
            }
        }
    }
}

#[tokio::test]
async fn data_of_another_transfer_fails_and_ends_the_channel() {
    for (sent, wanted, kind) in [
        (None, Some(3), ErrorKind::Closed),
        (Some(4), Some(3), ErrorKind::Closed),
        (Some(3), None, ErrorKind::Protocol),
    ] {
        let (mut to, mut streams) = bare(2).await;
        for (stream, wire) in streams.iter_mut().zip(wire(sent, b"another")) {
            stream.write_all(&wire).await.unwrap();
        }
        let (sink, watch) = (Kept::default(), Watch::new());
        let plan =
            incoming(Mode::Extended).tag(wanted.map(|wanted| Tag::new(wanted, Extent::Head)));
        let got = to.receive(&sink, &plan, &watch).await;
        assert_eq!(got.unwrap_err().kind(), kind);
        assert!(!to.is_set());
        assert_eq!(sink.data(), b"");
    }
}

#[tokio::test]
async fn both_ends_have_the_same_receipt() {
    let head = HEAD as usize;
    let lengths = [0, 1, 1000, head, head + 1, 600_000, 3_000_000];
    let extents = [Extent::Head, Extent::Whole].into_iter();
    let cases = extents.flat_map(|extent| lengths.map(|len| (extent, len)));
    for (number, (extent, len)) in (0..).zip(cases) {
        let (content, tag) = (bytes(len), Some(Tag::new(number, extent)));
        for streams in [1, 4] {
            let plan = whole(Mode::Extended, len as u64)
                .parallelism(streams)
                .tag(tag);
            let mut told = Vec::new();
            for sequential in [false, true] {
                let (mut from, mut to) = pair().await;
                let (sending, receiving) = (Watch::new(), Watch::new());
                let sink = Kept {
                    sequential,
                    ..Kept::default()
                };
                let taken = incoming(Mode::Extended).tag(tag);
                let source = Disk::new(&content);
                tokio::try_join!(
                    from.send(&source, &plan, &sending),
                    to.receive(&sink, &taken, &receiving)
                )
                .unwrap();
                assert!(sink.data() == content);
                told.extend([sending.receipt().unwrap(), receiving.receipt().unwrap()]);
            }
            let proven = match extent {
                Extent::Head => &content[..len.min(head)],
                Extent::Whole => &content,
            };
            let digest = blake3::hash(proven).into();
            for receipt in told {
                assert_eq!((receipt.bytes, receipt.blake3), (len as u64, Some(digest)));
            }
        }
    }
    assert_eq!(Watch::new().receipt(), None);
}

#[tokio::test]
async fn data_with_another_digest_is_corrupt_and_the_channel_stays() {
    let file = b"a file";
    for (sent, corrupt) in [(&file[..], false), (b"A file", true)] {
        let digest = Header::of_digest(blake3::hash(file).into());
        let (mut to, mut streams) = bare(1).await;
        let mut wire = Header::of_tag(1).to_bytes().to_vec();
        wire.extend(Header::data(0, file.len() as u64).to_bytes());
        wire.extend(sent);
        wire.extend(digest.map(Header::to_bytes).concat());
        wire.extend(Header::eof(1).to_bytes());
        streams[0].write_all(&wire).await.unwrap();
        let (sink, watch) = (Kept::default(), Watch::new());
        let plan = incoming(Mode::Extended).tag(Some(Tag::new(1, Extent::Whole)));
        let got = to.receive(&sink, &plan, &watch).await;
        let kind = got.err().map(|error| error.kind());
        assert_eq!(kind, corrupt.then_some(ErrorKind::Corrupt));
        assert!(to.is_set());
    }
}

#[tokio::test]
async fn the_sections_of_a_corrupt_file_tell_the_bytes_that_differ() {
    const LEN: usize = (3 << 20) + 5;
    let file = bytes(LEN);
    let mut tree = Tree::new();
    tree.insert(Piece::of(0, &file));
    let sections = tree.sections(LEN as u64).unwrap();
    let mut sent = file.clone();
    sent[1 << 20] ^= 1;
    for told in [sections.len(), sections.len() - 1] {
        let (mut to, mut streams) = bare(1).await;
        let mut wire = Header::of_tag(1).to_bytes().to_vec();
        wire.extend(Header::data(0, LEN as u64).to_bytes());
        wire.extend(&sent);
        let digest = Header::of_digest(blake3::hash(&file).into());
        let first = |value: &[u8; 32]| *value.first_chunk().unwrap();
        let values = sections.iter().take(told).map(first).map(Header::of_hint);
        wire.extend(digest.into_iter().chain(values).flat_map(Header::to_bytes));
        wire.extend(Header::eof(1).to_bytes());
        let (sink, watch) = (Kept::default(), Watch::new());
        let plan = incoming(Mode::Extended).tag(Some(Tag::new(1, Extent::Whole)));
        let (sent, got) = tokio::join!(
            streams[0].write_all(&wire),
            to.receive(&sink, &plan, &watch)
        );
        sent.unwrap();
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Corrupt);
        let bad = Range64::new(1 << 20, 2 << 20).into_iter().collect();
        let known = told == sections.len();
        assert_eq!(watch.differing(), known.then_some(bad));
    }
}

#[tokio::test]
async fn a_refused_file_is_cut_short_and_the_next_one_follows() {
    let (mut from, mut to) = pair().await;
    let (refused, next) = (Disk::zeros(1 << 40), bytes(1000));
    let cut = Watch::new();
    let plan = whole(Mode::Extended, 1 << 40)
        .parallelism(2)
        .tag(Some(Tag::new(1, Extent::Head)));
    let send = async {
        let cutting = async {
            while cut.bytes() == 0 {
                tokio::task::yield_now().await;
            }
            cut.cut();
        };
        let (sent, ()) = tokio::join!(from.send(&refused, &plan, &cut), cutting);
        assert!(sent.unwrap().bytes < 1 << 30);
        let plan = whole(Mode::Extended, 1000)
            .parallelism(2)
            .tag(Some(Tag::new(2, Extent::Head)));
        let watch = Watch::new();
        from.send(&Memory(next.clone()), &plan, &watch).await
    };
    let (sink, watch) = (Kept::default(), Watch::new());
    let plan = tagged(2);
    let (sent, got) = tokio::join!(send, to.receive(&sink, &plan, &watch));
    sent.unwrap();
    got.unwrap();
    assert_eq!(sink.data(), next);
}

/// A peer with several requested files continues with the next one over new connections when the
/// old ones break: it cannot know which part of the previous file was lost.
#[tokio::test]
async fn the_file_behind_a_lost_one_is_refused_if_every_connection_needs_a_mark() {
    for kept in [false, true] {
        let mut to = channel();
        to.options_mut().marks_from_all = true;
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        let connect = async || TcpStream::connect(address).await.unwrap();
        let mut streams = vec![connect().await, connect().await];
        if kept {
            for (stream, wire) in streams.iter_mut().zip(wire(None, b"first")) {
                stream.write_all(&wire).await.unwrap();
            }
            let sink = Kept::default();
            let plan = incoming(Mode::Extended);
            to.receive(&sink, &plan, &Watch::new()).await.unwrap();
            assert_eq!(sink.data(), b"first");
        }
        // The second file is lost with its connections, and the third one arrives.
        drop(streams);
        let mut streams = [connect().await, connect().await];
        for (stream, wire) in streams.iter_mut().zip(wire(None, b"third")) {
            stream.write_all(&wire).await.unwrap();
        }
        let plan = incoming(Mode::Extended);
        let got = to.receive(&Kept::default(), &plan, &Watch::new()).await;
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed, "kept: {kept}");
        assert!(!to.is_set(), "the channel must be set up again");
    }
}

/// A sender gives up opening a connection that its peer has accepted: the tag tells the others.
#[tokio::test]
async fn a_new_connection_without_a_header_does_not_fail_a_tagged_file() {
    for resets in [false, true] {
        let (mut to, mut streams) = bare(3).await;
        to.options_mut().marks_from_all = true;
        let given_up = streams.pop().unwrap();
        if resets {
            given_up.set_zero_linger().unwrap();
        }
        drop(given_up);
        for (stream, wire) in streams.iter_mut().zip(wire(Some(1), b"first")) {
            stream.write_all(&wire).await.unwrap();
        }
        let sink = Kept::default();
        to.receive(&sink, &tagged(1), &Watch::new()).await.unwrap();
        assert_eq!(sink.data(), b"first");
        // A connection that served a file has to end the next one too.
        drop(streams.pop());
        let sink = Kept::default();
        let got = to.receive(&sink, &tagged(2), &Watch::new()).await;
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed);
    }
}

/// Its data may have been lost with it: nobody connects any more, as the marks of the others tell.
#[tokio::test(start_paused = true)]
async fn a_new_connection_that_the_marks_of_a_tagged_file_miss_fails_it_soon() {
    let (mut to, mut streams) = bare(2).await;
    let long = Duration::from_secs(3600);
    to.options_mut().marks_from_all = true;
    to.options_mut().open_within = long;
    to.options_mut().stall = long;
    let lost = streams.pop().unwrap();
    lost.set_zero_linger().unwrap();
    drop(lost);
    let [wire, _] = wire(Some(1), b"first");
    streams[0].write_all(&wire).await.unwrap();
    let (sink, begun) = (Kept::default(), tokio::time::Instant::now());
    let got = to.receive(&sink, &tagged(1), &Watch::new()).await;
    assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// Receives `ranges` of `content` into `sink`, which has the rest, while both ends know as much of
/// that as `knows` says; returns the receipts and the result.
async fn go_on(
    (content, sink): (&[u8], &Kept),
    held: &RangeSet,
    knows: [Option<&[GroupValue]>; 2],
) -> (Result<Received>, [Watch; 2]) {
    let tag = Some(Tag::new(1, Extent::Whole));
    let (mut from, mut to) = pair().await;
    let watches = [Watch::new(), Watch::new()];
    for (watch, groups) in watches.iter().zip(knows) {
        let known = Kept {
            data: Mutex::new(content.to_vec()),
            groups: groups.map(<[_]>::to_vec),
            ..Kept::default()
        };
        let earlier = Earlier::of_sink(&known, held).await;
        if earlier.is_some() || !held.is_empty() {
            let most = (2 * held.len()) << 20;
            assert!(known.all_read.into_inner() <= most, "the groups are read");
            watch.go_on(earlier);
        }
    }
    let missing = held.complement(content.len() as u64);
    let plan = SendPlan::new(Mode::Extended, Type::Image, missing)
        .parallelism(3)
        .tag(tag);
    let taken = incoming(Mode::Extended).tag(tag).start(held.first_hole());
    let source = Disk::new(content);
    let [sending, receiving] = &watches;
    let (sent, received) = tokio::join!(
        from.send(&source, &plan, sending),
        to.receive(sink, &taken, receiving)
    );
    sent.unwrap();
    (received, watches)
}

#[tokio::test]
async fn a_storage_may_hash_the_ends_of_ranges_by_itself() {
    let content = bytes(3 << 20);
    let held = [Range64::new(5, 300_000), Range64::new(1 << 20, 3 << 20)];
    let held: RangeSet = held.into_iter().flatten().collect();
    let earlier = async |wrong: &'static [u8]| {
        let sink = Kept {
            data: Mutex::new(content.clone()),
            groups: Some(Vec::new()),
            hashes: Some(wrong),
            ..Kept::default()
        };
        let earlier = Earlier::of_sink(&sink, &held).await.unwrap();
        assert_eq!(sink.all_read.into_inner(), 0);
        earlier
    };
    let mut hashed = earlier(&[]).await;
    assert!(hashed.is_known());
    for rest in held.complement(content.len() as u64).iter() {
        let bytes = rest.start() as usize..rest.end() as usize;
        hashed.tree.insert(Piece::of(rest.start(), &content[bytes]));
    }
    let mut whole = Tree::new();
    whole.insert(Piece::of(0, &content));
    let size = content.len() as u64;
    assert_eq!(
        hashed.tree.digest(size).unwrap(),
        whole.digest(size).unwrap()
    );
    assert!(!earlier(&[0]).await.is_known());
}

#[tokio::test]
async fn a_transfer_that_goes_on_proves_the_whole_file() {
    const GROUP: usize = 1 << 20;
    let content = bytes(6 * GROUP + 777);
    let sink = || Kept {
        data: Mutex::new(content.clone()),
        ..Kept::default()
    };
    // An empty record has all values taken.
    let (received, [_, all]) =
        go_on((&content, &sink()), &RangeSet::new(), [None, Some(&[])]).await;
    received.unwrap();
    let mut groups = all.take_groups();
    groups.sort_unstable();
    assert_eq!(groups.len(), 6);
    let held: RangeSet = [(0, 2 * GROUP + 5), (3 * GROUP - 9, 5 * GROUP + 1)]
        .into_iter()
        .filter_map(|(start, end)| Range64::new(start as u64, end as u64))
        .collect();
    let of_held = [groups[0], groups[1], groups[3], groups[4]];
    let digest = Some(blake3::hash(&content).into());
    // The first group alone is missing: its digest is not that of the file.
    let tail: RangeSet = Range64::new(GROUP as u64, content.len() as u64)
        .into_iter()
        .collect();
    let of_tail = &groups[1..];
    for knows in [[None, Some(of_tail)], [None, None]] {
        let (received, watches) = go_on((&content, &sink()), &tail, knows).await;
        received.unwrap();
        let receipts = watches.each_ref().map(|watch| watch.receipt().unwrap());
        let known = knows.map(|groups| groups.and(digest));
        assert_eq!(receipts.map(|receipt| receipt.blake3), known);
    }
    for (knows, known) in [
        ([None, Some(&of_held[..])], [None, digest]),
        ([Some(&of_held[..]), Some(&of_held)], [digest, digest]),
        ([None, None], [None, None]),
    ] {
        let (received, watches) = go_on((&content, &sink()), &held, knows).await;
        received.unwrap();
        let text = |digest: [u8; 32]| blake3::Hash::from(digest).to_string();
        let texts = known.map(|digest| digest.map(text));
        assert_eq!(watches.each_ref().map(Watch::file_digest), texts);
        let receipts = watches.each_ref().map(|watch| watch.receipt().unwrap());
        assert_eq!(receipts.map(|receipt| receipt.blake3), known);
        // The others are those of the record, or lack their beginning.
        let new = watches[1].take_groups();
        let number = |(number, _): &GroupValue| *number;
        let mut new: Vec<_> = new.iter().map(number).collect();
        new.sort_unstable();
        let expected: &[u64] = if known[1].is_some() { &[2, 5] } else { &[] };
        assert_eq!(new, expected);
    }
    // A wrong value is found by the sender's digest.
    let mut wrong = of_held;
    wrong[2].1[31] ^= 1;
    let (received, _) = go_on((&content, &sink()), &held, [Some(&of_held), Some(&wrong)]).await;
    assert_eq!(received.unwrap_err().kind(), ErrorKind::Corrupt);
}

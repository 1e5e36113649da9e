//! Peers that lie, vanish or stall, and uninvited ones.

use std::net::{IpAddr, Ipv4Addr};

use mode_e::{Flags, HEADER_LEN, Header};
use tokio::io::AsyncWriteExt;

use super::*;
use crate::{Error, ErrorKind, Wait};

/// Receives from bare connections, which have sent their bytes and stay open or (`true`) close.
async fn outcome(wires: &[(Vec<u8>, bool)]) -> (Result<Received>, Watch, Kept) {
    let (mut to, streams) = bare(wires.len()).await;
    let mut open = Vec::new();
    for (mut stream, (wire, close)) in streams.into_iter().zip(wires) {
        stream.write_all(wire).await.unwrap();
        if !close {
            open.push(stream);
        }
    }
    let (sink, watch) = (Kept::default(), Watch::new());
    let got = to.receive(&sink, &incoming(Mode::Extended), &watch).await;
    assert_eq!(
        to.is_set(),
        got.is_ok(),
        "an error in mid-transfer destroys the channel"
    );
    (got, watch, sink)
}

async fn error(wires: &[(Vec<u8>, bool)]) -> Error {
    outcome(wires).await.0.unwrap_err()
}

fn wire(blocks: &[Header]) -> Vec<u8> {
    let mut wire = Vec::new();
    for block in blocks {
        wire.extend(block.to_bytes());
        if !block.flags.has(Flags::EOF) && block.count < 1 << 20 {
            wire.extend(vec![b'x'; block.count as usize]);
        }
    }
    wire
}

#[tokio::test]
async fn absurd_lengths_are_refused_at_the_header() {
    for (header, kind) in [
        (Header::data(0, u64::MAX), ErrorKind::Limit),
        (Header::data(0, 1 << 63), ErrorKind::Limit),
        (Header::data(u64::MAX, 1), ErrorKind::Limit),
        (Header::data(1 << 62, 1 << 62), ErrorKind::Limit),
        (
            Header::new(Flags::from_bits(0x01), 1, 0),
            ErrorKind::Protocol,
        ),
        (Header::new(Flags::CLOSE, 0, 0), ErrorKind::Protocol),
        (Header::eof(0), ErrorKind::Protocol),
        (Header::eof(1 << 40), ErrorKind::Protocol),
    ] {
        assert_eq!(
            error(&[(wire(&[header]), false)]).await.kind(),
            kind,
            "{header:?}"
        );
    }
}

#[tokio::test]
async fn a_count_that_is_too_low_is_an_error() {
    let data = Header::data(0, 10);
    let low = error(&[
        (wire(&[data, Header::eod()]), false),
        (wire(&[data, Header::eof(1)]), false),
    ])
    .await;
    assert_eq!(low.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn two_counts_that_differ_are_an_error() {
    let differ = error(&[
        (wire(&[Header::eof(2)]), false),
        (wire(&[Header::eof(3)]), false),
    ])
    .await;
    assert_eq!(differ.kind(), ErrorKind::Protocol);
}

#[tokio::test(start_paused = true)]
async fn marks_that_are_missing_when_all_have_closed_end_it_soon() {
    // Long before any deadline of a peer: these return because the connections are closed.
    let short = error(&[(wire(&[Header::data(0, 10), Header::eof(2)]), true)]).await;
    assert_eq!(short.kind(), ErrorKind::Closed);
    let none = error(&[(wire(&[Header::data(0, 10), Header::eod()]), true)]).await;
    assert_eq!(none.kind(), ErrorKind::Closed);
    let unmarked = error(&[(wire(&[Header::data(0, 10)]), true)]).await;
    assert_eq!(unmarked.kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_stream_may_come_after_the_one_before_it_was_closed() {
    let mut to = channel();
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let (sink, watch) = (Kept::default(), Watch::new());
    let sender = async {
        let first = wire(&[
            Header::data(0, 10),
            Header::new(Flags::EOD.with(Flags::CLOSE), 0, 0),
        ]);
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&first).await.unwrap();
        drop(stream);
        while watch.bytes() < 10 {
            tokio::task::yield_now().await;
        }
        let second = wire(&[Header::data(10, 5), Header::eof(2)]);
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&second).await.unwrap();
        stream
    };
    let plan = incoming(Mode::Extended);
    let (got, _stream) = tokio::join!(to.receive(&sink, &plan, &watch), sender);
    assert_eq!(got.unwrap().ranges, RangeSet::up_to(15));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_comes_ends_at_the_deadline() {
    let missing = error(&[(wire(&[Header::data(0, 10), Header::eof(2)]), false)]).await;
    assert_eq!(missing.kind(), ErrorKind::Timeout(Wait::Accept));
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_ends_at_the_deadline() {
    let mut half = wire(&[Header::data(0, 10)]);
    half.truncate(20);
    let silent = error(&[(half, false)]).await;
    assert_eq!(silent.kind(), ErrorKind::Timeout(Wait::Receive));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_connects_leaves_the_listener_usable() {
    let mut to = channel();
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    for mode in [Mode::Stream, Mode::Extended] {
        let watch = Watch::new();
        let error = to
            .receive(&Kept::default(), &incoming(mode), &watch)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Accept));
        assert!(!watch.is_open());
    }
    let mut from = channel();
    from.connect_to(tcp(), vec![address]);
    let sink = Kept::default();
    move_file(
        &mut from,
        &mut to,
        &Memory(bytes(9)),
        &whole(Mode::Extended, 9),
        &sink,
    )
    .await;
    assert_eq!(sink.data(), bytes(9));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_ends_at_the_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut from = channel();
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    let (source, watch) = (Disk::zeros(30_000_000), Watch::new());
    let error = from
        .send(&source, &whole(Mode::Stream, 30_000_000), &watch)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Send));
}

#[tokio::test]
async fn no_set_up_and_no_listener_are_different_errors() {
    let mut from = channel();
    let (plan, watch) = (whole(Mode::Stream, 0), Watch::new());
    let error = from
        .send(&Memory(Vec::new()), &plan, &watch)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoChannel);
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    from.connect_to(tcp(), vec![nobody]);
    let error = from
        .send(&Memory(Vec::new()), &plan, &watch)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Open);
    assert!(error.is_transient() && from.is_set());
}

#[tokio::test]
async fn absurdly_many_addresses_are_refused() {
    let mut from = channel();
    let nobody = (Ipv4Addr::LOCALHOST, 9).into();
    from.connect_to(tcp(), vec![nobody; 300]);
    let plan = whole(Mode::Extended, 0).parallelism(u32::MAX);
    let error = from
        .send(&Memory(Vec::new()), &plan, &Watch::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[tokio::test]
async fn strangers_are_turned_away_and_the_peer_is_served() {
    let mut to = channel();
    // All of 127.0.0.0/8 is this host, so another address of it can play the stranger.
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let address = to.listen(&tcp(), &here(), Peers::Only(peer)).await.unwrap();
    let mut strangers = Vec::new();
    for n in 2..10 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket
            .bind((Ipv4Addr::new(127, 0, 0, n), 0).into())
            .unwrap();
        let mut stranger = socket.connect(address).await.unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        strangers.push(stranger);
    }
    let mut from = channel();
    from.connect_to(tcp(), vec![address]);
    let sink = Kept::default();
    let plan = whole(Mode::Extended, 200_000).parallelism(2);
    let (_, got) = move_file(&mut from, &mut to, &Memory(bytes(200_000)), &plan, &sink).await;
    assert_eq!(sink.data(), bytes(200_000));
    assert_eq!(got.connections, 2);
    assert!(to.refused().is_empty(), "the peer was served");
}

#[tokio::test]
async fn connections_without_a_header_harm_nothing() {
    let (mut to, streams) = bare(3).await;
    let address = streams[0].peer_addr().unwrap();
    drop(streams);
    let late = async {
        let mut from = channel();
        from.connect_to(tcp(), vec![address]);
        let watch = Watch::new();
        from.send(&Memory(bytes(5)), &whole(Mode::Extended, 5), &watch)
            .await
            .unwrap();
        from
    };
    let (sink, watch) = (Kept::default(), Watch::new());
    let plan = incoming(Mode::Extended);
    let (got, _from) = tokio::join!(to.receive(&sink, &plan, &watch), late);
    got.unwrap();
    assert_eq!(sink.data(), bytes(5));
}

#[tokio::test]
async fn a_reset_in_mid_block_reports_the_written_ranges() {
    let (mut to, mut streams) = bare(1).await;
    let mut stream = streams.pop().unwrap();
    let mut sent = wire(&[Header::data(100, 1000), Header::data(5000, 1000)]);
    sent.truncate(17 + 1000 + 17 + 400);
    stream.write_all(&sent).await.unwrap();
    let (sink, watch) = (
        Kept {
            slow: 1,
            ..Kept::default()
        },
        Watch::new(),
    );
    let breaking = async {
        while watch.received().total() < 1400 {
            tokio::task::yield_now().await;
        }
        stream.set_zero_linger().unwrap();
        drop(stream);
    };
    let plan = incoming(Mode::Extended);
    let (got, ()) = tokio::join!(to.receive(&sink, &plan, &watch), breaking);
    assert_eq!(got.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(watch.received().to_string(), "100-1100,5000-5400");
    assert_eq!(watch.bytes(), 1400);
}

#[tokio::test]
async fn overlaps_are_accepted_and_gaps_are_reported() {
    let blocks = [
        Header::data(0, 10),
        Header::data(5, 10),
        Header::data(20, 5),
        Header::eof(1),
    ];
    let (got, _, sink) = outcome(&[(wire(&blocks), false)]).await;
    let got = got.unwrap();
    assert_eq!(got.ranges.to_string(), "0-15,20-25");
    assert_eq!((got.bytes, got.end), (25, 25));
    assert_eq!(sink.data().len(), 25);
}

/// Each piece as a block of its own.
fn blocks(pieces: &[(u64, &[u8])]) -> Vec<u8> {
    let mut wire = Vec::new();
    for (offset, piece) in pieces {
        wire.extend(Header::data(*offset, piece.len() as u64).to_bytes());
        wire.extend(*piece);
    }
    wire.extend(Header::eof(1).to_bytes());
    wire
}

#[tokio::test]
async fn overlaps_are_compared_with_the_stored_bytes() {
    let large = bytes(700_000);
    let mut other = large.clone();
    other[600_000] ^= 1;
    type Pieces<'a> = &'a [(u64, &'a [u8])];
    let cases: [(Pieces<'_>, Pieces<'_>); 5] = [
        (&[(0, b"abcd"), (2, b"cdef")], &[(0, b"abcd"), (2, b"cDef")]),
        (
            &[(4, b"ef"), (0, b"abcdefgh")],
            &[(4, b"ef"), (0, b"abcdeFgh")],
        ),
        (
            &[(0, b"ab"), (4, b"ef"), (1, b"bcde")],
            &[(0, b"ab"), (4, b"ef"), (1, b"bcdE")],
        ),
        (&[(0, b"abc"), (0, b"abc")], &[(0, b"abc"), (0, b"ABC")]),
        (&[(0, &large), (0, &large)], &[(0, &large), (0, &other)]),
    ];
    for (equal, different) in cases {
        let (got, _, sink) = outcome(&[(blocks(equal), false)]).await;
        let end = got.unwrap().end as usize;
        let content = if end > 8 {
            &large[..]
        } else {
            &b"abcdefgh"[..end]
        };
        assert!(sink.data() == content);
        let refused = error(&[(blocks(different), false)]).await;
        assert_eq!(refused.kind(), ErrorKind::Protocol);
    }
}

/// Two connections send the same range while its first write is in flight.
#[tokio::test]
async fn overlaps_of_two_connections_are_compared_once_the_first_is_stored() {
    for (second, ends) in [(b"abcdef", true), (b"abcdeF", false)] {
        let (mut to, mut streams) = bare(2).await;
        for (stream, text) in streams.iter_mut().zip([b"abcdef", second]) {
            let mut wire = blocks(&[(0, text)]);
            let end = wire.len() - HEADER_LEN;
            wire.truncate(end);
            wire.extend(Header::eof(2).to_bytes());
            stream.write_all(&wire).await.unwrap();
        }
        let slow = 50;
        let sink = Kept {
            slow,
            ..Kept::default()
        };
        let watch = Watch::new();
        let got = to.receive(&sink, &incoming(Mode::Extended), &watch).await;
        assert_eq!(got.is_ok(), ends, "{got:?}");
        assert!(!ends || sink.data() == b"abcdef");
    }
}

/// A peer that sends each block twice has them all compared, in memory outside the pool.
#[tokio::test]
async fn overlaps_are_compared_in_little_memory() {
    const CONNECTIONS: usize = 8;
    let (mut to, mut streams) = bare(CONNECTIONS).await;
    let content = bytes(CONNECTIONS * 100_000);
    for (at, stream) in streams.iter_mut().enumerate() {
        let from = at * 100_000;
        let part = &content[from..from + 100_000];
        let mut wire = blocks(&[(from as u64, part), (from as u64, part)]);
        wire.truncate(wire.len() - HEADER_LEN);
        wire.extend(Header::eof(CONNECTIONS as u64).to_bytes());
        stream.write_all(&wire).await.unwrap();
    }
    let sink = Kept {
        slow: 3,
        ..Kept::default()
    };
    let watch = Watch::new();
    let got = to.receive(&sink, &incoming(Mode::Extended), &watch).await;
    assert_eq!(got.unwrap().bytes, 2 * content.len() as u64);
    assert!(sink.data() == content);
    let most = sink.most_read.into_inner();
    assert!((1..=32 << 10).contains(&most), "{most} bytes at one time");
}

#[tokio::test]
async fn bytes_in_order_are_not_accepted_twice() {
    let twice: [&[(u64, &[u8])]; 3] = [
        &[(0, b"abc"), (0, b"abc")],
        &[(0, b"abc"), (2, b"cd")],
        &[(5, b"fg"), (4, b"ef"), (0, b"abcd")],
    ];
    for pieces in twice {
        let (mut to, mut streams) = bare(1).await;
        streams[0].write_all(&blocks(pieces)).await.unwrap();
        let sequential = true;
        let sink = Kept {
            sequential,
            ..Kept::default()
        };
        let watch = Watch::new();
        let got = to.receive(&sink, &incoming(Mode::Extended), &watch).await;
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Protocol);
    }
}

#[tokio::test]
async fn empty_blocks_are_bounded() {
    let (got, ..) = outcome(&[(wire(&[Header::data(0, 0), Header::eof(1)]), false)]).await;
    assert_eq!(got.unwrap().bytes, 0);
    let endless = error(&[(wire(&[Header::data(0, 0); 5000]), false)]).await;
    assert_eq!(endless.kind(), ErrorKind::Limit);
}

#[tokio::test]
async fn scattered_data_is_bounded() {
    let (mut to, mut streams) = bare(1).await;
    to.options_mut().ranges = 100;
    let blocks: Vec<_> = (0..200).map(|n| Header::data(n * 10, 1)).collect();
    streams[0].write_all(&wire(&blocks)).await.unwrap();
    let watch = Watch::new();
    let got = to
        .receive(&Kept::default(), &incoming(Mode::Extended), &watch)
        .await;
    assert_eq!(got.unwrap_err().kind(), ErrorKind::Limit);
}

#[tokio::test]
async fn more_connections_than_allowed_are_an_error() {
    let (mut to, mut streams) = bare(9).await;
    to.options_mut().connections = 8;
    for stream in &mut streams {
        stream.write_all(&wire(&[Header::eod()])).await.unwrap();
    }
    let watch = Watch::new();
    let got = to
        .receive(&Kept::default(), &incoming(Mode::Extended), &watch)
        .await;
    assert_eq!(got.unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(watch.connections(), 8);
}

#[tokio::test]
async fn a_storage_that_fails_is_at_fault() {
    for mode in [Mode::Stream, Mode::Extended] {
        let (mut from, mut to) = pair().await;
        let sink = Kept {
            full_at: Some(1000),
            ..Kept::default()
        };
        let watches = (Watch::new(), Watch::new());
        let (source, send, receive) = (
            Memory(bytes(9_000_000)),
            whole(mode, 9_000_000),
            incoming(mode),
        );
        let (sent, got) = tokio::join!(
            from.send(&source, &send, &watches.0),
            to.receive(&sink, &receive, &watches.1)
        );
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::Closed);
        let got = got.unwrap_err();
        assert_eq!(got.storage_error().unwrap().kind(), StorageKind::NoSpace);
        assert!(!got.is_transient() && !to.is_set());
    }
}

#[tokio::test(start_paused = true)]
async fn connections_without_a_header_keep_no_transfer_alive() {
    for silent in [false, true] {
        let mut to = channel();
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        let mut half = None;
        if silent {
            let mut peer = TcpStream::connect(address).await.unwrap();
            peer.write_all(&[0]).await.unwrap();
            half = Some(peer);
        }
        let strangers = async {
            loop {
                drop(TcpStream::connect(address).await);
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
        };
        let (sink, watch, plan) = (Kept::default(), Watch::new(), incoming(Mode::Extended));
        let ended = tokio::select! {
            ended = tokio::time::timeout(Duration::from_secs(600), to.receive(&sink, &plan, &watch)) => ended,
            () = strangers => unreachable!("they come for ever"),
        };
        let error = ended.expect("no deadline holds").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
        drop(half);
    }
}

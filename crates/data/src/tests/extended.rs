//! MODE E: any number of connections, any order of blocks, kept for the next transfer.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use byte_ranges::{Layout, Stripe};
use mode_e::Header;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn files_of_every_size_arrive_over_any_number_of_streams() {
    for streams in [1, 2, 4, 16] {
        let (mut from, mut to) = pair().await;
        for (turn, len) in [0, 1, 4096, (128 << 10) + 1, 5_000_001, 17]
            .into_iter()
            .enumerate()
        {
            let content = bytes(len);
            for on_disk in [false, true] {
                let sink = Kept::default();
                let plan = whole(Mode::Extended, len as u64).parallelism(streams);
                assert_eq!(from.is_cached(), turn > 0 || on_disk);
                let (sent, got) = if on_disk {
                    move_file(&mut from, &mut to, &Disk::new(&content), &plan, &sink).await
                } else {
                    move_file(&mut from, &mut to, &Memory(content.clone()), &plan, &sink).await
                };
                assert!(sink.data() == content, "{len} bytes over {streams} streams");
                assert_eq!((sent.bytes, got.bytes), (len as u64, len as u64));
                assert_eq!(sent.connections, streams);
                assert_eq!(got.connections, streams);
                assert_eq!(got.ranges, RangeSet::up_to(len as u64));
                assert!(from.is_cached() && to.is_cached());
            }
        }
    }
}

#[tokio::test]
async fn the_watch_tells_fresh_from_reused() {
    let (mut from, mut to) = pair().await;
    for turn in 0..3 {
        let watches = (Watch::new(), Watch::new());
        let (source, sink) = (Memory(bytes(1000)), Kept::default());
        let (send, receive) = (whole(Mode::Extended, 1000), incoming(Mode::Extended));
        let (_, _, sender, receiver) = tokio::join!(
            from.send(&source, &send, &watches.0),
            to.receive(&sink, &receive, &watches.1),
            watches.0.opened(),
            watches.1.opened(),
        );
        assert_eq!((sender, receiver), (turn > 0, turn > 0));
        assert_eq!(watches.1.take_received().to_string(), "0-1000");
        assert!(watches.1.take_received().is_empty());
        assert_eq!(watches.1.received().to_string(), "0-1000");
    }
}

#[tokio::test]
async fn the_path_is_measured_for_each_transfer_of_kept_connections() {
    let (mut from, mut to) = pair().await;
    let data = Memory(vec![7; 2 << 20]);
    for turn in 0..2 {
        let (sending, receiving, sink) = (Watch::new(), Watch::new(), Kept::default());
        assert_eq!(sending.stage(), Stage::Opening);
        sending.measure();
        receiving.measure();
        let (plan, taken) = (whole(Mode::Extended, 2 << 20), incoming(Mode::Extended));
        tokio::try_join!(
            from.send(&data, &plan, &sending),
            to.receive(&sink, &taken, &receiving)
        )
        .unwrap();
        assert_eq!(
            (sending.stage(), receiving.stage()),
            (Stage::Ended, Stage::Ended)
        );
        assert_eq!(receiving.path(), None);
        assert!(sending.path().unwrap().sent > Some(0));
        // It is looked at from time to time alone, over all transfers.
        let round_trips = sending.take_round_trips();
        assert!(turn > 0 || round_trips.len() == 1, "{round_trips:?}");
        for (peer, round_trip) in round_trips {
            assert!(peer.is_some() && !round_trip.is_zero());
        }
    }
}

#[tokio::test]
async fn the_path_is_told_while_data_moves() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut from = channel();
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    let (data, plan) = (Memory(vec![7; 64 << 20]), whole(Mode::Extended, 64 << 20));
    let watch = Watch::new();
    watch.measure();
    let looked = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut vec![0; 4 << 20]).await.unwrap();
        watch.path()
    };
    // The peer reads no more, so that the send cannot end.
    let path = tokio::select! {
        ended = from.send(&data, &plan, &watch) => panic!("{ended:?}"),
        path = looked => path,
    };
    assert!(path.unwrap().sent > Some(0));
}

#[tokio::test]
async fn the_wire_is_as_the_reference_says() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut from = channel();
    from.options_mut().block = Some(100);
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    // `ERET P 50 250` with 0-30 held: wire offsets count from 50.
    let ranges = RangeSet::up_to(80).complement(300);
    let plan = SendPlan::new(Mode::Extended, Type::Image, ranges).base(50);
    let content = bytes(300);
    let (source, watch) = (Memory(content.clone()), Watch::new());
    let read = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut wire = vec![0; 3 * 17 + 220 + 17];
        stream.read_exact(&mut wire).await.unwrap();
        (stream, wire)
    };
    let (sent, (mut stream, wire)) = tokio::join!(from.send(&source, &plan, &watch), read);
    sent.unwrap();
    let mut expected = Vec::new();
    for (offset, len) in [(30, 100), (130, 100), (230, 20)] {
        expected.extend(Header::data(offset, len).to_bytes());
        expected.extend(&content[offset as usize + 50..][..len as usize]);
    }
    expected.extend(Header::eof(1).to_bytes());
    assert_eq!(wire, expected);
    // The connection stays open, and closes cleanly with the channel.
    assert!(from.is_cached());
    drop(from);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn every_address_gets_its_own_marks() {
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let mut from = channel();
    from.connect_to(
        tcp(),
        listeners.iter().map(|l| l.local_addr().unwrap()).collect(),
    );
    let (source, watch) = (Memory(Vec::new()), Watch::new());
    let plan = whole(Mode::Extended, 0).parallelism(3);
    let read = async {
        let mut all = Vec::new();
        for listener in &listeners {
            let mut marks = Vec::new();
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut mark = [0; 17];
                stream.read_exact(&mut mark).await.unwrap();
                marks.push(Header::parse(&mark));
            }
            all.push(marks);
        }
        all
    };
    let (sent, all) = tokio::join!(from.send(&source, &plan, &watch), read);
    assert_eq!(sent.unwrap().connections, 6);
    for marks in all {
        assert_eq!(marks.iter().filter(|m| **m == Header::eof(3)).count(), 1);
        assert_eq!(marks.iter().filter(|m| **m == Header::eod()).count(), 2);
    }
}

#[tokio::test]
async fn each_stripe_sends_its_share() {
    const LEN: usize = 3_000_001;
    let content = bytes(LEN);
    // `ERET P 50`, with the first 1,000 bytes of it held.
    let ranges = RangeSet::up_to(1050).complement(LEN as u64);
    let block = Layout::Blocked(NonZero::new(64 << 10).unwrap());
    for layout in [Layout::Partitioned, block] {
        let (sink, mut all) = (Kept::default(), RangeSet::new());
        for index in 0..3 {
            let stripe = Stripe::new(layout, index, 3).unwrap();
            let (mut from, mut to) = pair().await;
            let plan = SendPlan::new(Mode::Extended, Type::Image, ranges.clone())
                .base(50)
                .parallelism(2)
                .stripe(Some(stripe));
            let source = Memory(content.clone());
            let (sent, got) = move_file(&mut from, &mut to, &source, &plan, &sink).await;
            let share: RangeSet = stripe.share(&ranges.shift_down(50)).collect();
            assert_eq!(got.ranges, share, "{layout:?} {index}");
            assert_eq!((sent.bytes, sent.connections), (share.total(), 2));
            all.extend(&share);
        }
        assert_eq!(all.to_string(), format!("1000-{}", LEN - 50));
        assert!(sink.data()[1000..] == content[1050..], "{layout:?}");
    }
}

#[tokio::test]
async fn stripes_may_share_a_port() {
    let content = bytes(1_000_001);
    let layout = Layout::Blocked(NonZero::new(64 << 10).unwrap());
    let mut to = channel();
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let mut senders = [channel(), channel()];
    for sender in &mut senders {
        sender.connect_to(tcp(), vec![address]);
    }
    let [one, two] = &mut senders;
    // The connections serve a second file.
    for _ in 0..2 {
        let (source, sink, watch) = (Memory(content.clone()), Kept::default(), Watch::new());
        let plan = |index| {
            whole(Mode::Extended, content.len() as u64)
                .parallelism(index + 1)
                .stripe(Stripe::new(layout, index, 2))
        };
        let sending = [Watch::new(), Watch::new()];
        let taken = incoming(Mode::Extended).stripes(NonZero::new(2));
        let (first, second) = (plan(0), plan(1));
        let (_, _, got) = tokio::try_join!(
            one.send(&source, &first, &sending[0]),
            two.send(&source, &second, &sending[1]),
            to.receive(&sink, &taken, &watch),
        )
        .unwrap();
        assert_eq!((got.connections, got.bytes), (3, content.len() as u64));
        assert!(sink.data() == content);
    }
}

#[tokio::test]
async fn data_goes_to_the_first_receivers() {
    let (mut one, mut two) = (channel(), channel());
    let mut to = Vec::new();
    for receiver in [&mut one, &mut two] {
        to.push(receiver.listen(&tcp(), &here(), Peers::Any).await.unwrap());
    }
    let mut from = channel();
    from.connect_to(tcp(), to);
    let content = bytes(500_000);
    let (source, sinks) = (Memory(content.clone()), [Kept::default(), Kept::default()]);
    let plan = whole(Mode::Extended, 500_000)
        .parallelism(2)
        .receivers(NonZero::new(1));
    let watches = [Watch::new(), Watch::new(), Watch::new()];
    let taken = incoming(Mode::Extended);
    let (_, all, none) = tokio::try_join!(
        from.send(&source, &plan, &watches[0]),
        one.receive(&sinks[0], &taken, &watches[1]),
        two.receive(&sinks[1], &taken, &watches[2]),
    )
    .unwrap();
    assert_eq!((all.bytes, none.bytes), (500_000, 0));
    assert!(sinks[0].data() == content);
}

#[tokio::test]
async fn blocks_land_where_esto_puts_them() {
    let (mut to, mut streams) = bare(1).await;
    let mut wire = Header::data(5, 3).to_bytes().to_vec();
    wire.extend(b"abc");
    wire.extend(Header::eof(1).to_bytes());
    streams[0].write_all(&wire).await.unwrap();
    let (sink, watch) = (Kept::default(), Watch::new());
    let got = to
        .receive(&sink, &incoming(Mode::Extended).base(10), &watch)
        .await
        .unwrap();
    assert_eq!(sink.data(), [&[0; 15][..], b"abc"].concat());
    // 111 markers count from wire offset 0.
    assert_eq!((got.ranges.to_string().as_str(), got.end), ("5-8", 18));
}

#[tokio::test]
async fn connections_may_come_late_and_the_file_end_first() {
    let (mut to, mut streams) = bare(1).await;
    let address = streams[0].peer_addr().unwrap();
    streams[0]
        .write_all(&Header::eof(3).to_bytes())
        .await
        .unwrap();
    let late = async {
        for offset in [7_u64, 0] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // Payload and end mark in one block, as the draft allows.
            let header = Header::new(mode_e::Flags::EOD, 7, offset);
            stream.write_all(&header.to_bytes()).await.unwrap();
            stream
                .write_all(&bytes(14)[offset as usize..][..7])
                .await
                .unwrap();
            streams.push(stream);
        }
    };
    let (sink, watch) = (Kept::default(), Watch::new());
    let plan = incoming(Mode::Extended);
    let (got, ()) = tokio::join!(to.receive(&sink, &plan, &watch), late);
    assert_eq!(sink.data(), bytes(14));
    assert_eq!(got.unwrap().connections, 3);
}

#[tokio::test]
async fn data_ahead_of_its_transfer_waits_on_the_connection() {
    let (mut to, mut streams) = bare(1).await;
    let address = streams[0].peer_addr().unwrap();
    // The marks of two files on the first connection, before the second connection opens.
    let ahead = [Header::eof(2).to_bytes(), Header::eod().to_bytes()].concat();
    streams[0].write_all(&ahead).await.unwrap();
    let watch = Watch::new();
    let late = async {
        while watch.arrived().eods() == 0 {
            tokio::task::yield_now().await;
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        let content = bytes(5);
        for part in [
            &Header::eod().to_bytes()[..],
            &Header::data(0, 5).to_bytes(),
            &content,
            &Header::eof(2).to_bytes(),
        ] {
            stream.write_all(part).await.unwrap();
        }
        streams.push(stream);
    };
    let (first, second) = (Kept::default(), Kept::default());
    let plan = incoming(Mode::Extended);
    let (got, ()) = tokio::join!(to.receive(&first, &plan, &watch), late);
    assert_eq!(got.unwrap().bytes, 0);
    let watch = Watch::new();
    let got = to.receive(&second, &plan, &watch);
    let got = tokio::time::timeout(Duration::from_secs(10), got).await;
    assert_eq!(got.expect("it ends").unwrap().bytes, 5);
    assert_eq!(second.data(), bytes(5));
}

#[tokio::test]
async fn files_sent_back_to_back_stay_apart() {
    let (mut to, mut streams) = bare(2).await;
    let files: Vec<_> = (0..50).map(|n| bytes(n * 37)).collect();
    let mut wires = [Vec::new(), Vec::new()];
    for (n, file) in files.iter().enumerate() {
        let (a, b) = file.split_at(file.len() / 2);
        for (wire, offset, part) in [(0, 0, a), (1, a.len() as u64, b)] {
            wires[wire].extend(Header::data(offset, part.len() as u64).to_bytes());
            wires[wire].extend(part);
            let end = if wire == n % 2 {
                Header::eof(2)
            } else {
                Header::eod()
            };
            wires[wire].extend(end.to_bytes());
        }
    }
    for (stream, wire) in streams.iter_mut().zip(&wires) {
        stream.write_all(wire).await.unwrap();
    }
    for (n, file) in files.iter().enumerate() {
        let watch = Watch::new();
        if n % 3 == 2 {
            let got = to.discard(&incoming(Mode::Extended), &watch).await.unwrap();
            assert_eq!(got.bytes, file.len() as u64);
            continue;
        }
        let sink = Kept::default();
        to.receive(&sink, &incoming(Mode::Extended), &watch)
            .await
            .unwrap();
        assert_eq!(&sink.data(), file, "file {n}");
    }
}

#[tokio::test]
async fn a_sink_that_wants_order_gets_it() {
    let (mut from, mut to) = pair().await;
    let content = bytes(3_000_000);
    let sink = Kept {
        sequential: true,
        slow: 2,
        ..Kept::default()
    };
    let plan = whole(Mode::Extended, 3_000_000).parallelism(4);
    let (_, got) = move_file(&mut from, &mut to, &Memory(content.clone()), &plan, &sink).await;
    assert!(sink.data() == content);
    assert_eq!(got.end, 3_000_000);
}

/// Bytes too far ahead stay unread on the connection, and no block is held for them.
#[tokio::test]
async fn bytes_before_their_turn_are_not_read() {
    const PART: usize = 1 << 20;
    let (pool, small) = (Pool::new(64 << 10, 4), Some(xio_core::ByteSize::new(4096)));
    let mut to = with_pool(pool.clone());
    to.options_mut().ahead = 20_000;
    let at = here().with(xio_core::SocketHints::new().buffers(small, small));
    let at = to.listen(&tcp(), &at, Peers::Any).await.unwrap();
    let content = bytes(4 * PART);
    let sink = Kept {
        sequential: true,
        ..Kept::default()
    };
    let (watch, plan) = (Watch::new(), incoming(Mode::Extended));
    let mut receiving = Box::pin(to.receive(&sink, &plan, &watch));
    let came = Arc::new(AtomicUsize::new(0));
    let mut peers = Vec::new();
    // The first part is sent last.
    for part in (0..4).rev() {
        let offset = part * PART;
        let mut wire = Header::data(offset as u64, PART as u64).to_bytes().to_vec();
        wire.extend(&content[offset..][..PART]);
        let end = if part == 0 {
            Header::eof(4)
        } else {
            Header::eod()
        };
        wire.extend(end.to_bytes());
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        let mut stream = socket.connect(at).await.unwrap();
        if part == 0 {
            let stopped = tokio::time::timeout(Duration::from_millis(300), &mut receiving).await;
            assert!(stopped.is_err(), "{stopped:?} without the first bytes");
            let came = came.load(Ordering::Relaxed);
            assert!(came < PART, "{came} bytes were taken before their turn");
            assert_eq!(pool.available(), 4);
        }
        let came = Arc::clone(&came);
        peers.push(tokio::spawn(async move {
            for piece in wire.chunks(1000) {
                stream.write_all(piece).await.unwrap();
                came.fetch_add(piece.len(), Ordering::Relaxed);
            }
            stream
        }));
    }
    receiving.await.unwrap();
    assert!(sink.data() == content);
}

#[tokio::test]
async fn connections_opened_ahead_serve_the_next_transfer() {
    let (mut from, mut to) = pair().await;
    from.open(Mode::Extended, 2).await.unwrap();
    assert!(from.is_set() && !from.is_cached());
    let (sink, plan) = (Kept::default(), whole(Mode::Extended, 10).parallelism(2));
    let (sent, got) = move_file(&mut from, &mut to, &Memory(bytes(10)), &plan, &sink).await;
    assert_eq!((sent.connections, got.connections), (2, 2));
}

#[tokio::test]
async fn kept_connections_serve_their_own_direction_only() {
    let (mut from, mut to) = pair().await;
    let (sink, plan) = (Kept::default(), whole(Mode::Extended, 10));
    move_file(&mut from, &mut to, &Memory(bytes(10)), &plan, &sink).await;
    for (channel, plan) in [
        (&mut to, plan.clone()),
        (&mut from, whole(Mode::Stream, 10)),
    ] {
        let error = channel
            .send(&Memory(bytes(10)), &plan, &Watch::new())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::NoChannel);
    }
    // They still serve a transfer in their own direction.
    move_file(&mut from, &mut to, &Memory(bytes(10)), &plan, &sink).await;
}

#[tokio::test]
async fn a_listener_outlives_connections_that_the_sender_closes() {
    let (mut to, mut streams) = bare(1).await;
    let address = streams[0].peer_addr().unwrap();
    for n in 0..3 {
        let mut wire = Header::data(0, 4).to_bytes().to_vec();
        wire.extend([n; 4]);
        wire.extend(
            Header::new(
                mode_e::Flags::EOF
                    .with(mode_e::Flags::EOD)
                    .with(mode_e::Flags::CLOSE),
                0,
                1,
            )
            .to_bytes(),
        );
        streams.pop().unwrap().write_all(&wire).await.unwrap();
        let sink = Kept::default();
        to.receive(&sink, &incoming(Mode::Extended), &Watch::new())
            .await
            .unwrap();
        assert_eq!(sink.data(), [n; 4]);
        assert!(to.is_set() && !to.is_cached());
        streams.push(TcpStream::connect(address).await.unwrap());
    }
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced() {
    let (mut from, mut to) = pair().await;
    let (sink, plan) = (Kept::default(), whole(Mode::Extended, 10));
    move_file(&mut from, &mut to, &Memory(bytes(10)), &plan, &sink).await;
    let address = {
        let mut again = channel();
        std::mem::swap(&mut again, &mut to);
        drop(again);
        to.listen(&tcp(), &here(), Peers::Any).await.unwrap()
    };
    // Any wait lets the runtime notice that the old connection was closed.
    let _other = TcpStream::connect(address).await.unwrap();
    // The old connection and its listener are closed, so the sender fails instead of hanging.
    let watch = Watch::new();
    let error = from
        .send(&Memory(bytes(10)), &plan, &watch)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Open);
    assert!(from.is_set(), "nothing was sent, so the address stays");
    from.connect_to(tcp(), vec![address]);
    move_file(&mut from, &mut to, &Memory(bytes(10)), &plan, &sink).await;
}

fn blocks() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize)>, Vec<usize>)> {
    // Cuts of the file, an order and a connection for each block, sizes of the writes.
    (
        prop::collection::vec(0..5000_usize, 0..12),
        prop::collection::vec((any::<u16>().prop_map(usize::from), 0..3_usize), 14),
        prop::collection::vec(1..3000_usize, 1..40),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_and_any_split_gives_the_same_bytes((mut cuts, deal, writes) in blocks()) {
        let content = bytes(5000);
        cuts.extend([0, 5000]);
        cuts.sort_unstable();
        let mut parts: Vec<_> = cuts.windows(2).map(|w| w[0]..w[1]).zip(deal).collect();
        parts.sort_by_key(|(_, (order, _))| *order);
        let mut wires = [Vec::new(), Vec::new(), Vec::new()];
        for (part, (_, connection)) in parts {
            wires[connection].extend(Header::data(part.start as u64, part.len() as u64).to_bytes());
            wires[connection].extend(&content[part]);
        }
        wires[0].extend(Header::eod().to_bytes());
        wires[1].extend(Header::eof(3).to_bytes());
        wires[2].extend(Header::eod().to_bytes());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (data, got) = runtime.block_on(async {
            let (mut to, mut streams) = bare(3).await;
            let sink = Kept { slow: 1, ..Kept::default() };
            let watch = Watch::new();
            let write = async {
                let mut sent = [0; 3];
                for (turn, size) in writes.iter().cycle().enumerate() {
                    let of = turn % 3;
                    let end = (sent[of] + size).min(wires[of].len());
                    streams[of].write_all(&wires[of][sent[of]..end]).await.unwrap();
                    sent[of] = end;
                    tokio::task::yield_now().await;
                    if sent.iter().zip(&wires).all(|(sent, wire)| *sent == wire.len()) {
                        break;
                    }
                }
            };
            let plan = incoming(Mode::Extended);
            let (got, ()) = tokio::join!(to.receive(&sink, &plan, &watch), write);
            (sink.data(), got.unwrap())
        });
        prop_assert!(data == content);
        prop_assert_eq!(got.ranges, RangeSet::up_to(5000));
        prop_assert_eq!(got.bytes, 5000);
    }
}

#[tokio::test]
async fn a_reset_behind_the_data_is_noticed_and_a_close_is_not() {
    for resets in [true, false] {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut from = channel();
        from.connect_to(tcp(), vec![server.local_addr().unwrap()]);
        let (source, watch) = (Memory(bytes(1000)), Watch::new());
        let plan = whole(Mode::Extended, 1000);
        let (sent, accepted) = tokio::join!(from.send(&source, &plan, &watch), server.accept());
        sent.unwrap();
        let mut peer = accepted.unwrap().0;
        if resets {
            // Its bytes are not read.
            drop(peer);
            let noticed = tokio::time::timeout(Duration::from_secs(20), from.reset_by_peer());
            assert!(noticed.await.is_ok(), "the reset is not noticed");
            continue;
        }
        let mut block = [0; 2000];
        assert!(peer.read(&mut block).await.unwrap() > 1000);
        drop(peer);
        let noticed = tokio::time::timeout(Duration::from_millis(50), from.reset_by_peer()).await;
        assert!(noticed.is_err(), "a close is no reset");
    }
}

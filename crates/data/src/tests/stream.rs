//! MODE S: the connection is the file.

use byte_ranges::Range64;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::ErrorKind;

#[tokio::test]
async fn files_of_every_size_arrive_whole() {
    for len in [
        0,
        1,
        17,
        4096,
        (64 << 10) - 1,
        64 << 10,
        (128 << 10) + 1,
        3_000_001,
    ] {
        let content = bytes(len);
        for on_disk in [false, true] {
            let (mut from, mut to) = pair().await;
            let (sink, plan) = (Kept::default(), whole(Mode::Stream, len as u64));
            let (sent, got) = if on_disk {
                move_file(&mut from, &mut to, &Disk::new(&content), &plan, &sink).await
            } else {
                move_file(&mut from, &mut to, &Memory(content.clone()), &plan, &sink).await
            };
            assert_eq!(sink.data(), content);
            assert_eq!((sent.bytes, got.bytes), (len as u64, len as u64));
            assert_eq!((sent.connections, got.connections), (1, 1));
            assert_eq!(got.ranges, RangeSet::up_to(len as u64));
            // RFC 959 §3.4.1: the file ends with the connection, so there is none to keep.
            assert!(!from.is_set() && !to.is_set());
        }
    }
}

/// A client that reads the final reply before the last byte may lose either.
#[tokio::test]
async fn a_sender_may_wait_until_the_peer_has_read_all() {
    let mut from = channel();
    from.options_mut().linger = Duration::from_secs(3600);
    let address = from.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let mut peer = TcpStream::connect(address).await.unwrap();
    let (source, watch) = (Disk::new(b"file"), Watch::new());
    let plan = whole(Mode::Stream, 4);
    let closed = std::cell::Cell::new(false);
    let read = async {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.unwrap();
        closed.set(true);
        drop(peer);
        got
    };
    let send = async {
        from.send(&source, &plan, &watch).await.unwrap();
        assert!(closed.get(), "the send ended before the peer closed");
    };
    let ((), got) = tokio::join!(send, read);
    assert_eq!(got, b"file");
}

/// The watch opens, and its reader runs, before the first byte moves.
#[tokio::test]
async fn the_beginning_is_known_before_any_byte_moves() {
    let (mut from, mut to) = pair().await;
    let (sink, watch) = (Kept::default(), Watch::new());
    let (source, plan) = (Disk::new(b"file"), whole(Mode::Stream, 4));
    from.send(&source, &plan, &Watch::new()).await.unwrap();
    let plan = incoming(Mode::Stream);
    let receive = to.receive(&sink, &plan, &watch);
    let sample = async {
        watch.opened().await;
        assert_eq!(watch.bytes(), 0);
    };
    let (got, ()) = tokio::join!(receive, sample);
    assert_eq!(got.unwrap().bytes, 4);
}

/// A client with a reset data connection does not read the reply.
#[tokio::test]
async fn the_rest_of_a_file_that_cannot_be_stored_is_discarded() {
    for (ty, sequential) in [
        (Type::Image, false),
        (Type::Image, true),
        (Type::Ascii, false),
    ] {
        let mut to = channel();
        to.options_mut().draining = Duration::from_secs(3600);
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        let mut peer = TcpStream::connect(address).await.unwrap();
        let sink = Kept {
            full_at: Some(100_000),
            sequential,
            ..Kept::default()
        };
        let (plan, watch) = (ReceivePlan::new(Mode::Stream, ty), Watch::new());
        // The peer continues only once the failure is reported.
        let (told, hears) = tokio::sync::oneshot::channel();
        let send = async {
            peer.write_all(&[7; 200_000]).await.unwrap();
            hears.await.unwrap();
            // More than the socket buffers hold.
            for _ in 0..400 {
                peer.write_all(&[7; 100_000]).await.unwrap();
            }
            peer.shutdown().await.unwrap();
            peer.read(&mut [0]).await.unwrap()
        };
        let receive = async {
            let error = to.receive(&sink, &plan, &watch).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Storage);
            to.reset();
            told.send(()).unwrap();
        };
        let (end, ()) = tokio::join!(send, receive);
        assert_eq!(end, 0, "closed in good order");
    }
}

#[tokio::test]
async fn either_side_may_listen() {
    let content = bytes(100_000);
    let (mut from, mut to) = (channel(), channel());
    let address = from.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    to.connect_to(tcp(), vec![address]);
    let sink = Kept::default();
    move_file(
        &mut from,
        &mut to,
        &Memory(content.clone()),
        &whole(Mode::Stream, 100_000),
        &sink,
    )
    .await;
    assert_eq!(sink.data(), content);
}

#[tokio::test]
async fn a_restart_continues_where_it_stopped() {
    let content = bytes(300_000);
    let (mut from, mut to) = pair().await;
    let sink = Kept::default();
    sink.write_at(50, Bytes::copy_from_slice(&content[..200_000]))
        .await
        .unwrap();
    let rest = RangeSet::up_to(300_000).intersect(&RangeSet::up_to(200_000).complement(300_000));
    let send = SendPlan::new(Mode::Stream, Type::Image, rest);
    let receive = incoming(Mode::Stream).base(50).start(200_000);
    let (source, watches) = (Disk::new(&content), (Watch::new(), Watch::new()));
    let (_, got) = tokio::try_join!(
        from.send(&source, &send, &watches.0),
        to.receive(&sink, &receive, &watches.1)
    )
    .unwrap();
    assert_eq!(sink.data()[50..], content);
    assert_eq!(got.ranges.to_string(), "200000-300000");
    assert_eq!(got.end, 300_050);
}

#[tokio::test]
async fn a_restart_of_a_sink_in_order_continues_where_it_stopped() {
    let content = bytes(300_000);
    for mode in [Mode::Stream, Mode::Extended] {
        let (mut from, mut to) = pair().await;
        let sink = Kept {
            sequential: true,
            ..Kept::default()
        };
        let kept = Bytes::copy_from_slice(&content[..200_000]);
        sink.write_at(0, kept).await.unwrap();
        let rest = Range64::new(200_000, 300_000).into_iter().collect();
        let send = SendPlan::new(mode, Type::Image, rest).parallelism(4);
        let receive = incoming(mode).start(200_000);
        let (source, watches) = (Memory(content.clone()), (Watch::new(), Watch::new()));
        let moved = async {
            tokio::try_join!(
                from.send(&source, &send, &watches.0),
                to.receive(&sink, &receive, &watches.1)
            )
        };
        let (_, got) = moved.await.unwrap();
        assert!(sink.data() == content, "{mode:?}");
        assert_eq!(got.ranges.to_string(), "200000-300000");
        assert_eq!(got.end, 300_000);
    }
}

#[tokio::test]
async fn a_partial_transfer_ends_at_its_limit() {
    let content = bytes(3_000_001);
    for (start, until) in [
        (0, 0),
        (0, 1),
        (70_000, 70_000),
        (100, 2_000_000),
        (5, 4_000_000),
    ] {
        let (mut from, mut to) = pair().await;
        let (source, sink) = (Disk::new(&content), Kept::default());
        let end = until.min(3_000_001);
        let sent = SendPlan::new(
            Mode::Stream,
            Type::Image,
            Range64::new(start, 3_000_001).into_iter().collect(),
        );
        let taken = incoming(Mode::Stream).start(start).until(Some(until));
        let watches = (Watch::new(), Watch::new());
        let (_broken, got) = tokio::join!(
            from.send(&source, &sent, &watches.0),
            to.receive(&sink, &taken, &watches.1)
        );
        assert_eq!(got.unwrap().bytes, end - start);
        let [start, end] = [start, end].map(|at| at as usize);
        assert_eq!(
            sink.data().get(start..).unwrap_or_default(),
            &content[start..end]
        );
    }
}

#[tokio::test]
async fn text_keeps_its_lines() {
    let text: Vec<u8> = (0..20_000)
        .flat_map(|n| format!("line {n}\r{n}\n\n").into_bytes())
        .collect();
    for mode in [Mode::Stream, Mode::Extended] {
        for slow in [0, 3] {
            let (mut from, mut to) = pair().await;
            let sink = Kept {
                slow,
                sequential: true,
                ..Kept::default()
            };
            let send = SendPlan::new(mode, Type::Ascii, RangeSet::up_to(text.len() as u64));
            let receive = ReceivePlan::new(mode, Type::Ascii);
            let (source, watches) = (Memory(text.clone()), (Watch::new(), Watch::new()));
            let (sent, got) = tokio::try_join!(
                from.send(&source, &send, &watches.0),
                to.receive(&sink, &receive, &watches.1)
            )
            .unwrap();
            assert!(sink.data() == text);
            assert_eq!(
                sent.bytes,
                text.len() as u64 + 40_000,
                "each LF is CRLF on the wire"
            );
            assert_eq!((got.bytes, got.end), (sent.bytes, text.len() as u64));
        }
    }
}

#[tokio::test]
async fn a_file_that_shrinks_never_looks_whole() {
    for on_disk in [false, true] {
        let (mut from, mut to) = pair().await;
        let sink = Kept::default();
        let (send, receive) = (whole(Mode::Stream, 4_000_000), incoming(Mode::Stream));
        let watches = (Watch::new(), Watch::new());
        let disk = Disk::new(&bytes(4_000_000));
        disk.cut(1_000_000);
        let memory = Memory(bytes(1_000_000));
        let sending = async {
            if on_disk {
                from.send(&disk, &send, &watches.0).await
            } else {
                from.send(&memory, &send, &watches.0).await
            }
        };
        let (sent, got) = tokio::join!(sending, to.receive(&sink, &receive, &watches.1));
        let sent = sent.unwrap_err();
        assert_eq!(sent.kind(), ErrorKind::Storage);
        assert_eq!(sent.storage_error().unwrap().kind(), StorageKind::Changed);
        assert_eq!(
            got.unwrap_err().kind(),
            ErrorKind::Closed,
            "the receiver has to see a reset"
        );
        assert!(!from.is_set() && !to.is_set());
    }
}

#[tokio::test]
async fn a_dropped_sender_resets() {
    let (mut from, mut to) = pair().await;
    let (send, receive) = (whole(Mode::Stream, 50_000_000), incoming(Mode::Stream));
    let (source, sink) = (Disk::zeros(50_000_000), Kept::default());
    let watches = (Watch::new(), Watch::new());
    let sending = async {
        tokio::select! {
            sent = from.send(&source, &send, &watches.0) => panic!("{sent:?} while nobody read"),
            () = async {
                while watches.0.bytes() < 100_000 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        assert!(!from.is_set());
    };
    sending.await;
    let got = to.receive(&sink, &receive, &watches.1).await.unwrap_err();
    assert_eq!(got.kind(), ErrorKind::Closed);
    assert!(got.is_transient());
    // The reported ranges are those in the sink.
    assert_eq!(
        watches.1.received(),
        RangeSet::up_to(sink.data().len() as u64)
    );
}

/// The paused clock advances once all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_waiting_sender_holds_no_block() {
    let pool = Pool::new(64 << 10, 4);
    let mut from = with_pool(pool.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    let (source, watch) = (Disk::zeros(50_000_000), Watch::new());
    let plan = whole(Mode::Stream, 50_000_000);
    let mut sending = Box::pin(from.send(&source, &plan, &watch));
    let mut before = 0;
    loop {
        tokio::select! {
            biased;
            sent = &mut sending => panic!("{sent:?} while nobody read"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
        if watch.bytes() > 0 && watch.bytes() == before {
            break;
        }
        before = watch.bytes();
    }
    assert_eq!(pool.available(), 4);
}

/// Sockets with small buffers.
fn narrow() -> xio_core::SocketHints {
    let small = Some(xio_core::ByteSize::new(4096));
    xio_core::SocketHints::new().buffers(small, small)
}

/// The paused clock advances once all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_sender_whose_peer_takes_nothing_holds_no_block() {
    for (mode, ty) in [
        (Mode::Stream, Type::Image),
        (Mode::Extended, Type::Image),
        (Mode::Stream, Type::Ascii),
    ] {
        // Less than a block, and more.
        for len in [60_000, 500_000] {
            let pool = Pool::new(64 << 10, 4);
            let mut from = with_pool(pool.clone());
            from.options_mut().socket = narrow();
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(1).unwrap();
            from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
            // From memory, so that every byte goes through a block.
            let (source, watch) = (Memory(vec![b'x'; len]), Watch::new());
            let plan = SendPlan::new(mode, ty, RangeSet::up_to(len as u64));
            let mut sending = Box::pin(from.send(&source, &plan, &watch));
            let mut before = u64::MAX;
            while before != watch.bytes() || !watch.is_open() {
                before = watch.bytes();
                let stopped = tokio::time::timeout(Duration::from_millis(50), &mut sending).await;
                assert!(stopped.is_err(), "{stopped:?} while nobody read");
            }
            assert_eq!(pool.available(), 4, "{mode:?} {ty:?} {len}");
        }
    }
}

#[tokio::test]
async fn narrow_connections_move_every_byte_to_its_offset() {
    for mode in [Mode::Stream, Mode::Extended] {
        let (mut from, mut to) = (channel(), channel());
        from.options_mut().socket = narrow();
        for len in [0, 100, 1000, 60_000, 500_001] {
            if mode == Mode::Stream || len == 0 {
                let at = here().with(narrow());
                let address = to.listen(&tcp(), &at, Peers::Any).await.unwrap();
                from.connect_to(tcp(), vec![address]);
            }
            let content = bytes(len);
            let (sink, plan) = (Kept::default(), whole(mode, len as u64).parallelism(3));
            let source = Memory(content.clone());
            let (sent, _) = move_file(&mut from, &mut to, &source, &plan, &sink).await;
            assert!(sink.data() == content, "{mode:?} {len}");
            assert_eq!(sent.bytes, len as u64);
        }
    }
}

#[tokio::test]
async fn one_block_in_the_pool_is_enough() {
    let pool = Pool::new(4096, 1);
    let (mut from, mut to) = (with_pool(pool.clone()), with_pool(pool.clone()));
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    from.connect_to(tcp(), vec![address]);
    let content = bytes(500_000);
    let sink = Kept {
        slow: 2,
        ..Kept::default()
    };
    let plan = whole(Mode::Extended, 500_000).parallelism(4);
    move_file(&mut from, &mut to, &Memory(content.clone()), &plan, &sink).await;
    assert!(sink.data() == content);
    assert_eq!(pool.available(), 1);
}

#[tokio::test]
async fn a_file_that_is_not_in_memory_arrives_too() {
    let content = bytes(3_000_001);
    // On a disk, and written back: dirty pages, and a file system in memory, stay in the cache.
    let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    std::io::Write::write_all(&mut file, &content).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let (mut from, mut to) = pair().await;
    let (sink, plan) = (Kept::default(), whole(Mode::Stream, 3_000_001));
    move_file(&mut from, &mut to, &Disk::over(file), &plan, &sink).await;
    assert!(sink.data() == content);
}

/// A file that changes while it is sent.
struct Touched(Memory);

impl Source for Touched {
    fn size(&self) -> u64 {
        self.0.size()
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut, StorageError> {
        self.0.read_at(offset, into).await
    }

    async fn unchanged(&self) -> Result<(), StorageError> {
        Err(StorageError::new(StorageKind::Changed, "read"))
    }
}

#[tokio::test]
async fn a_file_that_changes_never_looks_whole() {
    for (mode, ty) in [
        (Mode::Stream, Type::Image),
        (Mode::Extended, Type::Image),
        (Mode::Stream, Type::Ascii),
        (Mode::Extended, Type::Ascii),
    ] {
        let (mut from, mut to) = pair().await;
        let source = Touched(Memory(bytes(200_000)));
        let plan = SendPlan::new(mode, ty, RangeSet::up_to(200_000));
        let taken = ReceivePlan::new(mode, ty);
        let (sink, sending, receiving) = (Kept::default(), Watch::new(), Watch::new());
        let (sent, got) = tokio::join!(
            from.send(&source, &plan, &sending),
            to.receive(&sink, &taken, &receiving)
        );
        let error = sent.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{mode:?} {ty:?}");
        assert!(got.is_err(), "{mode:?} {ty:?}: it looks whole");
    }
}

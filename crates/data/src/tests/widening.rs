//! MODE E connections beyond the starting number: they carry blocks when that helps, or end marks.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use ftp_wire::command::Tag;
use ftp_wire::opts::Parallelism;
use ftp_wire::receipt::Extent;
use mode_e::{HEADER_LEN, Header};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use xio_core::Transport;

use super::*;

/// Bytes of a header of the wire.
const HEAD: usize = HEADER_LEN;

fn widens(start: u32, most: u32) -> Parallelism {
    Parallelism::up_to(start, most)
}

/// A sending channel with this rate of each connection, in bytes a second, and a receiving one.
async fn paced_pair(rate: &str) -> (DataChannel, DataChannel) {
    let (mut to, mut from) = (channel(), channel());
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let mut registry = xio_core::Registry::new();
    registry.register(xio_tcp::driver());
    let paced = registry.stack(&format!("tcp:pacing={rate}")).unwrap();
    from.connect_to(paced, vec![address]);
    (from, to)
}

#[tokio::test]
async fn a_slow_connection_is_joined_by_others_within_a_file() {
    let content = bytes(32 << 20);
    let (mut from, mut to) = paced_pair("4M").await;
    let (sending, receiving, sink) = (Watch::new(), Watch::new(), Kept::default());
    let plan = whole(Mode::Extended, content.len() as u64).parallelism(widens(1, 4));
    let taken = incoming(Mode::Extended);
    let source = Memory(content);
    let (sent, got) = tokio::try_join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &taken, &receiving)
    )
    .unwrap();
    assert!(sink.data() == source.0);
    assert_eq!((sent.connections, got.connections), (4, 4), "all are open");
    assert!(sending.carrying() >= 2, "{} carried", sending.carrying());
    // One of them may have ended ahead of the others by now.
    let most = receiving.most_carrying();
    assert!(most >= 2, "{most}");
    // The next file goes over the same connections.
    let sink = Kept::default();
    let plan = whole(Mode::Extended, 3_000_000).parallelism(widens(1, 4));
    let source = Memory(bytes(3_000_000));
    let (_, got) = move_file(&mut from, &mut to, &source, &plan, &sink).await;
    assert!(sink.data() == source.0);
    assert_eq!(got.connections, 4);
}

#[tokio::test]
async fn connections_that_are_not_needed_get_their_marks_alone() {
    for tag in [None, Some(Tag::new(7, Extent::Head))] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut from = channel();
        from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
        let receiving = async {
            let mut wires = Vec::new();
            let mut streams = Vec::new();
            for _ in 0..3 {
                streams.push(listener.accept().await.unwrap().0);
            }
            for mut stream in streams {
                wires.push(tokio::spawn(async move {
                    let mut wire = Vec::new();
                    stream.read_to_end(&mut wire).await.unwrap();
                    wire
                }));
            }
            wires
        };
        let sending = async {
            let plan = whole(Mode::Extended, 1_000_000)
                .parallelism(widens(1, 3))
                .tag(tag);
            let watch = Watch::new();
            let source = Memory(bytes(1_000_000));
            from.send(&source, &plan, &watch).await.unwrap();
            assert_eq!((watch.connections(), watch.carrying()), (3, 1));
            // The connections end cleanly.
            from.reset();
        };
        let (wires, ()) = tokio::join!(receiving, sending);
        let mut short = 0;
        for wire in wires {
            let wire = wire.await.unwrap();
            let tags = tag.map(|tag| Header::of_tag(tag.number).to_bytes());
            let head = tags.map_or_else(Vec::new, Vec::from);
            assert!(wire.starts_with(&head), "the tag comes first");
            let rest = wire.get(head.len()..).unwrap();
            if rest.len() == HEAD {
                assert_eq!(rest, Header::eod().to_bytes());
                short += 1;
            } else {
                assert!(rest.len() > 1_000_000);
                assert!(rest.ends_with(&Header::eof(3).to_bytes()));
            }
        }
        assert_eq!(short, 2);
    }
}

/// A source that gives its second block once it is told to.
struct Held {
    content: Memory,
    go: Arc<Notify>,
}

impl Source for Held {
    fn size(&self) -> u64 {
        self.content.size()
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut, StorageError> {
        if offset >= 500_000 {
            self.go.notified().await;
            self.go.notify_one();
        }
        self.content.read_at(offset, into).await
    }
}

/// A firewall may forget a connection that is silent for minutes, and its end mark would be lost.
#[tokio::test(start_paused = true)]
async fn connections_that_are_not_needed_end_while_the_file_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut from = channel();
    let long = Duration::from_secs(3600);
    from.options_mut().stall = long;
    from.options_mut().open_within = long;
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    let go = Arc::new(Notify::new());
    let source = Held {
        content: Memory(bytes(1_000_000)),
        go: Arc::clone(&go),
    };
    let receiving = async {
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(listener.accept().await.unwrap().0);
        }
        let mut rest = Vec::new();
        let mut ended = 0;
        for mut stream in streams {
            let mut head = [0; HEAD];
            stream.read_exact(&mut head).await.unwrap();
            if head == Header::eod().to_bytes() {
                ended += 1;
            } else {
                rest.push(stream);
            }
        }
        assert_eq!((ended, rest.len()), (2, 1), "ahead of the others");
        go.notify_one();
        let mut wire = Vec::new();
        rest.remove(0).read_to_end(&mut wire).await.unwrap();
        assert!(wire.ends_with(&Header::eof(3).to_bytes()));
        assert!(wire.len() > 1_000_000);
    };
    let plan = whole(Mode::Extended, 1_000_000).parallelism(widens(1, 3));
    let watch = Watch::new();
    let sending = async {
        from.send(&source, &plan, &watch).await.unwrap();
        from.reset();
    };
    tokio::join!(receiving, sending);
}

#[tokio::test]
async fn connections_that_the_peer_does_not_take_are_done_without() {
    let (mut from, mut to) = pair().await;
    // Room for two of them.
    from = from.with_descriptors(crate::Descriptors::new(2));
    let sink = Kept::default();
    let source = Memory(bytes(500_000));
    let plan = whole(Mode::Extended, 500_000).parallelism(widens(1, 4));
    let (sent, _) = move_file(&mut from, &mut to, &source, &plan, &sink).await;
    assert!(sink.data() == source.0);
    assert_eq!(sent.connections, 2);
    // Those of the start are needed.
    let (mut from, _to) = pair().await;
    from = from.with_descriptors(crate::Descriptors::new(2));
    let plan = whole(Mode::Extended, 500_000).parallelism(widens(3, 4));
    let error = from.send(&source, &plan, &Watch::new()).await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Full);
}

/// TCP; the connections behind the first ones wait for a handshake for ever.
struct Hanging {
    left: AtomicU32,
    hung: Mutex<Vec<<Tcp as Transport>::Handle>>,
}

impl Transport for Hanging {
    type Handle = <Tcp as Transport>::Handle;

    async fn connect(&self, to: &Target) -> xio_core::Result<Self::Handle> {
        let next = |left: u32| left.checked_sub(1);
        let opens = self.left.fetch_update(SeqCst, SeqCst, next).is_ok();
        let connected = Tcp::default().connect(to).await?;
        if opens {
            return Ok(connected);
        }
        self.hung.lock().unwrap().push(connected);
        std::future::pending().await
    }
}

/// The receiver has accepted those that the sender gives up, and every connection of it needs a mark.
#[tokio::test]
async fn a_transfer_begins_without_connections_that_do_not_open_in_time() {
    let (mut to, mut from) = (channel(), channel());
    to.options_mut().marks_from_all = true;
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let hanging = Hanging {
        left: AtomicU32::new(2),
        hung: Mutex::default(),
    };
    from.connect_to(DynStack::active(hanging, "hanging"), vec![address]);
    let tag = Some(Tag::new(1, Extent::Head));
    let plan = whole(Mode::Extended, 500_000)
        .parallelism(widens(1, 3))
        .tag(tag);
    let taken = incoming(Mode::Extended).tag(tag);
    let (source, sink) = (Memory(bytes(500_000)), Kept::default());
    let (sending, receiving) = (Watch::new(), Watch::new());
    let (sent, got) = tokio::join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &taken, &receiving)
    );
    assert_eq!(sent.unwrap().connections, 2);
    got.unwrap();
    assert!(sink.data() == source.0);
}

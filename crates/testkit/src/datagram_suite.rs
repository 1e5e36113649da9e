//! Requirements on datagram sockets: boundaries, batches, addresses, truncation, errors,
//! cancellation.
//!
//! The host must not lose datagrams between its own sockets; loopback does not while buffers
//! suffice.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use xio_core::{
    BATCH_BYTES, Bind, BoxDatagram, Datagram, DynBind, Error, Received, SocketHints, Target,
    Transmit,
};

use crate::random::Random;

/// A driver of datagram sockets under test.
#[derive(Debug, Clone)]
pub struct Subject {
    bind: DynBind,
    at: Target,
    name: String,
}

impl Subject {
    /// Creates the subject for the driver `name`, with sockets bound at `at`.
    #[must_use]
    pub fn new(bind: DynBind, at: Target, name: &str) -> Self {
        let name = name.to_owned();
        Self { bind, at, name }
    }

    async fn socket(&self) -> BoxDatagram {
        self.bind.bind(&self.at).await.expect("binding")
    }

    /// Binds a socket for one peer.
    async fn socket_for(&self, peer: SocketAddr) -> BoxDatagram {
        let at = Target::default().with(SocketHints::new().peer(peer));
        self.bind.bind(&at).await.expect("binding for one peer")
    }
}

type Case = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

const CASES: &[(&str, Case)] = &[
    ("a socket describes its driver and address", |s| {
        Box::pin(described(s))
    }),
    ("boundaries are kept", |s| Box::pin(boundaries(s))),
    ("a message has a source and a destination address", |s| {
        Box::pin(origins(s))
    }),
    ("a batch arrives as single messages", |s| {
        Box::pin(batches(s))
    }),
    ("one receive fills several buffers", |s| {
        Box::pin(several_buffers(s))
    }),
    ("a truncated message is marked", |s| Box::pin(cut_off(s))),
    ("a message that is too long is refused", |s| {
        Box::pin(too_long(s))
    }),
    ("dropping a receive loses nothing", |s| {
        Box::pin(receive_cancelled(s))
    }),
    ("several tasks can send", |s| Box::pin(many_senders(s))),
    ("a socket for one peer receives from it only", |s| {
        Box::pin(one_peer(s))
    }),
    ("a refusal reaches the socket for one peer", |s| {
        Box::pin(refusal(s))
    }),
    ("sending without a destination is an error", |s| {
        Box::pin(no_destination(s))
    }),
    ("dropping frees the port", |s| Box::pin(freed(s))),
];

/// Runs every case on a driver.
///
/// # Panics
/// When a case fails, or does not end within half a minute.
pub async fn run(subject: &Subject) {
    for (name, case) in CASES {
        let ended = tokio::time::timeout(Duration::from_secs(30), case(subject)).await;
        assert!(
            ended.is_ok(),
            "{:?}: {name}: did not end in time",
            subject.bind
        );
    }
}

fn address(socket: &BoxDatagram) -> SocketAddr {
    socket.info().local.expect("a socket knows its address")
}

async fn send(socket: &BoxDatagram, message: Transmit<'_>) -> io::Result<()> {
    poll_fn(|cx| socket.poll_send(cx, &message)).await
}

/// A socket, and received messages of a joined buffer.
struct Inbox<'a> {
    socket: &'a BoxDatagram,
    waiting: VecDeque<(Vec<u8>, Received)>,
}

impl<'a> Inbox<'a> {
    fn new(socket: &'a BoxDatagram) -> Self {
        let waiting = VecDeque::new();
        Self { socket, waiting }
    }

    async fn next(&mut self) -> (Vec<u8>, Received) {
        let mut room = vec![0; 65_536];
        while self.waiting.is_empty() {
            let mut meta = [None];
            let mut bufs = [IoSliceMut::new(&mut room)];
            let filled = poll_fn(|cx| self.socket.poll_recv(cx, &mut bufs, &mut meta)).await;
            assert_eq!(filled.expect("receiving"), 1);
            let meta = meta[0].expect("a filled buffer is described");
            assert!(!meta.cut, "the longest message fits");
            let bytes = room
                .get(..meta.len)
                .expect("no more than there is room for");
            match bytes.len() {
                0 => self.waiting.push_back((Vec::new(), meta)),
                _ => {
                    let parts = bytes.chunks(meta.segment);
                    self.waiting.extend(parts.map(|part| (part.to_vec(), meta)));
                }
            }
        }
        self.waiting.pop_front().expect("one is waiting")
    }
}

async fn described(subject: &Subject) {
    let socket = subject.socket().await;
    assert_eq!(socket.info().chain, [subject.name.as_str()]);
    assert!(address(&socket).port() > 0 && socket.info().peer.is_none());
    assert!(socket.max_batch() >= 1 && socket.max_joined() >= 1);
    let one = subject.socket_for(address(&socket)).await;
    assert_eq!(one.info().peer, Some(address(&socket)));
}

async fn boundaries(subject: &Subject) {
    let (near, far) = (subject.socket().await, subject.socket().await);
    let (to, mut inbox) = (address(&far), Inbox::new(&far));
    let mut random = Random::new(7);
    for size in [1, 0, 2, 1500, 1472, 3, 9000, 65_000, 1] {
        let bytes = random.bytes(size);
        send(&near, Transmit::new(&bytes).to(to))
            .await
            .expect("sending");
        assert!(inbox.next().await.0 == bytes, "a message of {size} bytes");
    }
}

async fn origins(subject: &Subject) {
    let (first, second, far) = (
        subject.socket().await,
        subject.socket().await,
        subject.socket().await,
    );
    let mut inbox = Inbox::new(&far);
    for near in [&first, &second, &first] {
        send(near, Transmit::new(b"who?").to(address(&far)))
            .await
            .expect("sending");
        let (_, meta) = inbox.next().await;
        assert_eq!(meta.from, address(near));
        assert!(meta.to.is_none_or(|to| to == address(&far).ip()));
        // The answer's source is the question's destination.
        let mut answer = Transmit::new(b"you").to(meta.from);
        answer.from = meta.to;
        send(&far, answer).await.expect("answering");
        let (bytes, meta) = Inbox::new(near).next().await;
        assert_eq!((bytes.as_slice(), meta.from), (&b"you"[..], address(&far)));
    }
}

async fn batches(subject: &Subject) {
    let (near, far) = (subject.socket().await, subject.socket().await);
    let (to, mut inbox) = (address(&far), Inbox::new(&far));
    let mut random = Random::new(8);
    for (segment, count, last) in [
        (1000, 3, 1000),
        (1472, 44, 1),
        (100, 64, 99),
        (5, 2, 5),
        (7, 1, 3),
    ] {
        // Without batches, each message is sent alone.
        let count = near.max_batch().min(count);
        assert!(segment * count <= BATCH_BYTES);
        let bytes = random.bytes(segment * (count - 1) + last);
        let batch = Transmit::new(&bytes).to(to).segmented(segment);
        send(&near, batch).await.expect("sending");
        for part in bytes.chunks(segment) {
            assert!(
                inbox.next().await.0 == part,
                "{count} messages of {segment}"
            );
        }
    }
    assert!(inbox.waiting.is_empty());
}

async fn several_buffers(subject: &Subject) {
    let (near, far) = (subject.socket().await, subject.socket().await);
    // Of different sizes, so that they are not joined.
    let sent: Vec<Vec<u8>> = (1..=3).map(|size| vec![size; usize::from(size)]).collect();
    for bytes in &sent {
        send(&near, Transmit::new(bytes).to(address(&far)))
            .await
            .expect("sending");
    }
    let mut arrived = Vec::new();
    while arrived.len() < sent.len() {
        let mut rooms = [[0; 2048]; 4];
        let mut bufs = rooms.each_mut().map(|room| IoSliceMut::new(room));
        let mut meta = [None; 4];
        let filled = poll_fn(|cx| far.poll_recv(cx, &mut bufs, &mut meta)).await;
        let filled = filled.expect("receiving");
        assert!((1..=4).contains(&filled));
        for (room, meta) in rooms.iter().zip(meta).take(filled) {
            let meta = meta.expect("a filled buffer is described");
            arrived.extend(
                room.get(..meta.len)
                    .unwrap_or_default()
                    .chunks(meta.segment)
                    .map(<[u8]>::to_vec),
            );
        }
    }
    assert_eq!(arrived, sent);
}

async fn cut_off(subject: &Subject) {
    let (near, far) = (subject.socket().await, subject.socket().await);
    send(&near, Transmit::new(&[b'x'; 1000]).to(address(&far)))
        .await
        .expect("sending");
    let mut room = [0; 100];
    let mut meta = [None];
    let mut bufs = [IoSliceMut::new(&mut room)];
    let filled = poll_fn(|cx| far.poll_recv(cx, &mut bufs, &mut meta)).await;
    assert_eq!(filled.expect("receiving"), 1);
    let meta = meta[0].expect("a filled buffer is described");
    assert!(meta.cut && meta.len == 100, "the truncation is not marked");
    send(&near, Transmit::new(b"the next").to(address(&far)))
        .await
        .expect("sending");
    assert_eq!(Inbox::new(&far).next().await.0, b"the next");
}

async fn too_long(subject: &Subject) {
    let (near, far) = (subject.socket().await, subject.socket().await);
    let long = vec![0; 70_000];
    let error = send(&near, Transmit::new(&long).to(address(&far))).await;
    let error = error.expect_err("no datagram holds 70,000 bytes");
    assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
    send(&near, Transmit::new(b"short").to(address(&far)))
        .await
        .expect("sending");
    assert_eq!(Inbox::new(&far).next().await.0, b"short");
}

async fn receive_cancelled(subject: &Subject) {
    let (near, far) = (subject.socket().await, subject.socket().await);
    let mut inbox = Inbox::new(&far);
    for round in 0..20_u8 {
        let waits = poll_fn(|cx| Poll::Ready(pin!(inbox.next()).poll(cx).is_pending())).await;
        assert!(waits, "no message is in flight");
        send(&near, Transmit::new(&[round; 9]).to(address(&far)))
            .await
            .expect("sending");
        assert_eq!(inbox.next().await.0, [round; 9]);
    }
}

async fn many_senders(subject: &Subject) {
    let far = subject.socket().await;
    let (to, mut inbox) = (address(&far), Inbox::new(&far));
    let near = subject.socket().await;
    let sending = async |mark: u8| {
        for round in 0..50 {
            send(&near, Transmit::new(&[mark, round]).to(to))
                .await
                .expect("sending");
            tokio::task::yield_now().await;
        }
    };
    let receiving = async {
        let mut next = [0; 3];
        for _ in 0..150 {
            let (bytes, _) = inbox.next().await;
            let [mark, round] = bytes[..] else {
                panic!("{} bytes", bytes.len());
            };
            let expected = next.get_mut(usize::from(mark)).expect("one of the senders");
            assert_eq!(*expected, round, "messages of one sender are in order");
            *expected += 1;
        }
    };
    tokio::join!(sending(0), sending(1), sending(2), receiving);
}

async fn one_peer(subject: &Subject) {
    let (friend, stranger) = (subject.socket().await, subject.socket().await);
    let one = subject.socket_for(address(&friend)).await;
    send(&one, Transmit::new(b"hello")).await.expect("sending");
    let (bytes, meta) = Inbox::new(&friend).next().await;
    assert_eq!(bytes, b"hello");
    assert_eq!(meta.from, address(&one));
    send(&stranger, Transmit::new(b"noise").to(meta.from))
        .await
        .expect("sending");
    send(&friend, Transmit::new(b"answer").to(meta.from))
        .await
        .expect("sending");
    let (bytes, meta) = Inbox::new(&one).next().await;
    assert_eq!(
        (bytes.as_slice(), meta.from),
        (&b"answer"[..], address(&friend))
    );
}

async fn refusal(subject: &Subject) {
    let gone = subject.socket().await;
    let one = subject.socket_for(address(&gone)).await;
    drop(gone);
    send(&one, Transmit::new(b"anyone?"))
        .await
        .expect("sending");
    let mut room = [0; 10];
    let mut meta = [None];
    let mut bufs = [IoSliceMut::new(&mut room)];
    let error = poll_fn(|cx| one.poll_recv(cx, &mut bufs, &mut meta)).await;
    let error = error.expect_err("the peer's port is closed");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
}

async fn no_destination(subject: &Subject) {
    let socket = subject.socket().await;
    let error = send(&socket, Transmit::new(b"x")).await;
    let error = error.expect_err("this socket has no peer");
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
}

async fn freed(subject: &Subject) {
    let socket = subject.socket().await;
    let at = Target::from(address(&socket));
    let taken = subject.bind.bind(&at).await.expect_err("the port is taken");
    assert_eq!(taken.kind(), xio_core::ErrorKind::AddressInUse, "{taken}");
    drop(socket);
    let again = subject
        .bind
        .bind(&at)
        .await
        .expect("the port is free again");
    assert_eq!(Target::from(address(&again)), at);
}

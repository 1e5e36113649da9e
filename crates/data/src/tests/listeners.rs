//! Data listeners that are attended: those of stacks with layers.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ftp_wire::command::Mode;
use tokio::net::{TcpSocket, TcpStream};
use xio_core::{
    DynStack, Error, ErrorKind, Info, Listener, Operation, Passive, Target, Transform, Transport,
};
use xio_tcp::{Tcp, TcpHandle, TcpIncoming};

use super::{Kept, Memory, bytes, channel, here, incoming, move_file, tcp, whole};
use crate::{Descriptors, ErrorKind as DataErrorKind, Peers, Wait, Watch};

/// A layer that changes no bytes.
struct Nothing;

impl<H: Send + 'static> Transform<H> for Nothing {
    type Handle = H;

    async fn respond(&self, inner: H) -> xio_core::Result<H> {
        Ok(inner)
    }

    fn describe(&self, info: &mut Info) {
        info.layer("nothing");
    }
}

fn layered() -> DynStack {
    DynStack::new(Tcp::default().push(Nothing), "tcp,nothing")
}

/// A layer with a key.
struct Keyed(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl<H: Send + 'static> Transform<H> for Keyed {
    type Handle = H;

    async fn initiate(&self, inner: H, _: &Target) -> xio_core::Result<H> {
        Ok(inner)
    }

    async fn respond(&self, inner: H) -> xio_core::Result<H> {
        Ok(inner)
    }

    fn describe(&self, info: &mut Info) {
        info.layer("keyed");
    }
}

/// A layer holds the credential of a user.
#[tokio::test]
async fn a_layer_is_dropped_when_no_connection_can_need_it() {
    let content = bytes(100);
    for mode in [Mode::Stream, Mode::Extended] {
        let key = Arc::new(());
        let keyed = || DynStack::new(Tcp::default().push(Keyed(Arc::clone(&key))), "tcp,keyed");
        let (mut from, mut to) = (channel(), channel());
        let address = to.listen(&keyed(), &here(), Peers::Any).await.unwrap();
        from.connect_to(keyed(), vec![address]);
        let (source, sink) = (Memory(content.clone()), Kept::default());
        move_file(&mut from, &mut to, &source, &whole(mode, 100), &sink).await;
        if mode == Mode::Extended {
            // The set-up serves the next transfer as well.
            assert_eq!(Arc::strong_count(&key), 3);
            from.reset();
            to.reset();
        }
        let dropped = async {
            while Arc::strong_count(&key) > 1 {
                tokio::task::yield_now().await;
            }
        };
        let dropped = tokio::time::timeout(std::time::Duration::from_secs(20), dropped);
        dropped.await.expect("the layer is dropped");
    }
}

#[tokio::test]
async fn a_released_port_is_free_at_once() {
    let (mut from, mut to) = (channel(), channel());
    let address = to.listen(&layered(), &here(), Peers::Any).await.unwrap();
    let again = Target::from(address);
    to.listen(&layered(), &again, Peers::Any).await.unwrap();
    to.reset();
    to.listen(&layered(), &again, Peers::Any).await.unwrap();
    from.connect_to(tcp(), vec![address]);
    let (file, sink) = (Memory(bytes(70_000)), Kept::default());
    let plan = whole(Mode::Stream, 70_000);
    move_file(&mut from, &mut to, &file, &plan, &sink).await;
    assert_eq!(sink.data(), bytes(70_000));
    to.listen(&layered(), &again, Peers::Any).await.unwrap();
    drop(to);
    tokio::task::yield_now().await;
    let mut other = channel();
    other.listen(&tcp(), &again, Peers::Any).await.unwrap();
}

#[tokio::test]
async fn a_connection_to_a_released_port_is_closed() {
    let mut to = channel();
    let address = to.listen(&layered(), &here(), Peers::Any).await.unwrap();
    let early = TcpStream::connect(address).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let late = TcpStream::connect(address).await.unwrap();
    to.reset();
    for mut peer in [early, late] {
        let end = tokio::io::AsyncReadExt::read(&mut peer, &mut [0]).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}

/// A listener that fails every accept.
struct Broken(Arc<AtomicUsize>);

impl Transport for Broken {
    type Handle = TcpHandle;

    async fn connect(&self, to: &Target) -> xio_core::Result<TcpHandle> {
        Tcp::default().connect(to).await
    }
}

impl Passive for Broken {
    type Listener = BrokenListener;

    async fn listen(&self, _: &Target) -> xio_core::Result<BrokenListener> {
        Ok(BrokenListener(Arc::clone(&self.0)))
    }
}

struct BrokenListener(Arc<AtomicUsize>);

impl Listener for BrokenListener {
    type Handle = TcpHandle;
    type Incoming = TcpIncoming;

    async fn accept(&mut self) -> xio_core::Result<TcpIncoming> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let fact = "no descriptor is left";
        Err(Error::new(ErrorKind::Io, "broken", Operation::Accept, fact))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("tcp");
        info.layer("broken");
        info.local = Some(([127, 0, 0, 1], 1).into());
    }
}

#[tokio::test]
async fn a_listener_that_fails_is_polled_again_once_its_error_is_read() {
    let asked = Arc::default();
    let stack = DynStack::new(Broken(Arc::clone(&asked)), "tcp,broken");
    let mut to = channel();
    to.listen(&stack, &here(), Peers::Any).await.unwrap();
    for transfers in 1..4 {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), transfers);
        let (sink, watch, plan) = (Kept::default(), Watch::new(), incoming(Mode::Stream));
        let error = to.receive(&sink, &plan, &watch).await.unwrap_err();
        assert_eq!(error.kind(), DataErrorKind::Open);
    }
}

/// A layer that runs a closure in each handshake of its listener.
struct Shaking<F>(F);

impl<S, F, W> Transform<S> for Shaking<F>
where
    S: xio_core::Stream,
    F: Fn() -> W + Send + Sync + 'static,
    W: Future<Output = xio_core::Result<()>> + Send,
{
    type Handle = S;

    async fn initiate(&self, inner: S, _: &Target) -> xio_core::Result<S> {
        Ok(inner)
    }

    async fn respond(&self, inner: S) -> xio_core::Result<S> {
        (self.0)().await.map(|()| inner)
    }

    fn describe(&self, info: &mut Info) {
        info.layer("shaking");
    }
}

fn shaking<F, W>(handshake: F) -> DynStack
where
    F: Fn() -> W + Send + Sync + 'static,
    W: Future<Output = xio_core::Result<()>> + Send + 'static,
{
    let layer = xio_core::DynLayer::new(Shaking(handshake));
    tcp().layer(layer, &xio_core::Entry::new("shaking").unwrap())
}

/// Says of the first `count` calls that they are among the first.
fn first(count: usize) -> impl Fn() -> bool + Send + Sync + 'static {
    let left = AtomicUsize::new(count);
    move || {
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        taken.is_ok()
    }
}

/// Refuses the first handshakes.
fn picky(refusals: usize) -> DynStack {
    let is_refused = first(refusals);
    shaking(move || {
        let (kind, fact) = (ErrorKind::Security, "a stranger");
        std::future::ready(match is_refused() {
            true => Err(Error::new(kind, "picky", Operation::Open, fact)),
            false => Ok(()),
        })
    })
}

#[tokio::test]
async fn a_strangers_handshake_does_not_end_the_transfer() {
    let (mut from, mut to) = (channel(), channel());
    let address = to.listen(&picky(2), &here(), Peers::Any).await.unwrap();
    // The port may close them at once.
    let _strangers = [
        TcpStream::connect(address).await,
        TcpStream::connect(address).await,
    ];
    from.connect_to(tcp(), vec![address]);
    let (file, plan, sink) = (
        Memory(bytes(70_000)),
        whole(Mode::Stream, 70_000),
        Kept::default(),
    );
    move_file(&mut from, &mut to, &file, &plan, &sink).await;
    assert_eq!(sink.data(), bytes(70_000));
}

#[tokio::test(start_paused = true)]
async fn a_port_tells_the_first_hosts_that_it_refused() {
    for stack in [tcp(), layered()] {
        let mut to = channel();
        let own = Peers::Only(Ipv4Addr::LOCALHOST.into());
        let address = to.listen(&stack, &here(), own).await.unwrap();
        let mut strangers = Vec::new();
        for n in [2, 3, 2, 4, 5] {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, n], 0).into()).unwrap();
            // The port may refuse it at once.
            strangers.push(socket.connect(address).await);
        }
        let (sink, watch, plan) = (Kept::default(), Watch::new(), incoming(Mode::Extended));
        let error = to.receive(&sink, &plan, &watch).await.unwrap_err();
        assert_eq!(error.kind(), DataErrorKind::Timeout(Wait::Accept));
        let first = [2, 3, 4].map(|n| IpAddr::from([127, 0, 0, n]));
        assert_eq!(to.refused(), first);
        to.reset();
        assert!(to.refused().is_empty());
    }
}

/// The streams of another server, which connect at once, are no flood.
#[tokio::test]
async fn many_streams_of_another_host_are_served() {
    // No handshake ends before all have begun.
    let all = Arc::new(tokio::sync::Barrier::new(40));
    let together = shaking(move || {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Ok(())
        }
    });
    let (mut from, mut to) = (channel(), channel());
    let elsewhere = Peers::AnyBeside([192, 0, 2, 1].into());
    let address = to.listen(&together, &here(), elsewhere).await.unwrap();
    from.connect_to(tcp(), vec![address]);
    let (file, sink) = (Memory(bytes(3_000_000)), Kept::default());
    let plan = whole(Mode::Extended, 3_000_000).parallelism(40);
    move_file(&mut from, &mut to, &file, &plan, &sink).await;
    assert_eq!(sink.data(), bytes(3_000_000));
}

/// Strangers that connect and say nothing hold every place for some seconds at most.
#[tokio::test(start_paused = true)]
async fn silent_strangers_keep_the_peer_waiting_for_seconds_only() {
    let is_unanswered = first(40);
    let deaf = shaking(move || {
        let is_unanswered = is_unanswered();
        async move {
            if is_unanswered {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    });
    let (mut from, mut to) = (channel(), channel());
    let address = to.listen(&deaf, &here(), Peers::Any).await.unwrap();
    let mut strangers = Vec::new();
    for _ in 0..40 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    let begun = tokio::time::Instant::now();
    from.connect_to(tcp(), vec![address]);
    let (file, plan, sink) = (
        Memory(bytes(70_000)),
        whole(Mode::Stream, 70_000),
        Kept::default(),
    );
    move_file(&mut from, &mut to, &file, &plan, &sink).await;
    assert_eq!(sink.data(), bytes(70_000));
    let waited = begun.elapsed().as_secs();
    assert!(waited < 10, "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_failed_handshake_is_the_reason_where_no_connection_follows() {
    let mut to = channel();
    let address = to.listen(&picky(1), &here(), Peers::Any).await.unwrap();
    let _client = TcpStream::connect(address).await.unwrap();
    let (sink, watch, plan) = (Kept::default(), Watch::new(), incoming(Mode::Stream));
    let error = to.receive(&sink, &plan, &watch).await.unwrap_err();
    assert_eq!(error.kind(), DataErrorKind::Open);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("a stranger"), "{cause}");
}

#[tokio::test]
async fn a_connection_refused_after_its_transfer_is_no_failure_of_the_next() {
    let (mut from, mut to) = (channel(), channel().with_descriptors(Descriptors::new(2)));
    let address = to.listen(&layered(), &here(), Peers::Any).await.unwrap();
    from.connect_to(tcp(), vec![address]);
    let (file, plan) = (Memory(bytes(70_000)), whole(Mode::Extended, 70_000));
    for _ in 0..2 {
        let sink = Kept::default();
        move_file(&mut from, &mut to, &file, &plan, &sink).await;
        assert_eq!(sink.data(), bytes(70_000));
        let mut late = TcpStream::connect(address).await.unwrap();
        let end = tokio::io::AsyncReadExt::read(&mut late, &mut [0]).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}

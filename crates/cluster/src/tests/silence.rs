//! Frozen ends, on paused time and without sockets.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use ftp_wire::command::StackSide;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::{Double, Lab, handle, next, open, until};
use crate::connections::State;
use crate::error::Error;
use crate::identity::Peer;
use crate::link::{self, Work};
use crate::member::Member;
use crate::message::{FromNode, ToNode};
use crate::node::Node;
use crate::nodes::Nodes;

/// A stream to an end that stops, as the peer of a stopped process sees it.
struct Frozen(DuplexStream, Arc<AtomicBool>);

impl AsyncRead for Frozen {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.1.load(Ordering::Relaxed) {
            true => Poll::Pending,
            false => Pin::new(&mut self.0).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Frozen {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.1.load(Ordering::Relaxed) {
            // Into the buffer of the kernel.
            true => Poll::Ready(Ok(buf.len())),
            false => Pin::new(&mut self.0).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The verified peer that a member is.
fn peer(member: &Member) -> Peer {
    Peer {
        identity: member.identity().clone(),
        issued: SystemTime::now(),
        not_after: SystemTime::now() + Duration::from_secs(86_400 * 30),
    }
}

/// A front end with one node, and the switch that freezes the connection between them.
struct Pair {
    nodes: Nodes,
    frozen: Arc<AtomicBool>,
    events: mpsc::UnboundedReceiver<String>,
    _ends: [Work; 2],
    _lab: Lab,
}

impl Pair {
    fn new() -> Self {
        let lab = Lab::new();
        let (nodes, (double, events)) = (lab.nodes(), Double::new());
        let node = lab.node("one", &double);
        let frozen = Arc::new(AtomicBool::new(false));
        let (here, there) = duplex(1 << 16);
        let there = Frozen(there, Arc::clone(&frozen));
        let front = peer(&lab.front());
        let of_node = peer(&Member::load(lab.path("one")).unwrap());
        let attending = nodes.clone();
        let ends = [
            Work::spawn(async move {
                let _ = attending
                    .attend(here, of_node, "here", State::default())
                    .await;
            }),
            Work::spawn(async move {
                let _ = node.serve(there, front, State::default()).await;
            }),
        ];
        Self {
            nodes,
            frozen,
            events,
            _ends: ends,
            _lab: lab,
        }
    }

    fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_connection_is_noticed_by_both_ends_within_four_seconds() {
    let mut pair = Pair::new();
    let mut session = handle(&pair.nodes, "one")
        .await
        .session(open("a"))
        .await
        .unwrap();
    assert_eq!(next(&mut pair.events).await, "a from front");
    let begun = Instant::now();
    pair.freeze();
    let error = session.recv().await.unwrap_err();
    assert!(
        matches!(&error, Error::Silent { peer, .. } if peer == "one"),
        "{error}"
    );
    assert_eq!(next(&mut pair.events).await, "a ended");
    until(&pair.nodes, &[]).await;
    assert!(
        begun.elapsed() <= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_frozen_node_is_the_last_choice_and_opens_no_session() {
    let pair = Pair::new();
    let node = handle(&pair.nodes, "one").await;
    pair.freeze();
    let begun = Instant::now();
    sleep(Duration::from_millis(2500)).await;
    assert!(pair.nodes.list()[0].late);
    assert!(node.session(open("a")).await.is_err());
    assert!(
        begun.elapsed() <= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_process_replaces_one_that_is_silent() {
    let pair = Pair::new();
    until(&pair.nodes, &["one"]).await;
    pair.freeze();
    let begun = Instant::now();
    sleep(Duration::from_millis(2500)).await;
    let member = Member::load(pair._lab.path("one")).unwrap();
    let (of_node, front) = (peer(&member), peer(&pair._lab.front()));
    let (double, _) = Double::new();
    let second = Node::new(member, Arc::new(double), "node 2.0").unwrap();
    let (here, there) = duplex(1 << 16);
    let attending = pair.nodes.clone();
    let _ends = [
        Work::spawn(async move {
            let state = State::default();
            let _ = attending.attend(here, of_node, "there", state).await;
        }),
        Work::spawn(async move {
            let _ = second.serve(there, front, State::default()).await;
        }),
    ];
    let mut changes = pair.nodes.changes();
    while pair.nodes.list()[0].version.program != "node 2.0" {
        changes.changed().await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_millis(3500));
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_lives_by_heartbeats() {
    let pair = Pair::new();
    let mut session = handle(&pair.nodes, "one")
        .await
        .session(open("a"))
        .await
        .unwrap();
    sleep(Duration::from_secs(3600)).await;
    session
        .send(ToNode::Stack(StackSide::Net, None))
        .await
        .unwrap();
    assert_eq!(session.recv().await.unwrap(), FromNode::Done);
}

#[tokio::test(start_paused = true)]
async fn a_front_end_that_freezes_before_it_registers_the_node_is_noticed() {
    let lab = Lab::new();
    let (double, _) = Double::new();
    let node = lab.node("one", &double);
    let frozen = Arc::new(AtomicBool::new(false));
    let (here, there) = duplex(1 << 16);
    let front = peer(&lab.front());
    let serving = node.serve(Frozen(there, Arc::clone(&frozen)), front, State::default());
    let (_caller, connection) = link::call(here).await.unwrap();
    let _connection = Work::spawn(async { drop(connection.await) });
    let begun = Instant::now();
    let freezing = async {
        sleep(Duration::from_secs(60)).await;
        frozen.store(true, Ordering::Relaxed);
    };
    let (end, ()) = tokio::join!(soon_paused(serving), freezing);
    let error = end.unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
    let noticed = begun.elapsed() - Duration::from_secs(60);
    assert!(noticed <= Duration::from_secs(7), "{noticed:?}");
}

/// No stream is open, so that the pings alone tell it.
#[tokio::test(start_paused = true)]
async fn a_node_that_freezes_without_a_call_is_noticed() {
    let lab = Lab::new();
    let (double, _) = Double::new();
    let node = lab.node("one", &double);
    let (here, there) = duplex(1 << 16);
    let front = peer(&lab.front());
    let minute = Duration::from_secs(60);
    let _node = Work::spawn(async move {
        let mut serving = pin!(node.serve(there, front, State::default()));
        let _ = timeout(minute, &mut serving).await;
        // As a stopped process, it sends no pings and closes nothing.
        std::future::pending().await
    });
    let (_caller, connection) = link::call(here).await.unwrap();
    let begun = Instant::now();
    soon_paused(connection).await.unwrap_err();
    let noticed = begun.elapsed().checked_sub(minute).unwrap();
    assert!(noticed <= Duration::from_secs(7), "{noticed:?}");
}

/// As `soon`, with more time, as the clock runs ahead.
async fn soon_paused<F: Future>(event: F) -> F::Output {
    timeout(Duration::from_secs(600), event).await.unwrap()
}

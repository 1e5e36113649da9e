//! Connections that arrive late, break, lie or are foreign.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use xio_core::{Control, Incoming, Info, Listener, Observer, Passive, Tap, Transform};
use xio_testkit::{Mem, MemHandle, Random};

use mode_e::{Flags, Header};

use super::*;

type Handle = ModeEHandle<MemHandle>;

fn place() -> Target {
    "mem:1".parse().unwrap()
}

/// A listening end, and a network on which connections to it are made by hand.
async fn listening() -> (ModeEPassive<xio_testkit::MemListener>, Mem) {
    let net = Mem::new();
    let listener = ModeE::over(net.clone()).listen(&place()).await.unwrap();
    (listener, net)
}

async fn accept(listener: &mut ModeEPassive<xio_testkit::MemListener>) -> Handle {
    listener.accept().await.unwrap().open().await.unwrap()
}

/// A connection that sends these blocks and headers, and ends.
async fn lane(net: &Mem, parts: &[(Header, &[u8])]) -> MemHandle {
    let mut lane = net.connect(&place()).await.unwrap();
    for (header, bytes) in parts {
        lane.write_all(&header.to_bytes()).await.unwrap();
        lane.write_all(bytes).await.unwrap();
    }
    lane
}

async fn read(mut from: impl AsyncRead + Unpin) -> (Vec<u8>, Option<String>) {
    let mut bytes = Vec::new();
    let ended = from.read_to_end(&mut bytes).await;
    (bytes, ended.err().map(|error| error.to_string()))
}

fn data(offset: u64, bytes: &[u8]) -> (Header, &[u8]) {
    (Header::data(offset, bytes.len() as u64), bytes)
}

#[tokio::test]
async fn a_stream_crosses_any_number_of_connections_whole() {
    for (streams, block) in [(1, "1K"), (2, "64K"), (7, "1K"), (64, "3000")] {
        let net = Mem::new().chunks(4000).seed(u64::from(streams));
        let options = format!("block={block}").parse().unwrap();
        let stack = ModeE::over(net).with_options(options).streams(streams);
        let mut listener = stack.listen(&place()).await.unwrap();
        let mut near = stack.connect(&place()).await.unwrap();
        let far = accept(&mut listener).await;
        let bytes = Random::new(5).bytes(700_000);
        let sending = async {
            near.write_all(&bytes).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let ((), (arrived, error)) = tokio::join!(sending, read(far));
        assert_eq!(error, None, "{streams} streams");
        assert!(arrived == bytes, "{streams} streams");
    }
}

#[tokio::test]
async fn connections_come_in_any_order_and_any_time() {
    let (mut listener, net) = listening().await;
    let mut last = lane(&net, &[data(3, b"def"), (Header::eod(), b"")]).await;
    let far = accept(&mut listener).await;
    let rest = async {
        last.shutdown().await.unwrap();
        // A foreign connection, without a byte.
        drop(lane(&net, &[]).await);
        tokio::task::yield_now().await;
        let mut first = lane(&net, &[data(0, b"abc"), (Header::eof(2), b"")]).await;
        first.shutdown().await.unwrap();
        first
    };
    let (_first, (bytes, error)) = tokio::join!(rest, read(far));
    assert_eq!((bytes.as_slice(), error), (&b"abcdef"[..], None));
}

#[tokio::test]
async fn one_broken_connection_truncates_the_whole() {
    for at in 0..3 {
        let stack = ModeE::over(Mem::new()).streams(3);
        let mut listener = stack.listen(&place()).await.unwrap();
        let mut near = stack.connect(&place()).await.unwrap();
        let far = accept(&mut listener).await;
        for byte in *b"abcdef" {
            near.write_all(&[byte]).await.unwrap();
        }
        // One connection of three breaks; the others end in good order.
        near.lanes.remove(at);
        let ((), (_, error)) = tokio::join!(async { near.shutdown().await.unwrap() }, read(far));
        assert!(error.is_some(), "lane {at} was not missed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_comes_is_waited_for_a_minute() {
    let (mut listener, net) = listening().await;
    let mut one = lane(&net, &[data(0, b"abc"), (Header::eof(2), b"")]).await;
    one.shutdown().await.unwrap();
    let began = tokio::time::Instant::now();
    let (bytes, error) = read(accept(&mut listener).await).await;
    assert_eq!(bytes, b"abc");
    assert!(error.unwrap().contains("1 of 2 end marks"));
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_the_connections_are_read_but_not_waited_for_long() {
    let began = tokio::time::Instant::now();
    for (shut, after) in [(2, 0), (1, 1)] {
        let (mut listener, net) = listening().await;
        let mut lanes = [
            lane(&net, &[data(0, b"abc"), (Header::eof(2), b"")]).await,
            lane(&net, &[data(3, b"def"), (Header::eod(), b"")]).await,
        ];
        let mut far = accept(&mut listener).await;
        far.read_exact(&mut [0; 6]).await.unwrap();
        let mut byte = [0];
        let mut ended = pin!(far.read(&mut byte));
        let waits = poll_fn(|cx| Poll::Ready(ended.as_mut().poll(cx).is_pending()));
        assert!(waits.await);
        for lane in &mut lanes[..shut] {
            lane.shutdown().await.unwrap();
        }
        assert_eq!(ended.await.unwrap(), 0);
        assert_eq!(began.elapsed().as_secs(), after);
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_brought_nothing_have_no_end_to_wait_for() {
    let net = Mem::new();
    let stack = ModeE::over(net).streams(3);
    let mut listener = stack.listen(&place()).await.unwrap();
    let mut near = stack.connect(&place()).await.unwrap();
    // It does not read, so that it never takes the others.
    let mut far = accept(&mut listener).await;
    far.write_all(b"all").await.unwrap();
    far.shutdown().await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(read(&mut near).await, (b"all".to_vec(), None));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn contradictory_blocks_are_errors() {
    let long = Header::data(u64::MAX, 2);
    let restart = Header::new(Flags::RESTART, 0, 0);
    for (parts, says) in [
        (vec![data(0, b"abc"), data(0, b"abc")], "arrived twice"),
        (
            vec![data(3, b"abc"), (Header::eof(1), b"")],
            "`ordering` on top",
        ),
        (vec![(long, b"" as &[u8])], "beyond any file"),
        (vec![(restart, b"")], "restart markers"),
        (vec![(Header::eof(1000), b"")], "allowed are 1 to 256"),
        (
            vec![(Header::data(0, 9), b"abc")],
            "6 bytes before the end of a block",
        ),
        (vec![data(0, b"abc")], "without an end-of-data mark"),
        (vec![], "without an end mark"),
    ] {
        let (mut listener, net) = listening().await;
        let mut one = lane(&net, &parts).await;
        one.shutdown().await.unwrap();
        let (_, error) = read(accept(&mut listener).await).await;
        let error = error.expect(says);
        assert!(
            error.starts_with("mode_e: read: ") && error.contains(says),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_listener_is_lent_until_all_has_come() {
    let stack = ModeE::over(Mem::new()).streams(2);
    let mut listener = stack.listen(&place()).await.unwrap();
    for round in [1, 2] {
        let mut near = stack.connect(&place()).await.unwrap();
        let far = accept(&mut listener).await;
        let waiting = tokio::time::timeout(Duration::ZERO, listener.accept());
        assert!(waiting.await.is_err(), "it is lent");
        near.write_all(&[round]).await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(read(far).await, (vec![round], None));
    }
}

#[tokio::test]
async fn connections_of_the_next_stream_are_given_back() {
    let stack = ModeE::over(Mem::new()).streams(2);
    let mut listener = stack.listen(&place()).await.unwrap();
    let mut one = stack.connect(&place()).await.unwrap();
    let mut two = stack.connect(&place()).await.unwrap();
    one.write_all(b"one").await.unwrap();
    one.shutdown().await.unwrap();
    let mut far = accept(&mut listener).await;
    // Time enough to take all four, of which two belong to the other.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let mut text = String::new();
    far.read_to_string(&mut text).await.unwrap();
    assert_eq!((text.as_str(), far.lanes.len()), ("one", 2));
    two.write_all(b"two").await.unwrap();
    two.shutdown().await.unwrap();
    assert_eq!(
        read(accept(&mut listener).await).await,
        (b"two".to_vec(), None)
    );
}

xio_core::options! {
    /// Options of a connection that can be set while it is open.
    struct KnobOptions for "knob" {
        /// Left turn.
        left: u32 = 0, "left";
        /// Right turn.
        right: u32 = 0, "right";
    }
}

/// A layer with options.
struct Knob;

impl<S: Stream> Transform<S> for Knob {
    type Handle = Tap<S, KnobOptions>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(Tap::new(inner, KnobOptions::default()))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("knob");
    }
}

impl Observer for KnobOptions {
    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        control.answer("knob", self, &["left", "right"])
    }

    fn describe(&self, info: &mut Info) {
        info.layer("knob");
    }
}

#[tokio::test]
async fn settings_reach_connections_that_join_later() {
    let stack = ModeE::over(Mem::new().push(Knob)).streams(3);
    let mut listener = stack.listen(&place()).await.unwrap();
    let mut near = stack.connect(&place()).await.unwrap();
    let mut far = listener.accept().await.unwrap().open().await.unwrap();
    {
        let far: &mut dyn Stream = &mut far;
        far.set("knob:left=1;right=2").unwrap();
        far.set("knob:left=4").unwrap();
        far.set("knob:left=3").unwrap();
        far.set("knob:left=x").unwrap_err();
    }
    assert_eq!(far.lanes.len(), 1);
    assert_eq!(
        far.settings.len(),
        2,
        "settings that are overridden are dropped"
    );
    near.write_all(b"all").await.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(read(&mut far).await, (b"all".to_vec(), None));
    let settings = far.lanes.iter().map(|lane| lane.stream.observer());
    let settings: Vec<_> = settings.map(ToString::to_string).collect();
    assert_eq!(settings, ["left=3;right=2"; 3]);
}

#[tokio::test]
async fn a_connection_that_was_given_up_is_not_the_next_stream() {
    let net = Mem::new();
    let stack = ModeE::over(net.clone()).streams(2);
    let mut listener = stack.listen(&place()).await.unwrap();
    drop(net.connect(&place()).await.unwrap());
    let far = accept(&mut listener).await;
    let mut near = stack.connect(&place()).await.unwrap();
    assert!(read(far).await.1.is_some());
    near.write_all(b"alive").await.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(
        read(accept(&mut listener).await).await,
        (b"alive".to_vec(), None)
    );
}

#[test]
fn options_round_trip_and_are_bounded() {
    for good in ["", "block=1K;streams=64"] {
        assert_eq!(good.parse::<ModeEOptions>().unwrap().to_string(), good);
    }
    for bad in [
        "streams=0",
        "streams=65",
        "block=1023",
        "block=17M",
        "streams=x",
    ] {
        assert!(bad.parse::<ModeEOptions>().is_err(), "{bad}");
    }
}

/// An empty stream has no part in the next one, however long its handle lives.
#[tokio::test(start_paused = true)]
async fn a_connection_that_comes_after_an_empty_stream_is_that_of_the_next() {
    for in_good_order in [true, false] {
        let (mut listener, net) = listening().await;
        let mut gone = lane(&net, &[]).await;
        if in_good_order {
            gone.shutdown().await.unwrap();
        }
        drop(gone);
        let mut empty = accept(&mut listener).await;
        let (bytes, error) = read(&mut empty).await;
        assert!(bytes.is_empty() && error.is_some(), "{bytes:?}, {error:?}");
        let parts = [
            data(0, b"next"),
            (Header::eof(1), b""),
            (Header::eod(), b""),
        ];
        let _next = lane(&net, &parts).await;
        // Time is paused: it passes when every task is idle.
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(empty);
        let next = async { read(accept(&mut listener).await).await };
        let next = tokio::time::timeout(Duration::from_secs(60), next).await;
        let (bytes, _) = next.expect("the connection was lost");
        assert_eq!(bytes, b"next", "{in_good_order}");
    }
}

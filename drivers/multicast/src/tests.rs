//! Trees of receivers: all get everything, and failed ones are named.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use xio_core::{Error, ErrorKind, Incoming, Listener, Passive};
use xio_testkit::{Mem, Random};

use super::*;

/// The behaviour of a receiver.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Takes,
    /// Drops the stream after this number of bytes.
    Leaves(usize),
    /// Does not forward.
    Refuses,
}

fn at(port: usize) -> Target {
    format!("host:{port}").parse().unwrap()
}

/// A receiver at a port, and the bytes it got.
async fn receiver(net: &Mem, port: usize, way: Way) -> JoinHandle<Vec<u8>> {
    let forward = if way == Way::Refuses {
        ""
    } else {
        "forward=yes"
    };
    let stack = Multicast::over(net.clone()).with_options(forward.parse().unwrap());
    let mut listener = stack.listen(&at(port)).await.unwrap();
    tokio::spawn(async move {
        let mut bytes = Vec::new();
        let Ok(mut far) = listener.accept().await.unwrap().open().await else {
            return bytes;
        };
        if let Way::Leaves(after) = way {
            bytes.resize(after, 0);
            let _ = far.read_exact(&mut bytes).await;
            return bytes;
        }
        if far.read_to_end(&mut bytes).await.is_ok() {
            far.shutdown().await.unwrap();
        }
        bytes
    })
}

/// Sends to receivers at ports 1 and up; returns the sent bytes, the result, and each one's bytes.
async fn send(options: &str, ways: &[Way]) -> (Vec<u8>, Result<(), String>, Vec<Vec<u8>>) {
    let net = Mem::new().chunks(5000).seed(3);
    let mut receivers = Vec::new();
    for (at, way) in ways.iter().enumerate() {
        receivers.push(receiver(&net, at + 1, *way).await);
    }
    let urls: String = (2..=ways.len())
        .map(|port| format!("#host:{port}"))
        .collect();
    let options = match urls.is_empty() {
        true => options.parse(),
        false => format!("urls={urls};{options}").parse(),
    };
    let sender = Multicast::over(net).with_options(options.unwrap());
    // More than the window, for few receivers.
    let bytes = Random::new(4).bytes(if ways.len() < 5 { 1_200_000 } else { 200_000 });
    let sent = async {
        let mut near = sender.connect(&at(1)).await.map_err(|e| e.to_string())?;
        near.write_all(&bytes).await.map_err(|e| e.to_string())?;
        near.shutdown().await.map_err(|e| e.to_string())?;
        let answers = near.read_to_end(&mut Vec::new()).await;
        assert_eq!(answers.map_err(|e| e.to_string())?, 0);
        Ok(())
    };
    let sent = sent.await;
    let mut got = Vec::new();
    for receiver in receivers {
        got.push(receiver.await.unwrap());
    }
    (bytes, sent, got)
}

#[tokio::test]
async fn a_tree_of_any_width_sends_everything_to_all() {
    for (p, count) in [(1, 1), (1, 4), (2, 9), (3, 7), (64, 5)] {
        let ways = vec![Way::Takes; count];
        let (bytes, sent, got) = send(&format!("p={p}"), &ways).await;
        sent.unwrap();
        for (at, got) in got.iter().enumerate() {
            assert!(*got == bytes, "receiver {} of {count}, p={p}", at + 1);
        }
    }
}

#[tokio::test]
async fn one_that_leaves_is_named_and_fails_the_whole() {
    // With p=1 they are a chain, so the third is two hops away.
    for p in [1, 4] {
        let ways = [Way::Takes, Way::Takes, Way::Leaves(70_000), Way::Takes];
        let (_, sent, _) = send(&format!("p={p}"), &ways).await;
        let error = sent.unwrap_err();
        assert!(error.starts_with("multicast: "), "{error}");
        assert!(error.contains("host:3"), "p={p}: {error}");
    }
}

#[tokio::test]
async fn failed_receivers_are_dropped_with_ignore_errors() {
    let ways = [Way::Takes, Way::Leaves(70_000), Way::Takes];
    let (bytes, sent, got) = send("ignore_errors=yes;p=3", &ways).await;
    sent.unwrap();
    assert!(got[0] == bytes && got[2] == bytes);
    // Unless none is left.
    let (_, sent, _) = send("ignore_errors=yes;p=3", &[Way::Leaves(1), Way::Leaves(2)]).await;
    let error = sent.unwrap_err();
    assert!(
        error.contains("host:1") && error.contains("host:2"),
        "{error}"
    );
}

#[tokio::test]
async fn an_unreachable_receiver_is_named_and_replaced() {
    let net = Mem::new();
    let third = receiver(&net, 3, Way::Takes).await;
    let options: MulticastOptions = "urls=#host:2#host:3;p=1".parse().unwrap();
    let error = Multicast::over(net.clone())
        .with_options(options.clone())
        .connect(&at(1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(
        error
            .to_string()
            .starts_with("multicast: connect: 2 failed: `host:1`"),
        "{error}"
    );
    drop(third);

    let net = Mem::new();
    let third = receiver(&net, 3, Way::Takes).await;
    let mut options = options;
    options.ignore_errors = true;
    let mut near = Multicast::over(net)
        .with_options(options)
        .connect(&at(1))
        .await
        .unwrap();
    assert_eq!(near.failures().count(), 2);
    near.write_all(b"all the same").await.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(third.await.unwrap(), b"all the same");
}

#[tokio::test]
async fn no_receiver_forwards_without_permission() {
    let net = Mem::new();
    let first = receiver(&net, 1, Way::Refuses).await;
    let sender = Multicast::over(net).with_options("urls=#host:2;p=1".parse().unwrap());
    let mut near = sender.connect(&at(1)).await.unwrap();
    assert!(first.await.unwrap().is_empty());
    let error = near.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("`host:1` (and 1 behind it)"), "{error}");
}

#[tokio::test]
async fn only_the_first_answers() {
    let net = Mem::new();
    let stack = Multicast::over(net.clone());
    let mut first = stack.listen(&at(1)).await.unwrap();
    let mut second = stack.listen(&at(2)).await.unwrap();
    let sender = Multicast::over(net).with_options("urls=#host:2".parse().unwrap());
    let mut near = sender.connect(&at(1)).await.unwrap();
    let mut first = first.accept().await.unwrap().open().await.unwrap();
    let mut second = second.accept().await.unwrap().open().await.unwrap();
    first.write_all(b"yes").await.unwrap();
    let mut answer = [0; 3];
    near.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"yes");
    let error = second.write_all(b"no").await.unwrap_err();
    assert_eq!(
        Error::layer_of(&error).unwrap().kind(),
        ErrorKind::Unsupported
    );
}

#[tokio::test]
async fn another_protocol_is_refused() {
    let net = Mem::new();
    let stack = Multicast::over(net.clone()).with_options("forward=1".parse().unwrap());
    let mut listener = stack.listen(&at(1)).await.unwrap();
    for bad in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"xmc1\x02\x01\0\0",
        b"xmc1\x00\x00\0\0",
        b"xmc1\x00\x01\xff\xff",
        b"xmc1\x00\x01\0\x01\xff\xff",
        b"xmc1\x00\x01\0\x01\0\x02\xff\xff",
        b"xmc1\x00\x01\0",
    ] {
        let mut near = net.connect(&at(1)).await.unwrap();
        near.write_all(bad).await.unwrap();
        near.shutdown().await.unwrap();
        let opened = listener.accept().await.unwrap().open().await;
        assert!(opened.is_err(), "{bad:?}");
    }
}

#[test]
fn options_round_trip_and_are_bounded() {
    for good in [
        "",
        "forward=yes;ignore_errors=yes;p=64;urls=#b%3A5000#c%3A1",
    ] {
        assert_eq!(good.parse::<MulticastOptions>().unwrap().to_string(), good);
    }
    for bad in ["p=0", "p=65", "urls=", "urls=#", "urls=#a:b", "forward=x"] {
        assert!(bad.parse::<MulticastOptions>().is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_receiver_reports_no_more_failures_than_can_be() {
    let net = Mem::new();
    let mut listener = net.listen(&at(1)).await.unwrap();
    let sender = Multicast::over(net);
    let mut near = sender.connect(&at(1)).await.unwrap();
    let mut rogue = listener.accept().await.unwrap().open().await.unwrap();
    rogue.write_all(&b"F\0\x01x".repeat(500)).await.unwrap();
    rogue.shutdown().await.unwrap();
    let error = near.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("more failures than receivers"), "{error}");
    assert_eq!(near.failures().count(), 1);
}

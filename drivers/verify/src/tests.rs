//! Changed, lost, repeated and truncated blocks are detected and named.

use std::future::{Future as _, poll_fn};
use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_testkit::{Mem, Random};

use super::*;

/// The wire form of three blocks and the end mark.
fn wire() -> (Vec<u8>, [usize; 4]) {
    let (mut sealer, mut out) = (Sealer::new(), Vec::new());
    let mut starts = [0; 4];
    for (start, byte) in starts.iter_mut().zip(*b"abc") {
        *start = out.len();
        sealer.block(&[byte; 100], &mut out);
    }
    starts[3] = out.len();
    sealer.end(&mut out);
    (out, starts)
}

/// Number of good bytes in `wire`, and the error.
async fn read(wire: &[u8]) -> (usize, Option<String>) {
    let (mut feed, inner) = Mem::new().pair();
    feed.write_all(wire).await.unwrap();
    feed.shutdown().await.unwrap();
    let mut handle = Verify::default().respond(inner).await.unwrap();
    let mut bytes = Vec::new();
    let ended = handle.read_to_end(&mut bytes).await;
    let error = ended.err().map(|error| error.to_string());
    if let Some(error) = &error {
        let again = handle.read(&mut [0; 9]).await.unwrap_err();
        assert_eq!(again.to_string(), *error);
    }
    (bytes.len(), error)
}

#[tokio::test]
async fn every_flipped_bit_is_found_in_its_block() {
    let (whole, starts) = wire();
    assert_eq!(read(&whole).await, (300, None));
    for bit in 0..whole.len() * 8 {
        let mut bad = whole.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let block = starts.iter().rposition(|start| *start <= bit / 8).unwrap();
        let (good, error) = read(&bad).await;
        let error = error.unwrap_or_else(|| panic!("flipped bit {bit} was not detected"));
        // Neither the bad block nor later ones are returned.
        assert_eq!(good, block * 100, "bit {bit}: {error}");
        assert!(
            error.contains(&format!("block {block}")),
            "bit {bit}: {error}"
        );
    }
}

#[tokio::test]
async fn every_cut_is_truncation() {
    let (whole, _) = wire();
    for cut in 0..whole.len() {
        let (_, error) = read(&whole[..cut]).await;
        assert!(
            error.unwrap().contains("before its end mark"),
            "cut at {cut}"
        );
    }
}

/// The end marks of layers below must not be left in a socket.
#[tokio::test]
async fn the_end_of_the_stream_below_is_read_as_well() {
    let (mut wire, _) = wire();
    let (mut feed, inner) = Mem::new().pair();
    let mut handle = Verify::default().respond(inner).await.unwrap();
    feed.write_all(&wire).await.unwrap();
    handle.read_exact(&mut [0; 300]).await.unwrap();
    let mut byte = [0];
    let mut ended = pin!(handle.read(&mut byte));
    let waits = poll_fn(|cx| Poll::Ready(ended.as_mut().poll(cx).is_pending()));
    assert!(waits.await);
    feed.shutdown().await.unwrap();
    assert_eq!(ended.await.unwrap(), 0);

    wire.push(b'x');
    let (good, error) = read(&wire).await;
    assert_eq!(good, 300);
    assert!(
        error
            .unwrap()
            .ends_with("bytes follow the end mark after 3 blocks")
    );
}

#[tokio::test]
async fn whole_blocks_in_wrong_order_are_found() {
    let (whole, [a, b, c, end]) = wire();
    let lost = [&whole[a..b], &whole[c..]].concat();
    let (_, error) = read(&lost).await;
    assert_eq!(
        error.unwrap(),
        "verify: read: block 2 arrived in place of block 1"
    );
    let twice = [&whole[a..b], &whole[a..]].concat();
    assert!(
        read(&twice)
            .await
            .1
            .unwrap()
            .contains("block 0 arrived in place of block 1")
    );
    // An end mark with the right number, of another stream.
    let (mut other, mut out) = (Sealer::new(), Vec::new());
    for byte in *b"xyz" {
        other.block(&[byte], &mut out);
    }
    out.clear();
    other.end(&mut out);
    let wrong = [&whole[..end], &out].concat();
    assert_eq!(
        read(&wrong).await.1.unwrap(),
        "verify: read: the digest of all 3 blocks differs"
    );
}

#[tokio::test]
async fn an_announced_length_allocates_no_memory() {
    let (mut feed, inner) = Mem::new().pair();
    feed.write_all(&[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    let mut handle = Verify::default().respond(inner).await.unwrap();
    let mut byte = [0];
    let waiting = tokio::time::timeout(std::time::Duration::ZERO, handle.read(&mut byte));
    assert!(waiting.await.is_err());
    let room = handle.opener.room().unwrap().unwrap().len();
    assert!(room <= 64 << 10, "{room}");
    assert!(
        read(b"GET / HTTP/1.1\r\n")
            .await
            .1
            .unwrap()
            .contains("does the peer use verify?")
    );
}

#[tokio::test]
async fn blocks_of_any_size_arrive() {
    for (block, len) in [("1K", 100_000), ("64K", 3_000_000), ("1M", 3_000_000)] {
        let stack = Verify::new().with_options(format!("block={block}").parse().unwrap());
        let (near, far) = Mem::new().chunks(70_000).seed(8).pair();
        let (mut near, mut far) = (
            stack.respond(near).await.unwrap(),
            Verify::default().respond(far).await.unwrap(),
        );
        let bytes = Random::new(9).bytes(len);
        let mut arrived = Vec::new();
        let (sent, read) = tokio::join!(
            async {
                near.write_all(&bytes).await?;
                near.shutdown().await
            },
            far.read_to_end(&mut arrived)
        );
        sent.unwrap();
        read.unwrap();
        assert!(arrived == bytes);
    }
}

#[test]
fn options_round_trip_and_are_bounded() {
    for good in ["", "block=1K", "block=1M"] {
        assert_eq!(good.parse::<VerifyOptions>().unwrap().to_string(), good);
    }
    for bad in ["block=1023", "block=1025K", "block=x"] {
        assert!(bad.parse::<VerifyOptions>().is_err(), "{bad}");
    }
}

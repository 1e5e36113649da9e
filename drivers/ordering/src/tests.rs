//! Blocks in any order are returned in order, in bounded memory, without gap or repetition.

use std::collections::VecDeque;

use tokio::io::AsyncReadExt;
use xio_core::BlockRead;
use xio_testkit::Random;

use super::*;

/// A transport with the blocks of a stream in a given order.
struct Blocks(VecDeque<(u64, Vec<u8>)>);

impl AsyncRead for Blocks {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        panic!("only `poll_read_block` is called")
    }
}

impl AsyncWrite for Blocks {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Stream for Blocks {
    fn describe(&self, info: &mut Info) {
        info.layer("blocks");
    }

    fn blocks(&mut self) -> Option<&mut dyn BlockRead> {
        Some(self)
    }
}

impl BlockRead for Blocks {
    fn poll_read_block(
        &mut self,
        _: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        let at = match wanted {
            None => Some(0).filter(|_| !self.0.is_empty()),
            Some(place) => self.0.iter().position(|(at, _)| *at == place),
        };
        let Some((place, bytes)) = at.and_then(|at| self.0.remove(at)) else {
            return Poll::Ready(Ok(0));
        };
        let n = bytes.len().min(buf.remaining());
        buf.put_slice(&bytes[..n]);
        if n < bytes.len() {
            self.0.push_front((place + n as u64, bytes[n..].to_vec()));
        }
        Poll::Ready(Ok(place))
    }
}

/// A stream cut into blocks, and shuffled.
fn shuffled(seed: u64) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    let mut random = Random::new(seed);
    let whole = random.bytes(60_000);
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < whole.len() {
        let n = random.up_to(9000.min(whole.len() - at));
        blocks.push((at as u64, whole[at..at + n].to_vec()));
        at += n;
    }
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, random.up_to(last + 1) - 1);
    }
    (whole, blocks)
}

async fn sort(blocks: Vec<(u64, Vec<u8>)>, options: &str) -> (Vec<u8>, io::Result<usize>) {
    let ordering = Ordering::new().with_options(options.parse().unwrap());
    let mut handle = ordering.respond(Blocks(blocks.into())).await.unwrap();
    let mut bytes = Vec::new();
    let most = handle.options.max_buf_count as usize;
    loop {
        let mut buf = [0; 3000];
        match handle.read(&mut buf).await {
            Ok(0) => return (bytes, Ok(0)),
            Ok(n) => bytes.extend(&buf[..n]),
            Err(error) => return (bytes, Err(error)),
        }
        assert!(handle.kept.len() <= most, "{} kept", handle.kept.len());
    }
}

#[tokio::test]
async fn any_order_becomes_the_order() {
    for seed in 0..8 {
        let (whole, blocks) = shuffled(seed);
        for options in [
            "",
            "max_buf_count=3",
            "buf_size=1K;max_buf_count=1",
            "max_read_count=1",
        ] {
            let (bytes, ended) = sort(blocks.clone(), options).await;
            ended.unwrap_or_else(|error| panic!("seed {seed}, {options}: {error}"));
            assert!(bytes == whole, "seed {seed}, {options}");
        }
    }
}

#[tokio::test]
async fn a_hole_is_truncation_and_a_repetition_an_error() {
    let (_, mut blocks) = shuffled(7);
    blocks.sort();
    let lost = blocks.remove(5);
    let (bytes, ended) = sort(blocks.clone(), "").await;
    assert_eq!(bytes.len() as u64, lost.0);
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let expected = format!(
        "ordering: read: the bytes from {} to {} are missing",
        lost.0, blocks[5].0
    );
    assert_eq!(error.to_string(), expected);

    blocks.insert(5, lost.clone());
    blocks.push(lost);
    let (_, ended) = sort(blocks, "").await;
    assert!(ended.unwrap_err().to_string().ends_with("arrived twice"));
}

#[test]
fn options_round_trip_and_are_bounded() {
    for good in [
        "",
        "buf_size=1K;buffering=no;max_buf_count=1;max_read_count=65536",
    ] {
        assert_eq!(good.parse::<OrderingOptions>().unwrap().to_string(), good);
    }
    for bad in [
        "buf_size=1",
        "max_buf_count=0",
        "max_read_count=65537",
        "buffering=x",
    ] {
        assert!(bad.parse::<OrderingOptions>().is_err(), "{bad}");
    }
}

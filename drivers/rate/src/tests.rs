//! Rates under paused time: reading, writing, files, several streams of one bucket.

use std::future::poll_fn;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;
use xio_core::{Incoming, KernelTransfer, KernelTransfers, Listener, Passive, Transport};
use xio_testkit::{Mem, MemHandle};

use super::*;

type Paced = Tap<MemHandle, Pace>;

async fn pair(rate: &Rate) -> (Paced, Paced) {
    let stack = Mem::new().push(rate.clone());
    let at = "mem:1".parse().unwrap();
    let mut listener = stack.listen(&at).await.unwrap();
    let near = stack.connect(&at).await.unwrap();
    let far = listener.accept().await.unwrap().open().await.unwrap();
    (near, far)
}

/// Moves `n` bytes from one to the other and returns the time in milliseconds.
async fn moves(
    mut from: impl AsyncWrite + Unpin,
    mut to: impl AsyncRead + Unpin,
    n: usize,
) -> u128 {
    let began = Instant::now();
    let bytes = vec![7; n];
    let mut arrived = vec![0; n];
    let (sent, read) = tokio::join!(from.write_all(&bytes), to.read_exact(&mut arrived));
    sent.unwrap();
    read.unwrap();
    assert!(arrived == bytes);
    began.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn each_direction_has_its_own_rate() {
    let rate = Rate::new().with_options("write_rate=100000;read_rate=50000".parse().unwrap());
    let (near, far) = pair(&rate).await;
    // Two periods of 50 ms are a tenth of a second: 5000 bytes at once, and the rest in time.
    let time = moves(near, far, 1_000_000).await;
    assert!(
        (19_900..=20_100).contains(&time),
        "{time} ms at the slower of both"
    );
    let (near, far) = pair(&Rate::new().with_options("write_rate=100000".parse().unwrap())).await;
    let time = moves(near, far, 1_000_000).await;
    assert!((9_900..=10_100).contains(&time), "{time} ms");
}

#[tokio::test(start_paused = true)]
async fn a_pause_earns_a_burst_and_no_more() {
    let rate = Rate::new().with_options("write_rate=100000;burst=20000".parse().unwrap());
    let (mut near, mut far) = pair(&rate).await;
    moves(&mut near, &mut far, 100_000).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(moves(&mut near, &mut far, 20_000).await, 0);
    let time = moves(&mut near, &mut far, 100_000).await;
    assert!((950..=1050).contains(&time), "{time} ms");
}

#[tokio::test(start_paused = true)]
async fn the_burst_of_open_handles_changes() {
    let rate = Rate::new().shared();
    let (mut near, mut far) = pair(&rate).await;
    let mut limit = Limit::new(ByteSize::new(100_000));
    limit.burst = Some(ByteSize::new(20_000));
    rate.set_limit(limit);
    moves(&mut near, &mut far, 100_000).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(moves(&mut near, &mut far, 20_000).await, 0);
    let time = moves(&mut near, &mut far, 100_000).await;
    assert!((950..=1050).contains(&time), "{time} ms");
}

#[tokio::test(start_paused = true)]
async fn the_rate_of_open_handles_changes() {
    let rate = Rate::new()
        .with_options("rate=100000".parse().unwrap())
        .shared();
    let (mut near, mut far) = pair(&rate).await;
    for (now, bytes, expected) in [
        (None, 100_000, 900..=1100),
        (Some(Some(50_000)), 100_000, 1_850..=2_100),
        (Some(Some(1_000_000)), 1_000_000, 850..=1_100),
        (Some(None), 50_000_000, 0..=50),
        (Some(Some(100_000)), 100_000, 850..=1_100),
    ] {
        if let Some(now) = now {
            rate.set(now.map(ByteSize::new));
        }
        let time = moves(&mut near, &mut far, bytes).await;
        assert!(expected.contains(&time), "{now:?}: {time} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_bucket_share_its_rate() {
    let rate = Rate::new()
        .with_options("write_rate=100000".parse().unwrap())
        .shared();
    let began = Instant::now();
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let (near, far) = pair(&rate).await;
        streams.spawn(moves(near, far, 100_000));
    }
    streams.join_all().await;
    let time = began.elapsed().as_millis();
    assert!((4_900..=5_100).contains(&time), "{time} ms for all five");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_below_keeps_no_bytes_of_the_group() {
    let rate = Rate::new()
        .with_options("write_rate=100000".parse().unwrap())
        .shared();
    let (mut stuck, _unread) = pair(&rate).await;
    // Fill the buffers of the peer that does not read.
    let filled = tokio::time::timeout(Duration::from_secs(9), stuck.write_all(&[0; 1 << 20])).await;
    assert!(filled.is_err());
    let writing = tokio::spawn(async move { stuck.write_all(&[0; 10]).await });
    let (near, far) = pair(&rate).await;
    let time = moves(near, far, 100_000).await;
    assert!((850..=1050).contains(&time), "{time} ms");
    writing.abort();
}

/// A transport with send-file and splice at any speed.
struct Sink;

impl AsyncRead for Sink {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sink {
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

impl Stream for Sink {
    fn describe(&self, info: &mut Info) {
        info.layer("sink");
    }

    fn kernel_transfers(&self) -> KernelTransfers {
        KernelTransfers::ALL
    }

    fn poll_kernel(
        &mut self,
        _: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(match transfer {
            KernelTransfer::SendFile { len, .. } | KernelTransfer::Splice { len, .. } => Ok(len),
            _ => Err(io::ErrorKind::Unsupported.into()),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn send_file_and_splice_count_as_well() {
    let rate = Rate::new().with_options("rate=100000".parse().unwrap());
    let mut handle = rate.respond(Sink).await.unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"any").unwrap();
    let (_reader, pipe) = io::pipe().unwrap();
    for way in ["send file", "splice"] {
        let began = Instant::now();
        let mut moved = 0;
        while moved < 200_000 {
            let transfer = match way {
                "splice" => KernelTransfer::Splice {
                    pipe: pipe.as_fd(),
                    len: 1 << 20,
                },
                _ => KernelTransfer::SendFile {
                    file: file.as_fd(),
                    offset: 0,
                    len: 1 << 20,
                },
            };
            moved += poll_fn(|cx| handle.poll_kernel(cx, transfer))
                .await
                .unwrap();
        }
        let time = began.elapsed().as_millis();
        assert!((1_850..=2_050).contains(&time), "{way}: {time} ms");
    }
}

/// A write of no bytes would look like a refusal.
#[tokio::test]
async fn an_empty_slice_in_front_stops_no_write() {
    let (near, _far) = Mem::new().pair();
    let rate = Rate::new().with_options("burst=2".parse().unwrap());
    let mut near = rate.respond(near).await.unwrap();
    let bufs = [io::IoSlice::new(b""), io::IoSlice::new(b"abc")];
    assert_eq!(near.write_vectored(&bufs).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn bytes_beside_the_handles_of_a_group_count() {
    let options = "rate=100K;period=10000".parse().unwrap();
    let rate = Rate::new().with_options(options).shared();
    let (near, far) = pair(&rate).await;
    let begun = Instant::now();
    let (moved, ()) = tokio::join!(moves(near, far, 50_000), rate.pass(50_000));
    assert!(
        (900..=1_000).contains(&begun.elapsed().as_millis()),
        "{moved}"
    );
    Rate::new().pass(usize::MAX).await;
    assert!(begun.elapsed() <= Duration::from_secs(1));
}

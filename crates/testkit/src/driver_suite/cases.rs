//! Cases of data transfer: plain, vectored, from files, and after a dropped operation.

use std::future::poll_fn;
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use xio_core::{BoxStream, KernelTransfer, Stream};

use super::{Subject, drain, once};
use crate::random::Random;

pub(super) async fn intact(subject: &Subject) {
    let (near, far) = subject.pair().await;
    let there = Random::new(1).bytes(1 << 20);
    let back = Random::new(2).bytes((1 << 20) + 1);
    let half_close = subject.half_close;
    let send = |mut end: tokio::io::WriteHalf<BoxStream>, bytes: Vec<u8>, seed| async move {
        let mut random = Random::new(seed);
        let mut left = &bytes[..];
        while !left.is_empty() {
            let (now, rest) = left.split_at(random.up_to(left.len().min(100_000)));
            end.write_all(now).await.expect("writing");
            left = rest;
        }
        if half_close {
            end.shutdown().await.expect("ending in good order");
        } else {
            end.flush().await.expect("flushing");
        }
        end
    };
    let receive = |mut end: tokio::io::ReadHalf<BoxStream>, len: usize| async move {
        let mut bytes = Vec::new();
        if half_close {
            end.read_to_end(&mut bytes).await.expect("reading");
        } else {
            bytes.resize(len, 0);
            end.read_exact(&mut bytes).await.expect("reading");
        }
        (bytes, end)
    };
    let (near_in, near_out) = tokio::io::split(near);
    let (far_in, far_out) = tokio::io::split(far);
    let (mut near_out, _far_out, (at_far, mut far_in), (at_near, _near_in)) = tokio::join!(
        send(near_out, there.clone(), 3),
        send(far_out, back.clone(), 4),
        receive(far_in, there.len()),
        receive(near_in, back.len()),
    );
    assert!(at_far == there, "the bytes of the connecting end changed");
    assert!(at_near == back, "the bytes of the accepting end changed");
    // Without half-close, an end shuts down after both have sent everything.
    near_out.shutdown().await.expect("ending in good order");
    let more = far_in.read(&mut [0; 8]).await.expect("the end");
    assert_eq!(more, 0, "additional bytes arrived");
}

/// Writes all slices, and returns the most bytes that one call wrote.
async fn write_slices(end: &mut BoxStream, mut slices: &mut [IoSlice<'_>]) -> usize {
    let mut most = 0;
    while !slices.is_empty() {
        let n = poll_fn(|cx| Pin::new(&mut *end).poll_write_vectored(cx, slices))
            .await
            .expect("writing");
        assert!(n > 0, "a write wrote 0 bytes");
        IoSlice::advance_slices(&mut slices, n);
        most = most.max(n);
    }
    most
}

pub(super) async fn vectored(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    assert_eq!(
        near.is_write_vectored(),
        subject.vectored,
        "is_write_vectored must agree with the lowest layer"
    );
    let parts: [&[u8]; 4] = [b"head", b"", b"payload ", b"and trailer"];
    let whole = parts.concat();
    let mut most = 0;
    for _ in 0..30 {
        let mut slices = parts.map(IoSlice::new);
        most = most.max(write_slices(&mut near, &mut slices).await);
        // A layer may still buffer bytes that the lower layer did not accept.
        near.flush().await.expect("flushing");
        let mut arrived = vec![0; whole.len()];
        far.read_exact(&mut arrived).await.expect("reading");
        assert_eq!(arrived, whole);
    }
    if subject.vectored {
        // A layer that forwards the first slice only never writes more than the longest one.
        assert!(most > b"and trailer".len(), "no call wrote several slices");
    }
}

pub(super) async fn send_file(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    assert_eq!(
        near.kernel_transfers().send_file,
        subject.send_file,
        "send_file must agree with the lowest layer"
    );
    let bytes = Random::new(5).bytes(3 << 20);
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&bytes).expect("filling it");
    let stretch = |offset, len| KernelTransfer::SendFile {
        file: file.as_fd(),
        offset,
        len,
    };
    if !subject.send_file {
        let refused = poll_fn(|cx| near.poll_kernel(cx, stretch(0, 10))).await;
        let kind = refused.expect_err("is_send_file is false").kind();
        assert_eq!(kind, std::io::ErrorKind::Unsupported);
        return;
    }
    let sending = async {
        near.write_all(b"he").await.expect("writing");
        let mut head = &b"ad"[..];
        while !head.is_empty() {
            let n = poll_fn(|cx| near.poll_kernel(cx, KernelTransfer::Head(head))).await;
            head = head.get(n.expect("writing")..).unwrap_or_default();
        }
        let mut offset = 1000;
        loop {
            let n = poll_fn(|cx| near.poll_kernel(cx, stretch(offset, usize::MAX)))
                .await
                .expect("sending");
            assert!(
                n <= 1 << 20,
                "one call must send a bounded amount, not {n} bytes"
            );
            if n == 0 {
                break;
            }
            offset += n as u64;
        }
        near.write_all(b"tail").await.expect("writing");
        near.shutdown().await.expect("ending in good order");
    };
    let ((), (arrived, ended)) = tokio::join!(sending, drain(&mut far));
    ended.expect("a clean end");
    let body = bytes.get(1000..).unwrap_or_default();
    assert!(
        arrived == [b"head", body, b"tail"].concat(),
        "the received file differs"
    );
}

pub(super) async fn splice(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    // The lowest layer that sends files inside the kernel also splices.
    assert_eq!(
        far.kernel_transfers().splice,
        subject.send_file,
        "splice must agree with the lowest layer"
    );
    let (mut from, into) = std::io::pipe().expect("a pipe");
    let splice = |len| KernelTransfer::Splice {
        pipe: into.as_fd(),
        len,
    };
    if !subject.send_file {
        let refused = poll_fn(|cx| far.poll_kernel(cx, splice(10))).await;
        let kind = refused.expect_err("is_splice is false");
        assert_eq!(kind.kind(), std::io::ErrorKind::Unsupported);
        return;
    }
    let bytes = Random::new(6).bytes(300_000);
    let sending = async {
        near.write_all(&bytes).await.expect("writing");
        near.shutdown().await.expect("ending in good order");
    };
    let taking = async {
        let mut head = [0; 1000];
        far.read_exact(&mut head).await.expect("reading");
        let mut arrived = head.to_vec();
        loop {
            let n = poll_fn(|cx| far.poll_kernel(cx, splice(16_384)))
                .await
                .expect("splicing");
            assert!(n <= 16_384, "more than requested: {n} bytes");
            if n == 0 {
                return arrived;
            }
            let mut part = vec![0; n];
            from.read_exact(&mut part).expect("emptying the pipe");
            arrived.extend(part);
        }
    };
    let ((), arrived) = tokio::join!(sending, taking);
    assert!(arrived == bytes, "the received bytes differ");
}

pub(super) async fn read_cancelled(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    let mut arrived = Vec::new();
    for round in 0..20_u8 {
        let mut buf = [0; 64];
        // No byte is in flight, so this read is pending when it is dropped.
        assert!(once(far.read(&mut buf)).await.is_none());
        near.write_all(&[round; 10]).await.expect("writing");
        near.flush().await.expect("flushing");
        while arrived.len() < (usize::from(round) + 1) * 10 {
            let n = far.read(&mut buf).await.expect("reading");
            arrived.extend_from_slice(buf.get(..n).unwrap_or_default());
        }
    }
    let expected: Vec<u8> = (0..20).flat_map(|round| [round; 10]).collect();
    assert_eq!(arrived, expected);
}

pub(super) async fn write_cancelled(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    let mut sent: Vec<u8> = Vec::new();
    let mut random = Random::new(6);
    let mut dropped = 0;
    // Until ten pending writes were dropped: the peer does not read.
    let mut idle = 0;
    while dropped < 10 {
        let block = random.bytes(64 * 1024);
        match once(near.write(&block)).await {
            Some(n) => {
                let n = n.expect("writing");
                sent.extend_from_slice(block.get(..n).unwrap_or_default());
                idle = 0;
            }
            None => {
                idle += 1;
                // The runtime must poll the socket before it can become ready again.
                tokio::task::yield_now().await;
                if idle > 10 {
                    dropped += 1;
                }
            }
        }
    }
    let (rest, arrived) = tokio::join!(
        async {
            near.write_all(b"the end").await?;
            near.shutdown().await
        },
        drain(&mut far)
    );
    rest.expect("writing continues");
    sent.extend_from_slice(b"the end");
    arrived.1.expect("a clean end");
    assert!(
        arrived.0 == sent,
        "{} bytes arrived of {}",
        arrived.0.len(),
        sent.len()
    );
}

pub(super) async fn empty_buffers(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    let nothing = poll_fn(|cx| match Pin::new(&mut near).poll_write(cx, b"") {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    });
    assert!(
        matches!(nothing.await, None | Some(Ok(0))),
        "an empty write writes nothing"
    );
    near.write_all(b"x").await.expect("writing");
    near.flush().await.expect("flushing");
    let _ = once(far.read(&mut [])).await;
    assert_eq!(
        far.read_u8().await.expect("an empty read reads nothing"),
        b'x'
    );
}

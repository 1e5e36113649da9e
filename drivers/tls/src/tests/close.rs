//! Ends of a stream: marked, cut at every byte, half, and with bytes behind the mark.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use xio_core::{Error, Info, Stream, Transform as _};
use xio_testkit::driver_suite::accepted_bytes_are_sent_by_a_reader;
use xio_testkit::{Authority, FaultOptions, Faulty, Mem, MemHandle};

use super::{HOST, drain, identity, open, plain, roots, shake};
use crate::Tls;

fn cut_after(bytes: u64) -> FaultOptions {
    let mut options = FaultOptions::default();
    options.truncate = Some(bytes);
    options
}

#[tokio::test]
async fn a_cut_at_any_byte_is_never_a_clean_end() {
    let tls = plain();
    let payload = [7; 300];
    let mut clean = 0;
    let mut cut = 0;
    // The exchange is about 2,000 bytes each way: cuts at every 13th byte, and at each near the
    // end.
    for bytes in (0..4000).filter(|n| n % 13 == 0 || (1500..1900).contains(n)) {
        let (near, far) = Mem::new().pair();
        let near = Faulty::new(near, cut_after(bytes));
        let (near, far) = shake(&tls, &tls, near, far).await;
        let (Ok(mut near), Ok(mut far)) = (near, far) else {
            cut += 1;
            continue;
        };
        let _ = far.write_all(&payload).await;
        let _ = far.shutdown().await;
        match drain(&mut near).await {
            (got, Ok(())) => {
                assert_eq!(got, payload, "a clean end after a cut at {bytes}");
                clean += 1;
            }
            (got, Err(error)) => {
                assert_eq!(
                    error.kind(),
                    ErrorKind::UnexpectedEof,
                    "cut at {bytes}: {error}"
                );
                assert_eq!(Error::layer_of(&error).unwrap().layer(), "tls");
                assert!(payload.starts_with(&got), "cut at {bytes}");
                cut += 1;
            }
        }
    }
    assert!(clean > 10 && cut > 100, "{clean} clean and {cut} cut");
}

#[tokio::test]
async fn a_handshake_that_is_cut_says_so() {
    let tls = plain();
    let (near, far) = Mem::new().pair();
    let near = Faulty::new(near, cut_after(40));
    let (near, _) = shake(&tls, &tls, near, far).await;
    let error = near.unwrap_err();
    assert_eq!(error.kind(), xio_core::ErrorKind::UnexpectedEof);
    assert!(
        error.to_string().contains("middle of the handshake"),
        "{error}"
    );
}

#[tokio::test]
async fn peers_that_are_known_to_leave_out_the_mark_may() {
    let authority = Authority::new("test authority");
    let own = identity(&authority.issue("server", &[HOST]));
    let lenient = Tls::client(roots(&authority))
        .close_notify_optional()
        .build()
        .unwrap();
    let server = Tls::server(own).build().unwrap();
    let (near, far) = Mem::new().pair();
    let (near, far) = shake(&lenient, &server, near, far).await;
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    far.write_all(b"all there is").await.unwrap();
    far.flush().await.unwrap();
    far.below_mut().shutdown().await.unwrap();
    let (bytes, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(bytes, b"all there is");

    // Half a record is never an end.
    let (near, far) = Mem::new().pair();
    let (near, far) = shake(&lenient, &server, near, far).await;
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    far.write_all(b"first").await.unwrap();
    far.below_mut()
        .write_all(&[23, 3, 3, 0, 100, 1, 2, 3])
        .await
        .unwrap();
    far.below_mut().shutdown().await.unwrap();
    let (bytes, ended) = drain(&mut near).await;
    assert_eq!(bytes, b"first");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn bytes_after_the_end_mark_are_ignored() {
    let tls = plain();
    let (mut near, mut far) = open(&tls, &tls).await;
    far.write_all(b"before").await.unwrap();
    let marked = std::future::poll_fn(|cx| far.poll_mark(cx)).await;
    marked.unwrap();
    far.below_mut()
        .write_all(b"plain text, and then garbage")
        .await
        .unwrap();
    far.below_mut().shutdown().await.unwrap();
    let (bytes, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(bytes, b"before");
    for _ in 0..3 {
        assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 0);
    }
    // The other way goes on.
    near.write_all(b"answer").await.unwrap();
    near.shutdown().await.unwrap();
    let (bytes, ended) = drain(&mut far).await;
    ended.unwrap();
    assert_eq!(bytes, b"answer");
}

#[tokio::test]
async fn payload_that_comes_with_the_handshake_is_kept() {
    let tls = plain();
    for size in [5, 40_000] {
        let (near, far) = Mem::new().pair();
        let to = super::target();
        let early = async {
            let mut near = tls.initiate(near, &to).await.unwrap();
            near.write_all(&vec![3; size]).await.unwrap();
            near.shutdown().await.unwrap();
            near
        };
        // The far end sees the last of the handshake together with everything behind it.
        let (_near, far) = tokio::join!(early, tls.respond(far));
        let (bytes, ended) = drain(&mut far.unwrap()).await;
        ended.unwrap();
        assert_eq!(bytes, vec![3; size]);
    }
}

#[tokio::test]
async fn writing_after_shutdown_is_refused() {
    let tls = plain();
    let (mut near, _far) = open(&tls, &tls).await;
    near.shutdown().await.unwrap();
    let error = near.write_all(b"x").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tls: write: this end was shut down before"
    );
}

#[tokio::test]
async fn a_writer_in_another_task_goes_on_when_the_peer_takes_again() {
    // The peer neither reads nor writes for a while, so both tasks of this end wait at once.
    let tls = plain();
    let mem = Mem::new().capacity(1000);
    let (near, far) = mem.pair();
    let (near, far) = shake(&tls, &tls, near, far).await;
    let (mut near_in, mut near_out) = tokio::io::split(near.unwrap());
    let mut far = far.unwrap();
    let bytes = vec![9; 500_000];
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        near_in.read_to_end(&mut got).await.map(|_| got)
    });
    let writer = tokio::spawn(async move {
        near_out.write_all(&bytes).await?;
        near_out.shutdown().await
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let (got, ended) = drain(&mut far).await;
    ended.unwrap();
    assert_eq!(got.len(), 500_000);
    far.write_all(b"thanks").await.unwrap();
    far.shutdown().await.unwrap();
    writer.await.unwrap().unwrap();
    assert_eq!(reader.await.unwrap().unwrap(), b"thanks");
}

#[tokio::test(start_paused = true)]
async fn a_flush_is_woken_while_another_task_reads() {
    // The layer below holds bytes back, so flushing waits; it keeps one waker for each direction.
    let tls = plain();
    let (near, far) = Mem::new().capacity(1000).pair();
    let (near, far) = shake(&tls, &tls, near, far).await;
    let (near, far) = shake(&tls, &tls, near.unwrap(), far.unwrap()).await;
    let (mut near_in, mut near_out) = tokio::io::split(near.unwrap());
    let mut far = far.unwrap();
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        near_in.read_to_end(&mut got).await.map(|_| got)
    });
    for ends in [false, true] {
        let writer = tokio::spawn(async move {
            near_out.write_all(&[9; 50_000]).await.unwrap();
            match ends {
                false => near_out.flush().await.unwrap(),
                true => near_out.shutdown().await.unwrap(),
            }
            near_out
        });
        // The writer waits by then, and the reader waits again for more.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        far.write_all(b"x").await.unwrap();
        far.flush().await.unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        far.read_exact(&mut [0; 50_000]).await.unwrap();
        let limit = Duration::from_secs(60);
        near_out = tokio::time::timeout(limit, writer)
            .await
            .expect("whoever waited for the layer below was forgotten")
            .unwrap();
    }
    far.shutdown().await.unwrap();
    assert_eq!(reader.await.unwrap().unwrap(), b"xx");
}

/// A stream that reports a reset once, as a socket does, and then the end.
struct Reset {
    inner: MemHandle,
    due: bool,
}

impl AsyncRead for Reset {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.due) {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Reset {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl Stream for Reset {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
    }
}

#[tokio::test]
async fn a_reset_at_shutdown_is_no_unmarked_end() {
    let authority = Authority::new("test authority");
    let lenient = Tls::client(roots(&authority))
        .close_notify_optional()
        .build()
        .unwrap();
    let own = identity(&authority.issue("server", &[HOST]));
    let server = Tls::server(own).build().unwrap();
    let (inner, far) = Mem::new().pair();
    let near = Reset { inner, due: false };
    let (near, far) = shake(&lenient, &server, near, far).await;
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    far.below_mut().shutdown().await.unwrap();
    near.below_mut().due = true;
    near.shutdown().await.unwrap();
    let error = drain(&mut near).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_sends_the_rest_of_the_writes_before_one_that_was_given_up() {
    let tls = plain();
    let (near, far) = Mem::new().capacity(1000).pair();
    let (near, far) = shake(&tls, &tls, near, far).await;
    accepted_bytes_are_sent_by_a_reader(near.unwrap(), far.unwrap()).await;
}

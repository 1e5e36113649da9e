//! Connections through a layer that keeps written bytes until it is flushed, as TLS may.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use xio_core::{Info, Stream, Transport};

use ftp_wire::opts::Parallelism;

use super::*;

/// Keeps written bytes until a flush.
struct Keeping<S> {
    below: S,
    kept: Vec<u8>,
}

struct KeepingTcp;

impl Transport for KeepingTcp {
    type Handle = Keeping<<Tcp as Transport>::Handle>;

    async fn connect(&self, to: &Target) -> xio_core::Result<Self::Handle> {
        let below = Tcp::default().connect(to).await?;
        let kept = Vec::new();
        Ok(Keeping { below, kept })
    }
}

impl<S: Stream> Stream for Keeping<S> {
    fn describe(&self, info: &mut Info) {
        self.below.describe(info);
    }
}

impl<S: Stream> AsyncRead for Keeping<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_read(cx, buf)
    }
}

impl<S: Stream> AsyncWrite for Keeping<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.kept.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { below, kept } = &mut *self;
        while !kept.is_empty() {
            let n = ready!(Pin::new(&mut *below).poll_write(cx, kept))?;
            kept.drain(..n);
        }
        Pin::new(below).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.below).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_sent_file_is_flushed_while_its_connections_stay_open() {
    // The first leaves in one write with its end mark.
    for (len, parallelism) in [
        (1000, Parallelism::of(1)),
        (1000, Parallelism::of(2)),
        (500_000, Parallelism::of(2)),
        (500_000, Parallelism::up_to(1, 3)),
    ] {
        let (mut to, mut from) = (channel(), channel());
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        from.connect_to(DynStack::active(KeepingTcp, "keeping"), vec![address]);
        let (source, sink) = (Memory(bytes(len)), Kept::default());
        let plan = whole(Mode::Extended, len as u64).parallelism(parallelism);
        let moved = move_file(&mut from, &mut to, &source, &plan, &sink);
        let moved = timeout(Duration::from_secs(20), moved).await;
        assert!(moved.is_ok(), "{len} bytes over {parallelism} stay behind");
        assert!(sink.data() == source.0);
        assert!(from.is_cached());
    }
}

//! `Conn`: one data connection, with the framing state that outlives a transfer on it.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mode_e::{Deframer, Limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use xio_core::BoxStream;

use crate::descriptors::Permit;
use crate::error::{Error, Result};

/// Longest time in which a connection that is no longer needed may end in good order.
const RETIRING: Duration = Duration::from_secs(60);

/// Bytes thrown away at a time.
const DRAIN_BLOCK: usize = 16 << 10;

/// A stream that was just opened, with the permit for its descriptor.
pub(crate) type Opened = (BoxStream, Permit);

/// A data connection. Dropping it aborts; [`retire`](Self::retire) ends it in good order.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) stream: BoxStream,
    /// Used when this end receives in MODE E.
    pub(crate) deframer: Deframer,
    /// For its descriptor.
    pub(crate) permit: Permit,
}

impl Conn {
    pub(crate) fn new((stream, permit): Opened, limits: Limits) -> Self {
        Self {
            stream,
            deframer: Deframer::new(limits),
            permit,
        }
    }

    /// Whether an idle connection that only we send on can be used again: a peer that said or
    /// ended anything meanwhile has gone, or is not one.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(&mut self.stream)
            .poll_read(&mut cx, &mut ReadBuf::new(&mut byte))
            .is_pending()
    }

    /// Reads the next header of a connection whose part in this transfer is over, as far as it has
    /// come; `Ready` when the peer closed instead.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // What it says is for the next transfer, which must find it untouched.
        while self.deframer.missing() > 0 {
            let mut bytes = [0; mode_e::HEADER_LEN];
            let wanted = bytes.get_mut(..self.deframer.missing());
            let wanted = wanted.unwrap_or_default();
            let mut buf = ReadBuf::new(wanted);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.deframer.feed(buf.filled());
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    /// Writes the end mark of every layer and waits until it is out.
    pub(crate) async fn finish(mut self) -> Result<Self> {
        let ended = self.stream.shutdown().await;
        ended.map_err(|e| Error::broken("send", e))?;
        Ok(self)
    }

    /// Waits until the peer closes a connection that was finished, at most so long.
    pub(crate) async fn linger(mut self, within: Duration) {
        if !within.is_zero() {
            // Whatever comes, an error included, the peer has seen the end.
            drop(timeout(within, self.stream.read(&mut [0])).await);
        }
    }

    /// Reads what the peer still sends and forgets it, at most so long.
    ///
    /// A connection that is closed with bytes unread is reset, and a client that is still sending
    /// gives up before it reads on the control connection why.
    pub(crate) async fn drain(mut self, within: Duration) {
        let mut block = vec![0; DRAIN_BLOCK];
        let all = async { while matches!(self.stream.read(&mut block).await, Ok(1..)) {} };
        if timeout(within, all).await.is_ok() {
            self.retire();
        }
    }

    /// Ends an idle connection without waiting: what was sent still arrives.
    pub(crate) fn retire(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let ended = pin!(&mut self.stream).poll_shutdown(&mut cx);
        // A layer that cannot write its end mark yet has bytes of the last transfer before it,
        // which a reset would take back.
        if ended.is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(timeout(RETIRING, self.finish()));
        }
    }
}

/// The connection of the last file that could not be stored, while the peer still sends on it.
#[derive(Debug, Default)]
pub(crate) struct Draining(JoinSet<()>);

impl Draining {
    /// Drains `conn` for at most `within` and ends the drain of the connection before it, so that a
    /// peer whose uploads keep failing holds one connection.
    pub(crate) fn replace(&mut self, conn: Conn, within: Duration) {
        self.0.abort_all();
        while self.0.try_join_next().is_some() {}
        self.0.spawn(conn.drain(within));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use xio_core::{Info, Stream};

    use super::*;
    use crate::Descriptors;

    /// Cannot write its end mark at once.
    struct Full {
        tries: u32,
        ended: Arc<AtomicBool>,
    }

    impl AsyncRead for Full {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Full {
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

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.tries += 1;
            if self.tries < 3 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.ended.store(true, Ordering::Relaxed);
            Poll::Ready(Ok(()))
        }
    }

    impl Stream for Full {
        fn describe(&self, _: &mut Info) {}
    }

    #[tokio::test]
    async fn connections_that_were_drained_leave_nothing_behind() {
        let mut draining = Draining::default();
        for _ in 0..100 {
            let stream = Full {
                tries: 0,
                ended: Arc::default(),
            };
            let permit = Descriptors::default().take(1).unwrap();
            let conn = Conn::new((Box::new(stream), permit), Limits::default());
            draining.replace(conn, RETIRING);
            tokio::task::yield_now().await;
            assert!(draining.0.len() <= 2, "{} tasks", draining.0.len());
        }
    }

    #[tokio::test]
    async fn what_was_sent_last_is_not_taken_back_when_the_way_is_full() {
        let ended = Arc::new(AtomicBool::new(false));
        let stream = Full {
            tries: 0,
            ended: Arc::clone(&ended),
        };
        let permit = Descriptors::default().take(1).unwrap();
        Conn::new((Box::new(stream), permit), Limits::default()).retire();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(
            ended.load(Ordering::Relaxed),
            "it was dropped before its end"
        );
    }
}

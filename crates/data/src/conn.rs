//! `Conn`: one data connection, with framing state that outlives a transfer.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mode_e::{Deframer, Limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use xio_core::{BoxStream, ErrorKind as Gone, Info, PathStats};

use crate::descriptors::Permit;
use crate::error::{Error, Result};
use crate::watch::Watch;

/// Longest time for the clean end of a connection that is no longer needed.
const RETIRING: Duration = Duration::from_secs(60);

/// Time between two measurements of a path during a transfer.
const LOOK: Duration = Duration::from_millis(200);

/// Bytes discarded at a time.
const DRAIN_BLOCK: usize = 16 << 10;

/// A new stream, with the permit for its descriptor.
pub(crate) type Opened = (BoxStream, Permit);

/// A data connection. Dropping it resets it; [`retire`](Self::retire) ends it cleanly.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) stream: BoxStream,
    /// Used when this end receives in MODE E.
    pub(crate) deframer: Deframer,
    pub(crate) permit: Permit,
    /// Bytes to read for one write: about those that the last ones took.
    pub(crate) room: u64,
    /// The measurements of the path that were told, if they are asked for.
    told: Option<Box<PathStats>>,
    /// Time of the last measurement during a transfer.
    looked: Option<Instant>,
}

impl Conn {
    pub(crate) fn new((stream, permit): Opened, limits: Limits) -> Self {
        Self {
            stream,
            deframer: Deframer::new(limits),
            permit,
            room: u64::MAX,
            told: None,
            looked: None,
        }
    }

    /// Measures the path during a transfer, from time to time, if its watch wants that; tells it the
    /// round trip.
    fn look(&mut self, watch: &Watch) -> Option<PathStats> {
        if !watch.measures() {
            return None;
        }
        let now = Instant::now();
        if self.looked.is_some_and(|at| now.duration_since(at) < LOOK) {
            return None;
        }
        self.looked = Some(now);
        let info = self.stream.info();
        let path = self.since_told(&info)?;
        if let Some(round_trip) = path.round_trip {
            watch.note_round_trip(info.peer.map(|peer| peer.ip()), round_trip);
        }
        Some(path)
    }

    /// Tells the watch the path of a running send.
    pub(crate) fn tell_sent(&mut self, watch: &Watch) {
        if let Some(path) = self.look(watch) {
            watch.add_path(path);
        }
    }

    /// Tells the watch the path of a running receive.
    pub(crate) fn tell_received(&mut self, watch: &Watch) {
        if let Some(path) = self.look(watch) {
            watch.add_arrival(path);
        }
    }

    /// The measurements of the path since the last call, where a layer makes them.
    pub(crate) fn path(&mut self) -> Option<PathStats> {
        let info = self.stream.info();
        self.since_told(&info)
    }

    fn since_told(&mut self, info: &Info) -> Option<PathStats> {
        let now = *info.get::<PathStats>()?;
        let before = self.told.replace(Box::new(now));
        Some(before.map_or(now, |before| now.since(*before)))
    }

    /// Whether an idle connection on which only we send is usable: nothing has arrived on it, and
    /// the peer has not closed it.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(&mut self.stream)
            .poll_read(&mut cx, &mut ReadBuf::new(&mut byte))
            .is_pending()
    }

    /// Looks for the end of an idle connection on which only we send: `true` for a reset, `false`
    /// where the peer closed it, as a Globus server does behind the end-of-data mark.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut byte = [0];
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
        read.map(|read| {
            let gone = read.map_err(|error| Gone::from(error.kind()));
            matches!(gone, Err(Gone::Reset | Gone::TimedOut | Gone::Unreachable))
        })
    }

    /// Reads the available part of the next header on a connection behind its end-of-data mark;
    /// `Ready` when the peer closed instead.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The header belongs to the next transfer, so it stays in the deframer unparsed.
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

    /// Writes the end mark of every layer and waits until it is written.
    pub(crate) async fn finish(mut self) -> Result<Self> {
        let ended = self.stream.shutdown().await;
        ended.map_err(|e| Error::broken("send", e))?;
        Ok(self)
    }

    /// Waits at most `within` until the peer closes a finished connection.
    pub(crate) async fn linger(mut self, within: Duration) {
        if !within.is_zero() {
            // After any result, an error included, the peer has seen the end.
            drop(timeout(within, self.stream.read(&mut [0])).await);
        }
    }

    /// Reads and discards the data of the peer for at most `within`.
    ///
    /// The kernel resets a connection that is closed with unread bytes, and a client that is still
    /// sending then fails before it reads the reply on the control connection.
    pub(crate) async fn drain(mut self, within: Duration) {
        let mut block = vec![0; DRAIN_BLOCK];
        let all = async { while matches!(self.stream.read(&mut block).await, Ok(1..)) {} };
        if timeout(within, all).await.is_ok() {
            self.retire();
        }
    }

    /// Ends an idle connection without waiting: sent bytes still arrive.
    pub(crate) fn retire(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let ended = pin!(&mut self.stream).poll_shutdown(&mut cx);
        // A layer that cannot write its end mark yet has bytes of the last transfer queued, which a
        // reset would lose.
        if ended.is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(timeout(RETIRING, self.finish()));
        }
    }
}

/// The connection of the last failed upload, while the peer still sends on it.
#[derive(Debug, Default)]
pub(crate) struct Draining(JoinSet<()>);

impl Draining {
    /// Drains `conn` for at most `within` and drops the connection before it, so that a peer with
    /// many failing uploads holds one connection.
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

    /// A stream that cannot write its end mark at once.
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
    async fn drained_connections_leave_no_tasks_behind() {
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
    async fn a_full_connection_is_not_reset_when_it_retires() {
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
            "the connection was dropped before its end mark"
        );
    }
}

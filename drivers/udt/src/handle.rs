//! `UdtHandle`: a connection as a byte stream.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;
use xio_core::{Info, Operation, Stream};

use crate::connection::ConnectionRef;
use crate::task::UNSENT;

/// An open UDT connection that carries bytes.
///
/// `shutdown` waits until the peer has acknowledged everything and was told of the end. It ends
/// both directions, since UDT has no half-close: the peer cannot send any more, and reading data
/// that has not arrived by then fails. Dropping the handle without `shutdown` aborts the
/// connection, which a peer of this kind sees as a reset.
pub struct UdtHandle {
    pub(crate) connection: ConnectionRef,
}

impl AsyncRead for UdtHandle {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let budget = ready!(poll_proceed(cx));
        let room = buf.initialize_unfilled();
        let read = self
            .connection
            .0
            .with(|state, now| match state.machine.read(now, room) {
                Poll::Ready(done) => {
                    Poll::Ready(done.map_err(|why| state.error(why, Operation::Read)))
                }
                Poll::Pending => state.wait_to_read(cx),
            });
        let n = ready!(read)?;
        budget.made_progress();
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl UdtHandle {
    fn poll_writing(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let budget = ready!(poll_proceed(cx));
        let op = Operation::Write;
        let wrote = self.connection.0.with(|state, now| {
            if let Some(lost) = state.check(op) {
                return Poll::Ready(Err(lost));
            }
            // A connection that has ended returns its error below.
            if state.closed.is_none() && state.machine.unsent() > UNSENT {
                state.waits_for_sending = true;
                return state.wait_to_write(cx, op);
            }
            let mut taken = 0;
            for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
                match state.machine.write(now, buf) {
                    Poll::Ready(Ok(n)) if n == buf.len() => taken += n,
                    Poll::Ready(Ok(n)) => return Poll::Ready(Ok(taken + n)),
                    // The bytes taken are reported first; the next call returns the failure.
                    _ if taken > 0 => break,
                    Poll::Ready(Err(why)) => return Poll::Ready(Err(state.error(why, op))),
                    Poll::Pending => return state.wait_to_write(cx, op),
                }
            }
            Poll::Ready(Ok(taken))
        });
        let taken = ready!(wrote)?;
        budget.made_progress();
        Poll::Ready(Ok(taken))
    }
}

impl AsyncWrite for UdtHandle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written data is sent as soon as pacing and the peer's window allow.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.0.poll_close(cx).map_err(Into::into)
    }
}

impl Stream for UdtHandle {
    fn describe(&self, info: &mut Info) {
        self.connection.0.describe(info);
    }
}

impl fmt::Debug for UdtHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

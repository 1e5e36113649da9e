//! `Conn`: one data connection, with the framing state that outlives a transfer on it.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use mode_e::{Deframer, Limits};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use xio_core::BoxStream;

use crate::error::{Error, Result};

/// A data connection. Dropping it aborts; [`retire`](Self::retire) ends it in good order.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) stream: BoxStream,
    /// Used when this end receives in MODE E.
    pub(crate) deframer: Deframer,
}

impl Conn {
    pub(crate) fn new(stream: BoxStream, limits: Limits) -> Self {
        Self {
            stream,
            deframer: Deframer::new(limits),
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
        while let Ok(mode_e::Step::Header { need }) = self.deframer.poll() {
            let mut bytes = [0; mode_e::HEADER_LEN];
            let Some(wanted) = bytes.get_mut(..need) else {
                break;
            };
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
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.stream
            .shutdown()
            .await
            .map_err(|e| Error::broken("send", e))
    }

    /// Ends an idle connection without waiting: what was sent still arrives.
    pub(crate) fn retire(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // A layer that cannot write its end mark at once leaves the peer with a cut-off one, which
        // harms nobody between two transfers.
        let _ = pin!(&mut self.stream).poll_shutdown(&mut cx);
    }
}

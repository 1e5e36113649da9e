//! `HttpHandle`: an exchange over a stream; writes and reads are the entities.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{Control, Error, Info, Operation, Result, Stream, wake_both};

use crate::error::{LAYER, error};
use crate::exchange::Exchange;
use crate::head::{Request, Response, Version};
use crate::options::HttpOptions;
use crate::receive::Receiving;
use crate::send::Sending;
use crate::within;

/// The role of this end: client or server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Asks,
    Answers,
}

/// One exchange over a stream, or one after the other on a persistent connection.
///
/// The client writes the entity of the request and reads that of the response; the server reads the
/// former and writes the latter. `shutdown` ends this end's entity.
///
/// The server shuts down the stream below after the response; the client keeps it open until it has
/// read the response, since servers take an early end for a cancellation. So a client that sends
/// should read to the end, which returns an error if the request failed.
pub struct HttpHandle<S: Stream> {
    pub(crate) below: S,
    pub(crate) options: Arc<HttpOptions>,
    pub(crate) role: Role,
    pub(crate) exchange: Exchange,
    /// The method of the request and the version of the client, which determine the response.
    pub(crate) method: String,
    pub(crate) peer_version: Version,
    /// Received bytes that are not parsed yet.
    pub(crate) incoming: BytesMut,
    pub(crate) receiving: Receiving,
    /// Bytes for the layer below: heads, and the rest of a partial write.
    pub(crate) outgoing: BytesMut,
    /// The layer below accepted bytes since its last flush.
    pub(crate) unflushed: bool,
    pub(crate) sending: Sending,
    /// Whether both ends keep the connection after this exchange.
    pub(crate) persistent: bool,
    /// The stream below was shut down.
    pub(crate) shut: bool,
    /// The error that ended reading.
    pub(crate) fault: Option<(xio_core::ErrorKind, String)>,
    /// Waker of a task that waits to write; its future may be dropped.
    pub(crate) writer: Option<Waker>,
    /// Whether a task waits to read; meanwhile a writer must not poll for reading.
    pub(crate) reader_waits: bool,
}

impl<S: Stream> HttpHandle<S> {
    pub(crate) fn new(below: S, options: Arc<HttpOptions>, role: Role) -> Self {
        Self {
            below,
            persistent: options.persistent,
            options,
            role,
            exchange: Exchange::default(),
            method: String::new(),
            peer_version: Version::Http11,
            incoming: BytesMut::new(),
            receiving: Receiving::head(),
            outgoing: BytesMut::new(),
            unflushed: false,
            sending: Sending::Undecided,
            shut: false,
            fault: None,
            writer: None,
            reader_waits: false,
        }
    }

    /// The heads of both messages; the server sets its response here.
    #[must_use]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The response, once its head is read or written.
    #[must_use]
    pub fn response(&self) -> Option<Response> {
        self.exchange.response()
    }

    /// Whether another exchange can follow on this connection, both entities being at their end.
    #[must_use]
    pub fn can_go_on(&self) -> bool {
        self.persistent
            && !self.shut
            && self.fault.is_none()
            && self.is_sent()
            && self.receiving.is_whole()
            // Bytes that arrived before the next request cannot be its response.
            && (self.role == Role::Answers || self.incoming.is_empty())
    }

    /// Sends another request on the same connection; the caller sets the field Host.
    ///
    /// # Errors
    /// If the last exchange is not complete, the peer does not keep the connection, or takes longer
    /// than the option `head_timeout`; for a request that a peer could read in two ways.
    ///
    /// # Cancel safety
    /// If the future is dropped, the next operation sends the whole request.
    pub async fn ask(&mut self, request: Request) -> Result<()> {
        if self.role != Role::Asks || !self.can_go_on() {
            return Err(self.cannot_go_on());
        }
        self.begin_request(request)?;
        self.receiving = Receiving::head();
        if self.options.delay_write_header {
            return Ok(());
        }
        self.push_head(Operation::Write).await
    }

    /// Waits for the head of the response. Behind one of 2xx to CONNECT, both directions carry bytes
    /// as they are.
    ///
    /// # Errors
    /// As reads have them, of another status than 2xx too unless `any_status` is set; at the server.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn receive_response(&mut self) -> Result<Response> {
        let op = Operation::Read;
        if let Some((kind, fact)) = &self.fault {
            return Err(error(*kind, op, fact.clone()));
        }
        self.push_head(op).await?;
        std::future::poll_fn(|cx| self.poll_response(cx))
            .await
            .map_err(|e| Error::from_io(e, LAYER, op))?;
        // A server has one too, once it has written it.
        let response = self.response().filter(|_| self.role == Role::Asks);
        response.ok_or_else(|| {
            let fact = "this end is the server, which gets no response";
            error(xio_core::ErrorKind::Unsupported, op, fact)
        })
    }

    /// Sends the queued head of a request.
    pub(crate) async fn push_head(&mut self, op: Operation) -> Result<()> {
        within(self.options.head_timeout, op, async {
            std::future::poll_fn(|cx| self.poll_push(cx))
                .await
                .map_err(|e| Error::from_io(e, LAYER, op))
        })
        .await
    }

    /// Waits for the next request on the same connection; `false` if the peer ended it instead.
    ///
    /// # Errors
    /// If the last exchange is not complete, the peer breaks the protocol, or no request arrives
    /// within the option `head_timeout`; after the latter, `accept` can be called again.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn accept(&mut self) -> Result<bool> {
        if self.role != Role::Answers || !self.can_go_on() {
            return Err(self.cannot_go_on());
        }
        let time = self.options.head_timeout;
        within(time, Operation::Open, self.receive_request()).await
    }

    fn cannot_go_on(&self) -> Error {
        let fact = match self.persistent {
            true => "the last exchange is not at its end; read and end both entities first",
            false => "the connection ends with this exchange; see the option persistent",
        };
        error(xio_core::ErrorKind::Unsupported, Operation::Open, fact)
    }

    /// Whether this end's message is complete and passed below.
    fn is_sent(&self) -> bool {
        matches!(self.sending, Sending::Ended | Sending::Nothing) && self.outgoing.is_empty()
    }
}

impl<S: Stream> AsyncRead for HttpHandle<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let answer = this.poll_entity(cx, buf);
        this.reader_waits = answer.is_pending();
        if this.reader_waits {
            // The peer may wait for a queued head. The next write reports an error.
            let waker = wake_both(cx.waker(), this.writer.as_ref());
            let _ = this.poll_push(&mut Context::from_waker(&waker));
        }
        answer
    }
}

impl<S: Stream> AsyncWrite for HttpHandle<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_for_writer(cx, |this, cx| this.poll_put(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut()
            .poll_for_writer(cx, |this, cx| this.poll_all(cx, Operation::Flush))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_for_writer(cx, Self::poll_end)
    }
}

impl<S: Stream> Stream for HttpHandle<S> {
    fn describe(&self, info: &mut Info) {
        self.below.describe(info);
        info.layer(LAYER);
        // A request has its own end mark; the stream below ends with the response.
        info.ends_together &= self.role == Role::Answers;
        info.insert(self.exchange.clone());
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.below.control(control)
    }
}

/// Shuts down the stream below, as far as that works at once, if both messages are complete. Else
/// it is dropped, so that the peer sees the truncation.
impl<S: Stream> Drop for HttpHandle<S> {
    fn drop(&mut self) {
        let whole = match self.sending {
            Sending::Ended => true,
            Sending::Nothing => self.receiving.is_whole(),
            _ => false,
        };
        if whole && !self.shut && self.outgoing.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut self.below).poll_shutdown(&mut cx);
        }
    }
}

impl<S: Stream> fmt::Debug for HttpHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

//! `HttpHandle`: an exchange over a stream; writing is the one message's entity, reading the other's.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{Control, Error, Info, Operation, Result, Stream};

use crate::error::{LAYER, error};
use crate::exchange::Exchange;
use crate::head::{Request, Response, Version};
use crate::options::HttpOptions;
use crate::receive::Receiving;
use crate::send::Sending;
use crate::within;

/// Which end of an exchange this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Asks,
    Answers,
}

/// One exchange over a stream, or one after the other on a persistent connection.
///
/// At the end that connected, what is written is the entity of the request and what is read that of
/// the response; at the other end it is the other way round. `shutdown` ends this end's entity.
///
/// The stream below is shut down with the response, by the end that answers; the end that asked
/// keeps it open until it has read the response, since servers take an early end for a change of
/// mind. So whoever sends should read to the end: there it says whether it was taken.
pub struct HttpHandle<S: Stream> {
    pub(crate) below: S,
    pub(crate) options: Arc<HttpOptions>,
    pub(crate) role: Role,
    pub(crate) exchange: Exchange,
    /// The method of the request and the version of its end, which decide about the response.
    pub(crate) method: String,
    pub(crate) peer_version: Version,
    /// What came from below and was not looked at.
    pub(crate) incoming: BytesMut,
    pub(crate) receiving: Receiving,
    /// What was made and not taken below: heads, and what a write left over.
    pub(crate) outgoing: BytesMut,
    /// The layer below took something since it was flushed.
    pub(crate) unflushed: bool,
    pub(crate) sending: Sending,
    /// Whether the connection goes on after this exchange, as far as both ends said.
    pub(crate) persistent: bool,
    /// The stream below was shut down.
    pub(crate) shut: bool,
    /// Why reading cannot go on.
    pub(crate) fault: Option<(xio_core::ErrorKind, String)>,
    /// Who waits until the layer below takes more; a reader must leave writing alone meanwhile.
    pub(crate) writer: Option<Waker>,
    /// Whether somebody waits for bytes; a writer must leave reading alone meanwhile.
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

    /// The heads of both messages, and where to say what to answer.
    #[must_use]
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// What was answered, once it was read so far.
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
            // What came before it was asked for answers nothing that is asked next.
            && (self.role == Role::Answers || self.incoming.is_empty())
    }

    /// Asks for something else on the same connection; the field Host is the caller's to give.
    ///
    /// # Errors
    /// When the last exchange is not at its end, the peer does not keep the connection, or takes
    /// longer than the option `head_timeout` says; for a request that a peer could read in two ways.
    ///
    /// # Cancel safety
    /// The request goes out in whole with the next operation when the future is dropped.
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

    /// Sends what waits, which is the head of a request.
    pub(crate) async fn push_head(&mut self, op: Operation) -> Result<()> {
        within(self.options.head_timeout, op, async {
            std::future::poll_fn(|cx| self.poll_push(cx))
                .await
                .map_err(|e| Error::from_io(e, LAYER, op))
        })
        .await
    }

    /// Waits for the next request on the same connection; gives false when the peer ended it instead.
    ///
    /// # Errors
    /// When the last exchange is not at its end, the peer breaks the protocol, or no request is
    /// there in the time of the option `head_timeout`; then it can be waited for once more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn accept(&mut self) -> Result<bool> {
        if self.role != Role::Answers || !self.can_go_on() {
            return Err(self.cannot_go_on());
        }
        let time = self.options.head_timeout;
        within(time, Operation::Open, self.receive_request()).await
    }

    fn cannot_go_on(&self) -> Error {
        let fact = match self.persistent {
            true => "the exchange before is not at its end; read and end both entities first",
            false => "the connection ends with this exchange; see the option persistent",
        };
        error(xio_core::ErrorKind::Unsupported, Operation::Open, fact)
    }

    /// Whether this end's message is complete and handed on.
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
        if this.reader_waits && this.writer.is_none() {
            // The peer may wait for a head that is still here. What goes wrong is for a write to say.
            let _ = this.poll_push(cx);
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
        // A request ends with a mark of its own, and the stream below with the answer.
        info.ends_together &= self.role == Role::Answers;
        info.insert(self.exchange.clone());
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.below.control(control)
    }
}

/// An exchange whose messages are complete is no abort, so the stream below is ended as far as that
/// works at once. Otherwise the peer must see that something is missing.
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

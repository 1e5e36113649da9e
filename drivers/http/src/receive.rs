//! Reads heads, and the entity through its framing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;
use xio_core::{Error, ErrorKind, Operation, Result, Stream, at_layer, poll_end};

use crate::bad::BadHead;
use crate::body::{Decoder, Next};
use crate::error::{LAYER, broken, error, refusal, truncated};
use crate::handle::{HttpHandle, Role};
use crate::head::{Headers, Response, Version};
use crate::parse::{self, Framing, HeadEnd};
use crate::send::Sending;

/// Most bytes of one read for heads and chunk lines.
const READ: usize = 16 * 1024;
/// Most interim responses before the final one.
const MAX_INTERIM: u8 = 16;

/// The progress of reading the peer's message.
#[derive(Debug)]
pub(crate) enum Receiving {
    Head { end: HeadEnd, interim: u8 },
    Entity(Decoder),
}

impl Receiving {
    pub(crate) fn head() -> Self {
        Self::Head {
            end: HeadEnd::default(),
            interim: 0,
        }
    }

    /// Whether the peer's message was read to its end.
    pub(crate) const fn is_whole(&self) -> bool {
        matches!(self, Self::Entity(decoder) if decoder.is_done())
    }
}

/// Whether a peer that wrote this head keeps the connection (RFC 9112 §9.3).
fn keeps(headers: &Headers, version: Version) -> bool {
    match version {
        Version::Http10 => headers.names("connection", "keep-alive"),
        Version::Http11 => !headers.names("connection", "close"),
    }
}

/// Appends bytes of the stream below and returns their number, 0 at its end.
fn poll_more<S: Stream>(
    below: &mut S,
    incoming: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let before = incoming.len();
    incoming.resize(before + READ, 0);
    let mut room = ReadBuf::new(incoming.get_mut(before..).unwrap_or_default());
    let answer = Pin::new(below).poll_read(cx, &mut room);
    let n = room.filled().len();
    incoming.truncate(before + n);
    ready!(answer)?;
    Poll::Ready(Ok(n))
}

impl<S: Stream> HttpHandle<S> {
    fn poll_fetch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        poll_more(&mut self.below, &mut self.incoming, cx)
            .map_err(|error| at_layer(error, LAYER, Operation::Read))
    }

    /// Stores the error that ends reading, and returns it.
    #[cold]
    fn fail(&mut self, failure: Error) -> io::Error {
        self.fault = Some((failure.kind(), failure.fact().to_owned()));
        self.persistent = false;
        failure.into()
    }

    /// Waits for the head of a request and checks it; `false` if the peer ended before it.
    pub(crate) async fn receive_request(&mut self) -> Result<bool> {
        let op = Operation::Open;
        let mut end = HeadEnd::default();
        loop {
            match parse::request(&self.incoming, &mut end) {
                Ok(Some((request, n))) => {
                    self.incoming.advance(n);
                    let framing = match parse::request_framing(&request) {
                        Ok(framing) => framing,
                        Err(bad) => return Err(self.turn_away(bad).await),
                    };
                    self.receiving = Receiving::Entity(Decoder::new(framing));
                    self.persistent =
                        self.options.persistent && keeps(&request.headers, request.version);
                    self.peer_version = request.version;
                    self.method.clone_from(&request.method);
                    // The client waits for a 100 before it sends the entity (RFC 9110 §10.1.1).
                    let waits = request.version == Version::Http11
                        && framing != Framing::Empty
                        && request.headers.names("expect", "100-continue");
                    self.sending = match waits {
                        true => Sending::Expected,
                        false => Sending::Undecided,
                    };
                    self.exchange.begin(request, true);
                    return Ok(true);
                }
                Ok(None) => {}
                Err(bad) => return Err(self.turn_away(bad).await),
            }
            let fetched = std::future::poll_fn(|cx| self.poll_fetch(cx)).await;
            match fetched.map_err(|e| Error::from_io(e, LAYER, op))? {
                0 if self.incoming.is_empty() => return Ok(false),
                0 => return Err(truncated(op, "the peer ended in the middle of its request")),
                _ => {}
            }
        }
    }

    /// Responds to an invalid request with its fault, and ends the connection.
    async fn turn_away(&mut self, bad: BadHead) -> Error {
        if let Ok(response) = Response::new(bad.status()) {
            self.persistent = false;
            self.method.clear();
            self.write_response(response, Some(0));
            // Best effort: the peer may be gone, and the caller gets the fault as an error.
            let _ = std::future::poll_fn(|cx| self.poll_push(cx)).await;
            self.sending = Sending::Ended;
        }
        broken(Operation::Open, bad)
    }

    /// Reads the entity, after the head if that is missing.
    pub(crate) fn poll_entity(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some((kind, fact)) = &self.fault {
                return Poll::Ready(Err(error(*kind, Operation::Read, fact.clone()).into()));
            }
            let decoder = match &mut self.receiving {
                Receiving::Entity(decoder) => decoder,
                Receiving::Head { .. } => {
                    ready!(self.poll_response(cx))?;
                    continue;
                }
            };
            match decoder.next(&self.incoming) {
                Ok(Next::End) => return self.poll_end_below(cx).map(Ok),
                Ok(Next::Skip(n)) => self.incoming.advance(n),
                Ok(Next::Payload(most)) if !self.incoming.is_empty() => {
                    let n = self.incoming.len().min(buf.remaining());
                    let n = n.min(usize::try_from(most).unwrap_or(usize::MAX));
                    buf.put_slice(self.incoming.get(..n).unwrap_or_default());
                    self.incoming.advance(n);
                    decoder.took(n as u64);
                    return Poll::Ready(Ok(()));
                }
                Ok(Next::Payload(most)) => {
                    self.let_go_on();
                    return self.poll_payload(cx, buf, most);
                }
                Ok(Next::More) => {
                    self.let_go_on();
                    if ready!(self.poll_fetch(cx))? == 0 {
                        return Poll::Ready(Err(self.cut()));
                    }
                }
                Err(bad) => return Poll::Ready(Err(self.fail(broken(Operation::Read, bad)))),
            }
        }
    }

    /// At the client, over a stream that ends both directions together, waits for the end below
    /// after the response: a caller that drops the stream earlier would abort the peer's shutdown.
    fn poll_end_below(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let follows = self.role == Role::Asks && !self.persistent;
        if follows && self.below.info().ends_together {
            let _said_nothing = ready!(poll_end(cx, &mut self.below));
        }
        Poll::Ready(())
    }

    /// Reads payload from below straight into the caller's buffer.
    fn poll_payload(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        most: u64,
    ) -> Poll<io::Result<()>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let before = buf.filled().len();
        let answer = if most >= buf.remaining() {
            Pin::new(&mut self.below).poll_read(cx, buf)
        } else {
            // A smaller window on the same memory; its filled part is then marked in `buf`.
            let mut window = ReadBuf::new(buf.initialize_unfilled_to(most));
            let answer = Pin::new(&mut self.below).poll_read(cx, &mut window);
            let n = window.filled().len();
            buf.advance(n);
            answer
        };
        ready!(answer).map_err(|error| at_layer(error, LAYER, Operation::Read))?;
        let n = buf.filled().len() - before;
        let Receiving::Entity(decoder) = &mut self.receiving else {
            return Poll::Ready(Ok(()));
        };
        if n > 0 {
            decoder.took(n as u64);
        } else if decoder.ends_with_stream() {
            *decoder = Decoder::new(Framing::Empty);
        } else {
            return Poll::Ready(Err(self.cut()));
        }
        Poll::Ready(Ok(()))
    }

    /// The stream below ended in the middle of an entity.
    #[cold]
    fn cut(&mut self) -> io::Error {
        let fact = "the peer ended in the middle of its entity, which is truncated";
        self.fail(truncated(Operation::Read, fact))
    }

    /// Sends a 100 to a client that waits for it, now that the entity is read.
    fn let_go_on(&mut self) {
        if self.sending == Sending::Expected {
            self.outgoing
                .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.sending = Sending::Undecided;
        }
    }

    /// Reads the head of the response, and skips interim ones.
    pub(crate) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let op = Operation::Read;
        loop {
            let Receiving::Head { end, interim } = &mut self.receiving else {
                return Poll::Ready(Ok(()));
            };
            let (response, n) = match parse::response(&self.incoming, end) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    if ready!(self.poll_fetch(cx))? == 0 {
                        let fact = match self.incoming.is_empty() {
                            true => "the peer ended without a response",
                            false => "the peer ended in the middle of the head of its response",
                        };
                        return Poll::Ready(Err(self.fail(truncated(op, fact))));
                    }
                    continue;
                }
                Err(bad) => return Poll::Ready(Err(self.fail(broken(op, bad)))),
            };
            self.incoming.advance(n);
            if response.status < 200 {
                *interim += 1;
                *end = HeadEnd::default();
                let bad = match response.status {
                    101 => Some(BadHead::Switch),
                    _ => (*interim > MAX_INTERIM).then_some(BadHead::Interim),
                };
                if let Some(bad) = bad {
                    return Poll::Ready(Err(self.fail(broken(op, bad))));
                }
                continue;
            }
            let framing = match parse::response_framing(&response, &self.method) {
                Ok(framing) => framing,
                Err(bad) => return Poll::Ready(Err(self.fail(broken(op, bad)))),
            };
            self.persistent &=
                keeps(&response.headers, response.version) && framing != Framing::UntilClose;
            self.receiving = Receiving::Entity(Decoder::new(framing));
            if parse::is_tunnel(&response, &self.method) {
                self.sending = Sending::UntilClose;
            }
            if !response.is_success() && !self.options.any_status {
                let asked = self.exchange.request();
                let target = asked.map(|request| request.target).unwrap_or_default();
                let (kind, fact) = refusal(&response, &target);
                self.exchange.answered(response);
                return Poll::Ready(Err(self.fail(error(kind, op, fact))));
            }
            self.exchange.answered(response);
            return Poll::Ready(Ok(()));
        }
    }

    /// Replaces the error of a write by the response, if the peer has sent one early.
    #[cold]
    pub(crate) fn explain(&mut self, failure: io::Error) -> io::Error {
        let unread = matches!(self.receiving, Receiving::Head { .. });
        if self.role == Role::Asks && unread && !self.reader_waits {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let answered = self.poll_response(&mut cx).is_ready();
            if answered
                && let Some((kind, fact)) = &self.fault
                && *kind != ErrorKind::UnexpectedEof
                && self.exchange.response().is_some()
            {
                return error(*kind, Operation::Write, fact.clone()).into();
            }
        }
        failure
    }
}

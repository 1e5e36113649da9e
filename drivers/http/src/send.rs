//! Writes heads, and the entity in its framing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use xio_core::{ErrorKind, Operation, Result, Stream, at_layer, shut_down};

use crate::bad::BadHead;
use crate::body::{LAST_CHUNK, chunk_line};
use crate::error::{LAYER, broken, error};
use crate::handle::{HttpHandle, Role};
use crate::head::{Request, Response, Version};
use crate::options::is_reserved;
use crate::parse;

/// Longest chunk, in bytes: the rest of a partial write of it is copied.
const MAX_CHUNK: usize = 256 * 1024;
/// Most slices of one write below, beside the framing.
const MAX_SLICES: usize = 64;

/// The progress of writing this end's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The client waits for a 100; the response is not begun.
    Expected,
    /// The response is not begun.
    Undecided,
    /// The entity is sent in chunks.
    Chunked,
    /// This number of bytes is left of the entity.
    Length(u64),
    /// The entity ends with the stream.
    UntilClose,
    /// The entity is discarded, in the response to HEAD.
    Dropped,
    /// There is no entity, and the message is complete.
    Nothing,
    /// The entity is complete.
    Ended,
}

/// Checks that a peer can read the request in one way only.
fn check(request: &Request) -> std::result::Result<(), String> {
    let own = |name: &str| is_reserved(name) && !name.eq_ignore_ascii_case("host");
    if let Some((name, _)) = request.headers.iter().find(|(name, _)| own(name)) {
        return Err(format!("the field {name} is written by this layer"));
    }
    // The fields of a request are public, so they may have changed since `Request::new`.
    Request::new(&request.method, &request.target).map_err(|bad| bad.to_string())?;
    match request.headers.all("host").count() {
        1 => Ok(()),
        _ => Err(BadHead::Host.to_string()),
    }
}

impl<S: Stream> HttpHandle<S> {
    /// Queues the head of a request.
    pub(crate) fn begin_request(&mut self, mut request: Request) -> Result<()> {
        let op = Operation::Connect;
        let (version, length) = (self.options.version, self.options.length);
        check(&request).map_err(|fact| error(ErrorKind::BadOption, op, fact))?;
        request.version = version;
        self.sending = match (request.has_entity(), length, version) {
            (false, ..) => Sending::Nothing,
            (true, Some(length), _) => Sending::Length(length),
            (true, None, Version::Http11) => Sending::Chunked,
            (true, None, Version::Http10) => {
                let fact =
                    "HTTP/1.0 has no chunks; set the length of the entity in the option length";
                return Err(error(ErrorKind::BadOption, op, fact));
            }
        };
        let headers = &mut request.headers;
        let framed = match self.sending {
            Sending::Chunked => headers.push("Transfer-Encoding", "chunked"),
            Sending::Length(length) => headers.push("Content-Length", length.to_string()),
            _ => Ok(()),
        };
        framed
            .and_then(|()| match (self.persistent, version) {
                (false, Version::Http11) => headers.push("Connection", "close"),
                (true, Version::Http10) => headers.push("Connection", "keep-alive"),
                _ => Ok(()),
            })
            .map_err(|bad| broken(op, bad))?;
        let mut head = Vec::new();
        request.write(&mut head);
        self.outgoing.extend_from_slice(&head);
        self.method.clone_from(&request.method);
        self.exchange.begin(request, false);
        Ok(())
    }

    /// Queues the head of the response, unless it has begun.
    fn begin_response(&mut self, empty: bool) -> io::Result<()> {
        if !matches!(self.sending, Sending::Undecided | Sending::Expected) {
            return Ok(());
        }
        if self.sending == Sending::Expected {
            // The peer may or may not send its entity, so this is the last exchange.
            self.persistent = false;
        }
        let response = match self.exchange.take_reply() {
            Some(response) => response,
            None => {
                let mut response = Response::new(self.options.status)
                    .map_err(|bad| broken(Operation::Write, bad))?;
                self.options
                    .add_to(&mut response.headers)
                    .map_err(|bad| broken(Operation::Write, bad))?;
                response
            }
        };
        let told = parse::length(&response.headers).map_err(|bad| broken(Operation::Write, bad))?;
        let length = told.or(self.options.length);
        // An empty response to HEAD does not tell the length of the response to GET.
        let known = empty && self.method != "HEAD";
        let length = length.or_else(|| known.then_some(0));
        self.write_response(response, length);
        Ok(())
    }

    /// Queues the head of a response with an entity of this length, if known.
    pub(crate) fn write_response(&mut self, mut response: Response, length: Option<u64>) {
        response.version = self.options.version;
        let chunks = self.peer_version == Version::Http11 && response.version == Version::Http11;
        let bare = matches!(response.status, 204 | 304);
        self.sending = match (self.method.as_str(), length) {
            _ if bare => Sending::Nothing,
            ("HEAD", _) => Sending::Dropped,
            (_, Some(length)) => Sending::Length(length),
            (_, None) if chunks => Sending::Chunked,
            (_, None) => Sending::UntilClose,
        };
        self.persistent &= self.sending != Sending::UntilClose;
        let headers = &mut response.headers;
        let told = headers.get("content-length").is_some();
        // None of these can fail: they are literals and a number.
        let _ = match (self.sending, length) {
            (Sending::Chunked, _) => headers.push("Transfer-Encoding", "chunked"),
            (Sending::Length(_) | Sending::Dropped, Some(length)) if !told => {
                headers.push("Content-Length", length.to_string())
            }
            _ => Ok(()),
        };
        let _ = match (self.persistent, self.peer_version) {
            (false, _) => headers.push("Connection", "close"),
            (true, Version::Http10) => headers.push("Connection", "keep-alive"),
            (true, Version::Http11) => Ok(()),
        };
        let mut head = Vec::new();
        response.write(&mut head);
        self.outgoing.extend_from_slice(&head);
        self.exchange.answered(response);
    }

    /// Writes all queued bytes to the layer below.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let n = ready!(Pin::new(&mut self.below).poll_write(cx, &self.outgoing))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(n);
            self.unflushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all queued bytes, and flushes the layer below if needed.
    pub(crate) fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if self.unflushed {
            ready!(Pin::new(&mut self.below).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all queued bytes and flushes the layer below, for the caller's operation `op`.
    pub(crate) fn poll_all(&mut self, cx: &mut Context<'_>, op: Operation) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx)).map_err(|failure| self.explain(at_layer(failure, LAYER, op)))?;
        ready!(Pin::new(&mut self.below).poll_flush(cx))
            .map_err(|failure| at_layer(failure, LAYER, op))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Ends this end's entity and, at the end of the exchange, the stream below.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let op = Operation::Shutdown;
        if self.shut {
            return Poll::Ready(Ok(()));
        }
        self.end_entity()?;
        ready!(self.poll_all(cx, op))?;
        let last = match self.role {
            Role::Answers => true,
            Role::Asks => self.receiving.is_whole(),
        };
        if last && !self.persistent {
            ready!(Pin::new(&mut self.below).poll_shutdown(cx))
                .map_err(|error| at_layer(error, LAYER, op))?;
            self.shut = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Runs `work` for a task that writes, flushes or shuts down, and keeps its waker while it
    /// waits.
    pub(crate) fn poll_for_writer<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Self, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let answer = work(self, cx);
        self.writer = answer.is_pending().then(|| cx.waker().clone());
        answer
    }

    /// Accepts bytes of the entity.
    pub(crate) fn poll_put(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        if total == 0 {
            return Poll::Ready(Ok(0));
        }
        if self.role == Role::Answers {
            self.begin_response(false)?;
        }
        let op = Operation::Write;
        match self.sending {
            Sending::Dropped => return Poll::Ready(Ok(total)),
            Sending::Chunked | Sending::UntilClose => {}
            Sending::Length(left) if total as u64 <= left => {}
            Sending::Length(left) => {
                let fact = format!("{total} bytes are more than the {left} left of the length");
                return Poll::Ready(Err(error(ErrorKind::BadOption, op, fact).into()));
            }
            Sending::Nothing => {
                let fact = match self.role {
                    Role::Asks => format!("a {} has no entity; see the option method", self.method),
                    Role::Answers => "a response of this status has no entity".to_owned(),
                };
                return Poll::Ready(Err(error(ErrorKind::Unsupported, op, fact).into()));
            }
            Sending::Ended | Sending::Undecided | Sending::Expected => {
                return Poll::Ready(Err(shut_down(LAYER, op)));
            }
        }
        self.poll_framed(cx, bufs)
            .map_err(|failure| self.explain(at_layer(failure, LAYER, op)))
    }

    /// Writes all queued bytes, then bytes of the entity in their framing.
    ///
    /// The bytes count as written as soon as a part of their frame is: a chunk must have its
    /// announced size, so the rest of it is queued.
    fn poll_framed(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(bufs.len().min(MAX_SLICES) + 2);
        let mut taken = 0;
        parts.push(&[]);
        for buf in bufs.iter().filter(|buf| !buf.is_empty()).take(MAX_SLICES) {
            let part = buf.get(..MAX_CHUNK - taken).unwrap_or(buf);
            taken += part.len();
            parts.push(part);
        }
        let line;
        let chunked = self.sending == Sending::Chunked;
        if chunked {
            line = chunk_line(taken);
            if let Some(first) = parts.first_mut() {
                *first = &line;
            }
            parts.push(b"\r\n");
        }
        let gone = loop {
            let mut slices = Vec::with_capacity(parts.len() + 1);
            slices.push(IoSlice::new(&self.outgoing));
            slices.extend(parts.iter().map(|part| IoSlice::new(part)));
            let n = ready!(Pin::new(&mut self.below).poll_write_vectored(cx, &slices))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            let before = self.outgoing.len();
            self.outgoing.advance(n.min(before));
            if n > before {
                break n - before;
            }
        };
        if !chunked {
            if let Sending::Length(left) = &mut self.sending {
                *left -= gone as u64;
            }
            return Poll::Ready(Ok(gone));
        }
        let mut skip = gone;
        for part in parts {
            let (_, rest) = part.split_at(skip.min(part.len()));
            skip -= part.len() - rest.len();
            self.outgoing.extend_from_slice(rest);
        }
        // The rest goes with the next write, flush or shutdown.
        let _ = self.poll_send(cx)?;
        Poll::Ready(Ok(taken))
    }

    /// Ends this end's entity.
    pub(crate) fn end_entity(&mut self) -> io::Result<()> {
        if self.role == Role::Answers {
            self.begin_response(true)?;
        }
        match self.sending {
            Sending::Chunked => self.outgoing.extend_from_slice(LAST_CHUNK),
            Sending::Length(left) if left > 0 => {
                let fact = format!("the entity ends {left} bytes before the length in its head");
                return Err(error(ErrorKind::BadOption, Operation::Shutdown, fact).into());
            }
            Sending::Nothing if self.role == Role::Asks => return Ok(()),
            _ => {}
        }
        self.sending = Sending::Ended;
        Ok(())
    }
}

//! `MulticastHandle`: the sender, or a receiver that may forward.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{Error, ErrorKind, Info, Operation, Outbox, Stream, shut_down};

use crate::LAYER;
use crate::fan::{Failure, Fan};
use crate::intro::{MAX_TEXT, Report};

/// Longest answer that goes up in one piece.
const MAX_ANSWER: usize = 32 << 10;

/// An open multicast stream.
pub struct MulticastHandle<S> {
    fan: Fan<S>,
    role: Role<S>,
}

enum Role<S> {
    /// Writes to the fan.
    Root { ignore_errors: bool },
    /// Reads from above, and forwards to the fan.
    Node(Node<S>),
}

struct Node<S> {
    above: S,
    answers: bool,
    /// Reports on their way up.
    waiting: Outbox,
    /// Whether the end has arrived from above.
    ended: bool,
    reported: bool,
}

impl<S: Stream> MulticastHandle<S> {
    pub(crate) fn root(fan: Fan<S>, ignore_errors: bool) -> Self {
        let role = Role::Root { ignore_errors };
        Self { fan, role }
    }

    pub(crate) fn node(above: S, answers: bool, fan: Fan<S>) -> Self {
        let role = Role::Node(Node {
            above,
            answers,
            waiting: Outbox::new(),
            ended: false,
            reported: false,
        });
        Self { fan, role }
    }

    /// Fails if failed receivers fail the whole; a receiver that forwards reports them up instead.
    pub(crate) fn judge(&self, op: Operation) -> Result<(), Error> {
        let Role::Root { ignore_errors } = self.role else {
            return Ok(());
        };
        let failures = &self.fan.failures;
        let Some(first) = failures.first() else {
            return Ok(());
        };
        if ignore_errors && !self.fan.is_lost() {
            return Ok(());
        }
        let texts: Vec<_> = self.failures().collect();
        let fact = format!("{} failed: {}", texts.len(), texts.join("; "));
        Err(Error::new(first.kind, LAYER, op, fact))
    }

    /// The receivers that failed so far, each with the reason.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.fan
            .failures
            .iter()
            .map(|failure| failure.text.as_str())
    }
}

fn refused(kind: ErrorKind, op: Operation, fact: &str) -> io::Error {
    Error::new(kind, LAYER, op, fact).into()
}

impl<S: Stream> AsyncRead for MulticastHandle<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let Role::Node(node) = &mut this.role else {
            let before = buf.filled().len();
            ready!(this.fan.poll_reports(cx, Some(&mut *buf)));
            if buf.filled().len() == before {
                this.judge(Operation::Read)?;
            }
            return Poll::Ready(Ok(()));
        };
        if !node.ended {
            let drained = this.fan.poll_drain(cx);
            let most = buf.remaining().min(this.fan.room());
            if most == 0 {
                ready!(drained);
            }
            let mut window = ReadBuf::new(buf.initialize_unfilled_to(most));
            ready!(Pin::new(&mut node.above).poll_read(cx, &mut window))?;
            let n = window.filled().len();
            this.fan.push(window.filled());
            buf.advance(n);
            if n > 0 {
                let _ = this.fan.poll_drain(cx);
                return Poll::Ready(Ok(()));
            }
            node.ended = true;
        }
        // The receivers behind get the end before this read returns it.
        this.fan.poll_shutdown(cx).map(Ok)
    }
}

impl<S: Stream> AsyncWrite for MulticastHandle<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Role::Node(node) = &mut this.role {
            return node.poll_answer(cx, buf);
        }
        let drained = this.fan.poll_drain(cx);
        this.judge(Operation::Write)?;
        let part = buf.get(..this.fan.room()).unwrap_or(buf);
        if part.is_empty() && !buf.is_empty() {
            return drained.map(|()| Ok(0));
        }
        this.fan.push(part);
        let _ = this.fan.poll_drain(cx);
        this.judge(Operation::Write)?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Role::Node(node) = &mut this.role {
            ready!(node.waiting.poll_drain(cx, &mut node.above))?;
            return Pin::new(&mut node.above).poll_flush(cx);
        }
        ready!(this.fan.poll_flush(cx));
        Poll::Ready(this.judge(Operation::Flush).map_err(Into::into))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Role::Node(node) = &mut this.role else {
            ready!(this.fan.poll_shutdown(cx));
            return Poll::Ready(this.judge(Operation::Shutdown).map_err(Into::into));
        };
        if !node.reported {
            if !this.fan.is_empty() {
                if !node.ended {
                    let fact = "an end that forwards must read to the end before it shuts down";
                    let kind = ErrorKind::Unsupported;
                    return Poll::Ready(Err(refused(kind, Operation::Shutdown, fact)));
                }
                ready!(this.fan.poll_shutdown(cx));
                ready!(this.fan.poll_reports(cx, None));
            }
            node.report(&this.fan.failures);
        }
        ready!(node.waiting.poll_drain(cx, &mut node.above))?;
        Pin::new(&mut node.above).poll_shutdown(cx)
    }
}

impl<S: Stream> Node<S> {
    fn poll_answer(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let refused = |kind, fact| Poll::Ready(Err(refused(kind, Operation::Write, fact)));
        if !self.answers {
            let fact = "only the first receiver can answer";
            return refused(ErrorKind::Unsupported, fact);
        }
        if self.reported {
            return Poll::Ready(Err(shut_down(LAYER, Operation::Write)));
        }
        ready!(self.waiting.poll_drain(cx, &mut self.above))?;
        let part = buf.get(..MAX_ANSWER).unwrap_or(buf);
        if !part.is_empty() {
            let out = self.waiting.tail();
            out.extend(Report::Answer.head(part.len()));
            out.extend_from_slice(part);
            let _ = self.waiting.poll_drain(cx, &mut self.above)?;
        }
        Poll::Ready(Ok(part.len()))
    }

    /// Queues the reports of failures, and the end of the reports.
    fn report(&mut self, failures: &[Failure]) {
        self.reported = true;
        let out = self.waiting.tail();
        for failure in failures {
            let bytes = failure.text.as_bytes();
            let part = bytes.get(..MAX_TEXT).unwrap_or(bytes);
            out.extend(Report::Failure.head(part.len()));
            out.extend_from_slice(part);
        }
        out.extend(Report::End.head(0));
    }
}

impl<S: Stream> Stream for MulticastHandle<S> {
    fn describe(&self, info: &mut Info) {
        match &self.role {
            Role::Node(node) => node.above.describe(info),
            Role::Root { .. } => {
                if let Some(first) = self.fan.first() {
                    first.describe(info);
                }
            }
        }
        info.layer(LAYER);
    }
}

impl<S: Stream> fmt::Debug for MulticastHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

//! Sending: written bytes become records, and these go to the layer below.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use xio_core::{Operation, Stream, shut_down, wake_both};

use crate::error::{LAYER, blame};
use crate::handle::{Ending, FIRST_READ, Output, TlsHandle};
use crate::session::{Intent, RECORD, Step};

/// Payload in bytes that is encrypted before the layer below takes it: several records, so that one
/// system call moves them, and few enough to stay in a core's cache.
const BATCH: usize = 8 * RECORD;

impl<S: Stream> TlsHandle<S> {
    /// Sends held bytes with the next write.
    pub(crate) fn release(&mut self) {
        if self.output == Output::Held {
            self.output = Output::Flushed;
        }
    }

    /// Writes all encrypted bytes to the layer below.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.release();
        while !self.outgoing.is_empty() {
            let n = ready!(Pin::new(&mut self.below).poll_write(cx, self.outgoing.filled()))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.consume(n);
            self.output = Output::Unflushed;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends, and flushes the layer below.
    pub(crate) fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        if self.output == Output::Unflushed {
            ready!(Pin::new(&mut self.below).poll_flush(cx))?;
            self.output = Output::Flushed;
        }
        Poll::Ready(Ok(()))
    }

    /// As [`poll_push`](Self::poll_push) for a reader, which leaves a waiting writer its wake-up.
    pub(crate) fn poll_push_beside_writer(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let waker = wake_both(cx.waker(), self.writer.as_ref());
        self.poll_push(&mut Context::from_waker(&waker))
    }

    /// As [`poll_send`](Self::poll_send), with errors of this layer.
    fn poll_drain(&mut self, cx: &mut Context<'_>, op: Operation) -> Poll<io::Result<()>> {
        let sent = self.poll_send(cx);
        self.explained(sent, op)
    }

    /// Runs an operation of the writing task, and keeps its waker while it is pending.
    pub(crate) fn poll_for_writer<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Self, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.writer = None;
        let answer = work(self, cx);
        self.writer = answer.is_pending().then(|| cx.waker().clone());
        answer
    }

    /// Carries an intent out, after the steps that the library takes before it.
    pub(crate) fn carry_out(
        &mut self,
        cx: &Context<'_>,
        op: Operation,
        intent: Intent<'_>,
    ) -> io::Result<()> {
        loop {
            match self.step(intent) {
                Ok(Step::Done | Step::Starved) => return Ok(()),
                Ok(Step::Again | Step::Payload | Step::PeerClosed) => {}
                Err(fault) => {
                    let error = blame(&fault, op);
                    self.fail(cx, fault);
                    return Err(error.into());
                }
            }
        }
    }

    /// Encrypts as much of `bufs` as there is room for, and returns the number of bytes.
    ///
    /// Short slices are joined, so that a header does not become a record of its own.
    fn encrypt(&mut self, cx: &Context<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let room = BATCH - self.outgoing.len();
        let mut left = room;
        let mut together = Vec::new();
        for (i, buf) in bufs.iter().enumerate() {
            let mut part = buf.get(..left).unwrap_or(buf);
            left -= part.len();
            let alone = i + 1 == bufs.len() || left == 0;
            if !together.is_empty() || (part.len() < RECORD && !alone) {
                let (head, rest) = part.split_at(part.len().min(RECORD - together.len()));
                together.extend_from_slice(head);
                part = rest;
                if together.len() == RECORD {
                    self.carry_out(cx, Operation::Write, Intent::Encrypt(&together))?;
                    together.clear();
                }
            }
            if part.len() < RECORD && !alone {
                together.extend_from_slice(part);
            } else if !part.is_empty() {
                self.carry_out(cx, Operation::Write, Intent::Encrypt(part))?;
            }
        }
        if !together.is_empty() {
            self.carry_out(cx, Operation::Write, Intent::Encrypt(&together))?;
        }
        Ok(room - left)
    }

    pub(crate) fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(Operation::Write)?;
        if self.ending != Ending::Open {
            return Poll::Ready(Err(shut_down(LAYER, Operation::Write)));
        }
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let full = self.outgoing.len() + RECORD > BATCH;
        if !self.outgoing.is_empty() && (full || self.output != Output::Held) {
            let sent = self.poll_drain(cx, Operation::Write)?;
            if sent.is_pending() && self.outgoing.len() + RECORD > BATCH {
                return Poll::Pending;
            }
        }
        let n = self.encrypt(cx, bufs)?;
        // The rest goes with the next write, flush or shutdown.
        let _ = self.poll_drain(cx, Operation::Write)?;
        Poll::Ready(Ok(n))
    }

    /// Sends the end mark and leaves the layer below open.
    pub(crate) fn poll_mark(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending == Ending::Open {
            self.check(Operation::Shutdown)?;
            self.carry_out(cx, Operation::Shutdown, Intent::Close)?;
            self.ending = Ending::Marked;
        }
        self.poll_drain(cx, Operation::Shutdown)
    }

    /// Sends all written bytes, and flushes the layer below.
    pub(crate) fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(Operation::Flush)?;
        ready!(self.poll_drain(cx, Operation::Flush))?;
        self.outgoing.shrink(FIRST_READ);
        let flushed = Pin::new(&mut self.below).poll_flush(cx);
        ready!(self.explained(flushed, Operation::Flush))?;
        self.output = Output::Flushed;
        Poll::Ready(Ok(()))
    }

    /// Ends this direction of the stream.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending != Ending::Shut {
            ready!(self.poll_mark(cx))?;
            ready!(self.poll_verdict(cx))?;
            // With unread tickets, closing the socket would reset the connection and destroy the
            // bytes in flight to the peer.
            if self.reader.is_none()
                && self.incoming.is_empty()
                && let Poll::Ready(Err(_)) = self.poll_fetch(cx)
            {
                self.require_mark();
            }
            let shut = Pin::new(&mut self.below).poll_shutdown(cx);
            ready!(self.explained(shut, Operation::Shutdown))?;
            self.ending = Ending::Shut;
        }
        Poll::Ready(Ok(()))
    }
}

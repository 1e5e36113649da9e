//! `Mapped<S, M>`: a stream with a `ByteMap` on it; the base of layers that change single bytes.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::control::Control;
use crate::error::{Operation, Result, shut_down};
use crate::info::Info;
use crate::outbox::Outbox;
use crate::stream::Stream;
use crate::wake::wake_both;

/// Changes the bytes of a [`Mapped`] stream, in both directions.
pub trait ByteMap: Send + Unpin + 'static {
    /// Name of the layer, for errors and descriptions.
    const LAYER: &'static str;

    /// Appends the form of `data` that the layer below gets, which may be longer, to `out`.
    fn encode(&mut self, data: &[u8], out: &mut Vec<u8>);

    /// Turns received bytes into data in place, at the front of `bytes`, and returns its length.
    ///
    /// Appends to `answers` the bytes that the peer must get for them, in their form below.
    ///
    /// # Errors
    /// A violation of the protocol; the stream is broken then.
    fn decode(&mut self, bytes: &mut [u8], answers: &mut Vec<u8>) -> Result<usize>;

    /// Appends the end mark, if there is one, to `out`.
    fn finish(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Checks that the received bytes may end here.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where something is missing.
    fn end(&self) -> Result<()> {
        Ok(())
    }
}

/// A stream through a [`ByteMap`].
///
/// Bytes are encoded into a bounded buffer and decoded in the buffer of the caller.
pub struct Mapped<S, M> {
    inner: S,
    map: M,
    waiting: Outbox,
    shut: bool,
    /// Whether there are answers that were not flushed.
    answers: bool,
    /// The tasks that wait for the layer below to take bytes.
    tasks: Waiting,
}

/// The side that calls the layer below.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// A reader that brings answers down before it reads on.
    Reader,
    Writer,
}

/// The tasks that wait for the layer below to take bytes; the future of one may be dropped.
#[derive(Default)]
struct Waiting {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Waiting {
    /// Notes the task of a side, and returns a waker of all that wait.
    fn join(&mut self, side: Side, waker: &Waker) -> Waker {
        let (own, other) = match side {
            Side::Reader => (&mut self.reader, &self.writer),
            Side::Writer => (&mut self.writer, &self.reader),
        };
        *own = Some(waker.clone());
        wake_both(waker, other.as_ref())
    }

    /// Wakes the other side.
    fn wake_other(&mut self, side: Side) {
        let waiting = std::mem::take(self);
        let other = match side {
            Side::Reader => waiting.writer,
            Side::Writer => waiting.reader,
        };
        other.into_iter().for_each(Waker::wake);
    }
}

impl<S: Stream, M: ByteMap> Mapped<S, M> {
    /// Bytes that wait to go down at which a peer that asks without reading is not read either.
    pub const MAX_WAITING: usize = 16 << 10;

    /// Puts `map` on `inner`.
    pub fn new(inner: S, map: M) -> Self {
        Self {
            inner,
            map,
            waiting: Outbox::new(),
            shut: false,
            answers: false,
            tasks: Waiting::default(),
        }
    }

    /// Number of bytes that wait to go down.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Brings everything down for one side, and flushes it on demand; then wakes the other side.
    fn poll_down(&mut self, waker: &Waker, side: Side, flush: bool) -> Poll<io::Result<()>> {
        if self.waiting.is_empty() && !flush {
            return Poll::Ready(Ok(()));
        }
        let tasks = self.tasks.join(side, waker);
        let mut cx = Context::from_waker(&tasks);
        let mut down = self.waiting.poll_drain(&mut cx, &mut self.inner);
        if flush && matches!(down, Poll::Ready(Ok(()))) {
            down = Pin::new(&mut self.inner).poll_flush(&mut cx);
        }
        if down.is_ready() {
            self.tasks.wake_other(side);
        }
        down
    }

    /// Brings answers down while reading, since the writer may stay idle for long.
    fn poll_answer(&mut self, waker: &Waker) -> Poll<io::Result<()>> {
        let answered = self.poll_down(waker, Side::Reader, self.answers);
        self.answers &= answered.is_pending();
        answered
    }

    /// Decodes in place, and puts the answers among the bytes that go down.
    fn decode(&mut self, bytes: &mut [u8]) -> Result<usize> {
        if self.shut {
            // After this end was shut down there is no way left to answer.
            return self.map.decode(bytes, &mut Vec::new());
        }
        let before = self.waiting.len();
        let decoded = self.map.decode(bytes, self.waiting.tail());
        self.answers |= self.waiting.len() > before;
        decoded
    }
}

impl<S: Stream, M: ByteMap> AsyncRead for Mapped<S, M> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while buf.remaining() > 0 {
            if this.poll_answer(cx.waker())?.is_pending() && this.waiting.len() >= Self::MAX_WAITING
            {
                return Poll::Pending;
            }
            let mut fresh = ReadBuf::new(buf.initialize_unfilled());
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut fresh))?;
            if fresh.filled().is_empty() {
                this.map.end()?;
                break;
            }
            let kept = this.decode(fresh.filled_mut())?;
            if kept > 0 {
                buf.advance(kept);
                // The peer is answered even if the caller does not read on.
                let _ = this.poll_answer(cx.waker())?;
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream, M: ByteMap> AsyncWrite for Mapped<S, M> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if this.shut {
            return Poll::Ready(Err(shut_down(M::LAYER, Operation::Write)));
        }
        ready!(this.poll_down(cx.waker(), Side::Writer, false))?;
        let part = buf.get(..Self::MAX_WAITING).unwrap_or(buf);
        this.map.encode(part, this.waiting.tail());
        let _ = this.poll_down(cx.waker(), Side::Writer, false)?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_down(cx.waker(), Side::Writer, true)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.shut {
            this.shut = true;
            this.answers = false;
            this.map.finish(this.waiting.tail());
        }
        ready!(this.poll_down(cx.waker(), Side::Writer, false))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

impl<S: Stream, M: ByteMap> Stream for Mapped<S, M> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        info.layer(M::LAYER);
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.inner.control(control)
    }
}

impl<S: Stream, M: ByteMap> fmt::Debug for Mapped<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

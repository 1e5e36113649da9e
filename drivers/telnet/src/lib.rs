//! Carries bytes through the Telnet protocol (RFC 854).
//!
//! # What it does
//!
//! Any byte can be written and read: 255 is doubled, a carriage return that no line feed follows
//! gets a NUL behind it, and both are taken off at the other end. To a Telnet peer this end is a
//! plain network virtual terminal: every option that it offers or asks for is refused, which RFC 854
//! allows any end to do, and its commands and subnegotiations are read over. Both ends behave alike.
//!
//! # When not to use it
//!
//! Between two ends that are both ours: Telnet has neither length nor checksum nor an end mark, so
//! the end of the layer below is the end.
//!
//! # String form
//!
//! `telnet`, without options.
//!
//! # Cost
//!
//! One pass over the bytes, and one copy of what is written. Reading decodes in place.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::Transform;
//! use xio_telnet::Telnet;
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, mut peer) = Mem::new().pair();
//! let mut near = Telnet::new().respond(near).await?;
//!
//! // The peer offers to echo (WILL ECHO), and says hello.
//! peer.write_all(b"\xff\xfb\x01hello\r\n").await?;
//! let mut line = [0; 7];
//! near.read_exact(&mut line).await?;
//! assert_eq!(&line, b"hello\r\n");
//!
//! // It was refused (DONT ECHO).
//! let mut answer = [0; 3];
//! peer.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"\xff\xfe\x01");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod codec;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{
    Driver, DynLayer, Error, ErrorKind, Info, NoOptions, Operation, Outbox, Result, Stream,
    Transform,
};

pub use codec::{Decoder, Encoder, TooLong};

const LAYER: &str = "telnet";

/// Most bytes that wait to go down; a peer that asks without reading is not read either.
const MAX_WAITING: usize = 16 << 10;

/// The layer.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Telnet;

impl Telnet {
    /// A layer that speaks Telnet.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl fmt::Debug for Telnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LAYER)
    }
}

impl<S: Stream> Transform<S> for Telnet {
    type Handle = TelnetHandle<S>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(TelnetHandle {
            inner,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            waiting: Outbox::new(),
            shut: false,
            asked: false,
            reader: None,
            writer: None,
        })
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

/// A stream through Telnet.
pub struct TelnetHandle<S> {
    inner: S,
    decoder: Decoder,
    encoder: Encoder,
    waiting: Outbox,
    shut: bool,
    /// Whether there are answers that were not flushed.
    asked: bool,
    /// Who waits to bring answers down before reading on.
    reader: Option<Waker>,
    /// Who waits to write.
    writer: Option<Waker>,
}

fn broken(kind: ErrorKind, fact: impl Into<String>) -> io::Error {
    Error::new(kind, LAYER, Operation::Read, fact).into()
}

/// Who calls the layer below, which wakes only the last who waited there.
#[derive(Debug, Clone, Copy)]
enum Side {
    Reader,
    Writer,
}

impl<S: Stream> TelnetHandle<S> {
    /// Brings everything down for one side, and flushes it on demand; when it is down, the other
    /// side is woken, whose place below this one took.
    fn poll_down(&mut self, cx: &mut Context<'_>, side: Side, flush: bool) -> Poll<io::Result<()>> {
        let mut down = self.waiting.poll_drain(cx, &mut self.inner);
        if flush && matches!(down, Poll::Ready(Ok(()))) {
            down = Pin::new(&mut self.inner).poll_flush(cx);
        }
        let (own, other) = match side {
            Side::Reader => (&mut self.reader, &mut self.writer),
            Side::Writer => (&mut self.writer, &mut self.reader),
        };
        *own = down.is_pending().then(|| cx.waker().clone());
        if down.is_ready()
            && let Some(other) = other.take()
        {
            other.wake();
        }
        down
    }

    /// Brings answers down while reading: nobody else may write or flush for long.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let answered = self.poll_down(cx, Side::Reader, self.asked);
        self.asked &= answered.is_pending();
        answered
    }
}

impl<S: Stream> AsyncRead for TelnetHandle<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if this.poll_answer(cx)?.is_pending() && this.waiting.len() >= MAX_WAITING {
                return Poll::Pending;
            }
            let window = buf.initialize_unfilled();
            let mut fresh = ReadBuf::new(window);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut fresh))?;
            let n = fresh.filled().len();
            if n == 0 {
                return Poll::Ready(match this.decoder.is_within() {
                    false => Ok(()),
                    true => Err(broken(
                        ErrorKind::UnexpectedEof,
                        "the stream ended within a command",
                    )),
                });
            }
            // After this end was shut down there is no way left to answer.
            let mut unsaid = Vec::new();
            let answers = match this.shut {
                false => this.waiting.tail(),
                true => &mut unsaid,
            };
            let before = answers.len();
            let raw = window.get_mut(..n).unwrap_or_default();
            let decoded = this.decoder.decode(raw, answers);
            let kept = decoded.map_err(|error| broken(ErrorKind::Protocol, error.to_string()))?;
            if answers.len() > before {
                this.encoder.interrupt(answers, before);
                this.asked = !this.shut;
            }
            if kept > 0 {
                buf.advance(kept);
                // What it asked for is answered even if nobody reads on.
                let _ = this.poll_answer(cx)?;
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: Stream> AsyncWrite for TelnetHandle<S> {
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
            let fact = "it was shut down before";
            let error = Error::new(ErrorKind::Reset, LAYER, Operation::Write, fact);
            return Poll::Ready(Err(error.into()));
        }
        ready!(this.poll_down(cx, Side::Writer, false))?;
        let part = buf.get(..MAX_WAITING).unwrap_or(buf);
        this.encoder.encode(part, this.waiting.tail());
        let _ = this.poll_down(cx, Side::Writer, false)?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_down(cx, Side::Writer, true)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.shut {
            this.shut = true;
            this.asked = false;
            this.encoder.finish(this.waiting.tail());
        }
        ready!(this.poll_down(cx, Side::Writer, false))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for TelnetHandle<S> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        info.layer(LAYER);
    }
}

impl<S: Stream> fmt::Debug for TelnetHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(LAYER, "the Telnet protocol", |_: NoOptions, _| {
        Ok(DynLayer::new(Telnet::new()))
    })
}

#[cfg(test)]
mod tests;

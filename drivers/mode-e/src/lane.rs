//! `Lane`: one connection of a stream, in both directions.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mode_e::{BadBlock, BadBlockKind, Deframer, Gather, GatherError, HEADER_LEN, Limits, Step};
use tokio::io::ReadBuf;
use xio_core::{Error, ErrorKind, Operation, Outbox, Stream, poll_end};

use crate::LAYER;

pub(crate) struct Lane<S> {
    pub(crate) stream: S,
    deframer: Deframer,
    /// Blocks on their way down.
    pub(crate) waiting: Outbox,
    /// Whether reading is done.
    pub(crate) ended: bool,
    /// Whether the layer below has ended as well.
    below_ended: bool,
    /// Whether the layer below is shut down.
    down: bool,
}

pub(crate) fn broken(kind: ErrorKind, fact: impl Into<String>) -> io::Error {
    Error::new(kind, LAYER, Operation::Read, fact).into()
}

pub(crate) fn contradicts(error: GatherError) -> io::Error {
    let text = error.to_string();
    let fact = text.strip_prefix("mode e: ").unwrap_or(&text);
    broken(ErrorKind::Protocol, fact)
}

fn bad(block: BadBlock) -> io::Error {
    let kind = match block.kind {
        BadBlockKind::CutInHeader
        | BadBlockKind::CutInPayload { .. }
        | BadBlockKind::CutBeforeEod => ErrorKind::UnexpectedEof,
        _ => ErrorKind::Protocol,
    };
    broken(
        kind,
        format!("{} (at byte {} of its connection)", block.kind, block.at),
    )
}

impl<S: Stream> Lane<S> {
    pub(crate) fn new(stream: S, limits: Limits) -> Self {
        Self {
            stream,
            deframer: Deframer::new(limits),
            waiting: Outbox::new(),
            ended: false,
            below_ended: false,
            down: false,
        }
    }

    /// Whether a header has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.deframer.has_begun()
    }

    /// Whether no byte has arrived or left: it can still serve another stream.
    pub(crate) fn is_untouched(&mut self) -> bool {
        let header = self.deframer.poll();
        let nothing = matches!(header, Ok(Step::Header { need: HEADER_LEN }));
        nothing && !self.ended && !self.has_begun() && !self.down
    }

    /// Reads to the next payload and returns its offset and length; `None` at the end.
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        gather: &mut Gather,
    ) -> Poll<io::Result<Option<(u64, u64)>>> {
        while !self.ended {
            match self.deframer.poll().map_err(bad)? {
                Step::Payload { offset, len } => return Poll::Ready(Ok(Some((offset, len)))),
                Step::Eof { connections } => gather.eof(connections).map_err(contradicts)?,
                Step::Eod { .. } => {
                    gather.eod().map_err(contradicts)?;
                    self.ended = true;
                }
                Step::Header { need } => {
                    let mut header = [0; HEADER_LEN];
                    let mut window = ReadBuf::new(header.get_mut(..need).unwrap_or_default());
                    ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
                    if window.filled().is_empty() {
                        self.below_ended = true;
                        self.deframer.at_end().map_err(bad)?;
                        self.ended = true;
                    }
                    self.deframer.feed(window.filled());
                    if self.deframer.just_begun() {
                        gather.begun().map_err(contradicts)?;
                    }
                }
                // The connection closes without any block.
                _ => self.ended = true,
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Waits for the end of the layer below, after that of this one. Bytes before it belong to no
    /// block of this stream.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.below_ended {
            let _of_another = ready!(poll_end(cx, &mut self.stream));
            self.below_ended = true;
        }
        Poll::Ready(())
    }

    /// Reads payload, of which `len` bytes are left, and returns the number of bytes.
    pub(crate) fn poll_payload(
        &mut self,
        cx: &mut Context<'_>,
        len: u64,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let most = usize::try_from(len)
            .unwrap_or(usize::MAX)
            .min(buf.remaining());
        let mut window = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
        let n = window.filled().len();
        if n == 0 {
            self.deframer.at_end().map_err(bad)?;
        }
        buf.advance(n);
        self.deframer.moved(n as u64);
        Poll::Ready(Ok(n))
    }

    /// Writes the waiting bytes to the layer below.
    pub(crate) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.waiting.poll_drain(cx, &mut self.stream)
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.down {
            ready!(self.poll_drain(cx))?;
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.down = true;
        }
        Poll::Ready(Ok(()))
    }
}

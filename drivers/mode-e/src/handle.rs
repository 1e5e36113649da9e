//! `ModeEHandle`: spreads writes over its connections, and reads the one with the next block.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mode_e::{Gather, Header, Limits};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use xio_core::{BlockRead, Control, Entry, ErrorKind, Info, Operation, Result, Stream, shut_down};

use crate::lane::{Lane, broken, contradicts};
use crate::passive::Others;
use crate::{LAYER, ModeEOptions};

const LIMITS: Limits = Limits::DEFAULT.with_max_connections(256);

/// Time to wait for an announced connection when all others have ended.
const LATE: Duration = Duration::from_secs(60);

/// Time to wait for the connections to end after the stream; some peers keep them for the next one.
const OPEN: Duration = Duration::from_secs(1);

/// One stream over several connections.
pub struct ModeEHandle<S> {
    pub(crate) lanes: Vec<Lane<S>>,
    /// Number of lanes, from the first, that are written to.
    writers: usize,
    block: usize,
    /// Offset in the stream of the next written block.
    written: u64,
    /// The lane to try first for the next block.
    turn: usize,
    shut: bool,
    gather: Gather,
    /// Offset in the stream of the next byte read in order.
    read: u64,
    /// Whether the whole stream has arrived.
    complete: bool,
    /// Whether this end connected.
    opener: bool,
    /// At the accepting end: the source of the other connections, until all have ended.
    others: Option<Others<S>>,
    late: Option<Pin<Box<Sleep>>>,
    /// Deadline for the connections to end, once the whole stream has arrived.
    open: Option<Pin<Box<Sleep>>>,
    /// Settings of the open stream, for connections that join later.
    pub(crate) settings: Vec<Entry>,
}

/// State of the lanes with regard to the next block.
#[derive(Default)]
struct Standing {
    /// A lane waits for bytes.
    waiting: bool,
    /// A lane has a block of a later offset.
    ahead: bool,
}

impl<S: Stream> ModeEHandle<S> {
    pub(crate) fn opened(streams: Vec<S>, options: ModeEOptions) -> Self {
        let writers = streams.len();
        let lanes = streams.into_iter().map(|s| Lane::new(s, LIMITS)).collect();
        Self {
            lanes,
            writers,
            block: options.block.in_memory(),
            written: 0,
            turn: 0,
            shut: false,
            gather: Gather::new(LIMITS),
            read: 0,
            complete: false,
            opener: true,
            others: None,
            late: None,
            open: None,
            settings: Vec::new(),
        }
    }

    pub(crate) fn accepted(first: S, others: Option<Others<S>>, options: ModeEOptions) -> Self {
        Self {
            opener: false,
            others,
            ..Self::opened(vec![first], options)
        }
    }

    /// Adds accepted connections.
    fn poll_others(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(others) = &mut self.others
            && let Poll::Ready(next) = others.poll_next(cx)
        {
            if let Some(mut stream) = next? {
                for setting in &self.settings {
                    // The others took it: a connection that refuses is broken, as reading it tells.
                    let _ = stream.control(Control::Set(setting));
                }
                self.lanes.push(Lane::new(stream, LIMITS));
            }
        }
        Ok(())
    }

    /// Keeps a setting in place of those that it overrides.
    fn remember(&mut self, setting: &Entry) {
        self.settings.retain(|before| {
            let overrides = |key| setting.options().any(|(other, _)| other == key);
            before.driver() != setting.driver() || !before.options().all(|(key, _)| overrides(key))
        });
        self.settings.push(setting.clone());
    }

    fn is_opening(&self) -> bool {
        self.others.as_ref().is_some_and(Others::is_opening)
    }

    /// Whether the stream can do without a lane that broke before its first block.
    fn can_lose(&self, at: usize) -> bool {
        match self.opener {
            // Answers arrive over the first; the others are done once all is written.
            true => at > 0 && self.shut,
            false => (self.lanes.len() > 1 || self.is_opening()) && (at > 0 || self.written == 0),
        }
    }

    /// Reads from a lane whose next block is at `wanted`, or from any where that is `None`.
    fn poll_lanes(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
        standing: &mut Standing,
    ) -> Poll<io::Result<u64>> {
        let mut at = 0;
        while let Some(lane) = self.lanes.get_mut(at) {
            let begun = lane.has_begun();
            match lane.poll_head(cx, &mut self.gather) {
                Poll::Pending => standing.waiting = true,
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some((offset, _)))) if wanted.is_some_and(|at| at < offset) => {
                    standing.ahead = true;
                }
                Poll::Ready(Ok(Some((offset, _)))) if wanted.is_some_and(|at| at > offset) => {
                    let fact = format!("the bytes at {offset} arrived twice");
                    return Poll::Ready(Err(broken(ErrorKind::Protocol, fact)));
                }
                Poll::Ready(Ok(Some((offset, len)))) => match lane.poll_payload(cx, len, buf)? {
                    Poll::Pending => standing.waiting = true,
                    Poll::Ready(n) => {
                        let counted = self.gather.record(offset, n as u64);
                        return Poll::Ready(counted.map_err(contradicts).map(|()| offset));
                    }
                },
                Poll::Ready(Err(error)) => {
                    if begun || !self.can_lose(at) {
                        if !begun {
                            self.release();
                        }
                        return Poll::Ready(Err(error));
                    }
                    if !self.opener {
                        drop(self.lanes.remove(at));
                        continue;
                    }
                    if let Some(lane) = self.lanes.get_mut(at) {
                        lane.ended = true;
                    }
                }
            }
            at += 1;
        }
        Poll::Pending
    }

    /// Reads bytes, those at `wanted` where that is given, and returns their offset.
    fn poll_block(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(self.read));
        }
        if self.complete {
            return self.poll_lanes_end(cx).map(|()| Ok(self.read));
        }
        loop {
            let mut standing = Standing::default();
            if let Poll::Ready(done) = self.poll_lanes(cx, wanted, buf, &mut standing) {
                self.late = None;
                return Poll::Ready(done);
            }
            if self.gather.is_complete() {
                self.end()?;
                return self.poll_lanes_end(cx).map(|()| Ok(self.read));
            }
            let left = self.lanes.len();
            self.poll_others(cx)?;
            // A lane that was just added has not been read.
            if self.lanes.len() > left {
                continue;
            }
            if standing.waiting || self.is_opening() {
                return Poll::Pending;
            }
            return self.poll_missing(cx, wanted, standing.ahead);
        }
    }

    /// Ends reading: checks that no byte is missing, and frees the listener for another stream.
    fn end(&mut self) -> io::Result<()> {
        let received = self.gather.received();
        if received.first_hole() != received.end() {
            let fact = format!("all connections ended after only the bytes {received}");
            return Err(broken(ErrorKind::UnexpectedEof, fact));
        }
        self.complete = true;
        self.release();
        Ok(())
    }

    /// Waits for the ends of the connections. A socket that is closed with an unread end mark, such
    /// as that of TLS, resets the connection, and the peer loses the bytes in flight. A lane
    /// without any block is not waited for: the peer may not even know of it.
    fn poll_lanes_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut is_open = false;
        for lane in &mut self.lanes {
            is_open |= lane.poll_end(cx).is_pending() && lane.has_begun();
        }
        if is_open {
            let open = self
                .open
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(OPEN)));
            ready!(open.as_mut().poll(cx));
        }
        Poll::Ready(())
    }

    /// Returns the listener, and the unused connections taken from it.
    fn release(&mut self) {
        let Some(others) = self.others.take() else {
            return;
        };
        let mut unused = Vec::new();
        // The first belongs to this stream in any case: answers may have gone over it.
        let mut at = 1;
        while let Some(lane) = self.lanes.get_mut(at) {
            match lane.is_untouched() {
                true => unused.push(self.lanes.remove(at).stream),
                false => at += 1,
            }
        }
        others.give_back(unused);
    }

    /// Every lane has ended or is ahead: waits for a missing one, or fails.
    fn poll_missing(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        ahead: bool,
    ) -> Poll<io::Result<u64>> {
        let silent = !self.lanes.iter().any(Lane::has_begun);
        if self.others.is_some() && !silent {
            let late = self
                .late
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(LATE)));
            ready!(late.as_mut().poll(cx));
        }
        if silent {
            self.release();
        }
        let expected = self.gather.expected();
        let fact = match (wanted, expected) {
            (Some(place), _) if ahead => format!(
                "the bytes at {place} are behind later ones or on a missing connection; `ordering` on top puts blocks of one connection in order"
            ),
            (_, None) => "the connections ended without an end mark".to_owned(),
            (_, Some(expected)) => format!(
                "all connections ended after {} of {expected} end marks; does this end take as many connections as the peer opens?",
                self.gather.eods()
            ),
        };
        let kind = if ahead {
            ErrorKind::Protocol
        } else {
            ErrorKind::UnexpectedEof
        };
        Poll::Ready(Err(broken(kind, fact)))
    }
}

impl<S: Stream> AsyncRead for ModeEHandle<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(this.poll_block(cx, Some(this.read), buf))?;
        this.read += (buf.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for ModeEHandle<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.shut {
            return Poll::Ready(Err(shut_down(LAYER, Operation::Write)));
        }
        let part = buf.get(..this.block).unwrap_or(buf);
        if part.is_empty() {
            return Poll::Ready(Ok(0));
        }
        for step in 0..this.writers {
            let at = (this.turn + step) % this.writers;
            let Some(lane) = this.lanes.get_mut(at) else {
                break;
            };
            if lane.poll_drain(cx)?.is_pending() {
                continue;
            }
            let header = Header::data(this.written, part.len() as u64);
            let out = lane.waiting.tail();
            out.extend(header.to_bytes());
            out.extend_from_slice(part);
            // The block is taken; the next call brings down the rest.
            let _ = lane.poll_drain(cx)?;
            this.written += part.len() as u64;
            this.turn = at + 1;
            return Poll::Ready(Ok(part.len()));
        }
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        poll_all(&mut this.lanes, |lane| lane.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut {
            this.shut = true;
            // GFD.20 §4: one mark for each connection, and their number on one of them.
            for (at, lane) in this.lanes.iter_mut().take(this.writers).enumerate() {
                let mark = match at {
                    0 => Header::eof(this.writers as u64),
                    _ => Header::eod(),
                };
                lane.waiting.tail().extend(mark.to_bytes());
            }
        }
        poll_all(&mut this.lanes, |lane| lane.poll_shutdown(cx))
    }
}

/// Runs an operation on every lane; a pending one does not hold up the others.
fn poll_all<S>(
    lanes: &mut [Lane<S>],
    mut operation: impl FnMut(&mut Lane<S>) -> Poll<io::Result<()>>,
) -> Poll<io::Result<()>> {
    let mut all = Poll::Ready(Ok(()));
    for lane in lanes {
        if operation(lane)?.is_pending() {
            all = Poll::Pending;
        }
    }
    all
}

impl<S: Stream> Stream for ModeEHandle<S> {
    fn describe(&self, info: &mut Info) {
        if let Some(first) = self.lanes.first() {
            first.stream.describe(info);
        }
        info.layer(LAYER);
    }

    /// Applies a setting to every connection, those that join later too; the first one answers.
    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        let mut answers: Vec<_> = self
            .lanes
            .iter_mut()
            .filter_map(|lane| lane.stream.control(control))
            .collect();
        let refused = answers.iter().position(|answer| answer.is_err());
        let answer = (!answers.is_empty()).then(|| answers.swap_remove(refused.unwrap_or(0)));
        if let (Control::Set(setting), Some(Ok(_))) = (control, &answer) {
            self.remember(setting);
        }
        answer
    }

    fn blocks(&mut self) -> Option<&mut dyn BlockRead> {
        Some(self)
    }
}

impl<S: Stream> BlockRead for ModeEHandle<S> {
    fn poll_read_block(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        self.poll_block(cx, wanted, buf)
    }
}

impl<S: Stream> fmt::Debug for ModeEHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {} connections", self.info(), self.lanes.len())
    }
}

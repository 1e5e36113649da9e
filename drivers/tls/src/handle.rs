//! `TlsHandle`: a session over a stream, and reading from it; close-notify is its end mark.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use xio_core::{Error, ErrorKind, Info, Operation, Result, Stream, at_layer};

use crate::buffer::Buffer;
use crate::error::{LAYER, blame, truncated};
use crate::info::TlsInfo;
use crate::session::{Intent, RECORD, Session, Step};

/// Reads begin with this much room, enough for most handshakes.
pub(crate) const FIRST_READ: usize = 8 * 1024;
/// Room that reads grow to while the layer below fills it. A handshake message is assembled in it
/// as well, so this bounds the longest one.
const MOST_READ: usize = 16 * RECORD;

/// Reads in a row that fill little of their room before it shrinks.
const SMALL_READS: u8 = 16;

/// How far this end is from having ended its way of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Open,
    /// The end mark is among the outgoing bytes.
    Marked,
    /// The layer below was shut down.
    Shut,
}

/// A TLS connection over a stream.
///
/// Reading ends with 0 bytes when the peer's close-notify was seen. Where the stream below ends
/// without it, that is [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
pub struct TlsHandle<S> {
    pub(crate) below: S,
    session: Box<Session>,
    /// What came from below and was not decrypted.
    pub(crate) incoming: Buffer,
    /// What was decrypted and not read.
    pub(crate) plain: Buffer,
    /// What was encrypted and not taken below.
    pub(crate) outgoing: Buffer,
    /// Room that the next read from below gets.
    read_size: usize,
    /// Reads in a row that filled little of it.
    small_reads: u8,
    /// The layer below took something since it was flushed.
    pub(crate) unflushed: bool,
    /// What waits in `outgoing` is of no hurry: it goes with what is written next.
    pub(crate) lazy: bool,
    pub(crate) ending: Ending,
    pub(crate) peer_closed: bool,
    /// Whether the handshake left open what the peer thinks of it.
    pub(crate) awaits_word: bool,
    /// Bytes that came from below since the handshake.
    pub(crate) fetched: u64,
    /// Ends the wait for the peer's word.
    pub(crate) silence: Option<Pin<Box<Sleep>>>,
    /// The end of the stream below needs no waiting for.
    below_ended: bool,
    /// An end of the stream below without close-notify counts as one with it.
    pub(crate) unmarked_end: bool,
    /// Why the connection cannot go on.
    pub(crate) fault: Option<rustls::Error>,
    /// Who waits until the layer below takes more. It polls that by itself, and a layer below
    /// remembers one waker for each direction, so a reader must leave writing alone meanwhile.
    pub(crate) writer: Option<Waker>,
    /// Whether somebody waits for bytes; a writer must leave reading alone meanwhile.
    pub(crate) reader_waits: bool,
    /// Who that is, for a writer that must read nevertheless.
    pub(crate) reader: Option<Waker>,
    info: Arc<TlsInfo>,
}

#[cfg(test)]
impl<S> TlsHandle<S> {
    /// The stream below, to put on it what TLS would not.
    pub(crate) const fn below_mut(&mut self) -> &mut S {
        &mut self.below
    }
}

impl<S: Stream> TlsHandle<S> {
    /// One end of a session over `below` that has still to [`shake`](Self::shake) hands.
    pub(crate) fn new(below: S, session: Session, unmarked_end: bool) -> Self {
        Self {
            below,
            session: Box::new(session),
            incoming: Buffer::default(),
            plain: Buffer::default(),
            outgoing: Buffer::default(),
            read_size: FIRST_READ,
            small_reads: 0,
            unflushed: false,
            lazy: false,
            ending: Ending::Open,
            peer_closed: false,
            awaits_word: false,
            fetched: 0,
            silence: None,
            below_ended: false,
            unmarked_end,
            fault: None,
            writer: None,
            reader_waits: false,
            reader: None,
            info: Arc::default(),
        }
    }

    /// Shakes hands.
    pub(crate) async fn shake(&mut self, op: Operation) -> Result<()> {
        std::future::poll_fn(|cx| self.poll_handshake(cx, op)).await?;
        self.awaits_word = Self::awaits_word_of(&self.session);
        self.fetched = self.incoming.len() as u64;
        self.info = Arc::new(TlsInfo::of(&self.session));
        Ok(())
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>, op: Operation) -> Poll<Result<()>> {
        loop {
            match self.step(Intent::Look) {
                Ok(Step::Starved | Step::Done) => {}
                // The peer may have sent payload, and its end mark, with the last of the handshake.
                Ok(Step::Again | Step::Payload | Step::PeerClosed) => continue,
                Err(fault) => {
                    let error = blame(&fault, op);
                    self.fail(cx, fault);
                    return Poll::Ready(Err(error));
                }
            }
            if !self.session.is_handshaking() {
                break;
            }
            let sent = ready!(self.poll_push(cx));
            sent.map_err(|e| Error::from_io(e, LAYER, op))?;
            match ready!(self.poll_fetch(cx)) {
                Ok(0) => {
                    return Poll::Ready(Err(truncated(
                        op,
                        "the peer ended in the middle of the handshake; \
                         it may speak no TLS, or refuse what this end offers",
                    )));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Error::from_io(error, LAYER, op))),
            }
        }
        // What a responder of TLS 1.3 still holds are tickets. A peer that only sends may never read
        // them, and closing a socket with bytes unread destroys what is under way the other way.
        // So they go with the first bytes that this end writes. Where ending one way ends both there is
        // no such harm, and they are the word that the peer waits for.
        self.lazy = matches!(*self.session, Session::Responder(_))
            && self.session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && !self.below.info().ends_together;
        if self.lazy {
            return Poll::Ready(Ok(()));
        }
        self.poll_push(cx).map_err(|e| Error::from_io(e, LAYER, op))
    }

    /// Takes a step, and keeps the payload that comes to light.
    ///
    /// That is no more than what was fetched already.
    pub(crate) fn step(&mut self, intent: Intent<'_>) -> std::result::Result<Step, rustls::Error> {
        let plain = &mut self.plain;
        let step = self.session.step(
            &mut self.incoming,
            &mut self.outgoing,
            intent,
            &mut |bytes| plain.extend(bytes),
        )?;
        self.peer_closed |= step == Step::PeerClosed;
        Ok(step)
    }

    /// Gives the connection up, and tells the peer why as far as that works at once.
    #[cold]
    pub(crate) fn fail(&mut self, cx: &mut Context<'_>, fault: rustls::Error) {
        // The alert is the last of what is still there to be sent. Beyond it nothing may be asked
        // of the session. Where keys are used up it would be a close-notify, and what was sent is
        // not all there is.
        if fault != rustls::Error::EncryptError {
            while self.session.wants_write() && self.step(Intent::Look).is_ok() {}
        }
        self.fault = Some(fault);
        self.lazy = false;
        match self.writer.take() {
            Some(writer) => writer.wake(),
            None => {
                let _ = self.poll_push(cx);
            }
        }
    }

    /// The error that ended the connection, for another operation.
    pub(crate) fn check(&self, op: Operation) -> io::Result<()> {
        match &self.fault {
            Some(fault) => Err(blame(fault, op).into()),
            None => Ok(()),
        }
    }

    /// Reads from below; gives 0 at its end.
    pub(crate) fn poll_fetch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let waiting = self.incoming.len();
        if waiting >= MOST_READ {
            // Whole records are taken out before, so this is a handshake message without an end.
            let error = Error::new(
                ErrorKind::Protocol,
                LAYER,
                Operation::Read,
                format!("the peer sent a handshake message of more than {MOST_READ} bytes"),
            );
            return Poll::Ready(Err(error.into()));
        }
        self.incoming.shrink(self.read_size);
        let least = self.read_size.min(MOST_READ - waiting);
        let mut room = ReadBuf::new(self.incoming.room(least));
        ready!(Pin::new(&mut self.below).poll_read(cx, &mut room))?;
        let n = room.filled().len();
        // Grows while it is filled, and shrinks when most of it was for nothing all the time: to give
        // memory back and take it again costs more than to keep it for a while.
        if n >= self.read_size / 8 {
            self.small_reads = 0;
        } else {
            self.small_reads += 1;
        }
        if room.remaining() == 0 {
            self.read_size = (self.read_size * 2).min(MOST_READ);
        } else if self.small_reads == SMALL_READS {
            self.small_reads = 0;
            self.read_size = (self.read_size / 2).max(FIRST_READ);
        }
        self.incoming.fill(n);
        self.fetched += n as u64;
        Poll::Ready(Ok(n))
    }

    /// Copies what was decrypted before.
    fn take_plain(&mut self, buf: &mut ReadBuf<'_>) {
        let n = self.plain.len().min(buf.remaining());
        buf.put_slice(self.plain.filled().get(..n).unwrap_or_default());
        self.plain.consume(n);
        self.plain.shrink(RECORD);
    }

    fn poll_payload(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if !self.plain.is_empty() {
            self.take_plain(buf);
        }
        while buf.remaining() > 0 && !self.peer_closed {
            if self.fault.is_some() {
                if buf.filled().len() > before {
                    break;
                }
                self.check(Operation::Read)?;
            }
            let plain = &mut self.plain;
            let step = self.session.step(
                &mut self.incoming,
                &mut self.outgoing,
                Intent::Look,
                &mut |bytes| {
                    let (now, later) = bytes.split_at(bytes.len().min(buf.remaining()));
                    buf.put_slice(now);
                    plain.extend(later);
                },
            );
            match step {
                Ok(Step::Again | Step::Payload | Step::Done) => {}
                Ok(Step::PeerClosed) => self.peer_closed = true,
                Ok(Step::Starved) if buf.filled().len() > before => break,
                Ok(Step::Starved) => match ready!(self.poll_fetch(cx)) {
                    Ok(0) if self.unmarked_end && self.incoming.is_empty() => {
                        self.peer_closed = true;
                    }
                    Ok(0) => {
                        let fact = "the peer ended without close-notify; \
                                    what arrived may not be all there is";
                        return Poll::Ready(Err(truncated(Operation::Read, fact).into()));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        return Poll::Ready(Err(at_layer(error, LAYER, Operation::Read)));
                    }
                },
                Err(fault) => self.fail(cx, fault),
            }
        }
        if self.peer_closed && buf.filled().len() == before && buf.remaining() > 0 {
            ready!(self.poll_end_below(cx));
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the end below after close-notify where that ends both ways, so that it follows: whoever
    /// is done by then and drops the stream would break off what the peer is still ending. What comes
    /// besides is to be ignored (RFC 8446 §6.1).
    fn poll_end_below(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.below_ended {
            if self.below.info().ends_together {
                self.answer_end(cx);
                let _said_nothing = ready!(xio_core::poll_end(cx, &mut self.below));
            }
            self.below_ended = true;
        }
        Poll::Ready(())
    }
}

impl<S: Stream> AsyncRead for TlsHandle<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let answer = this.poll_payload(cx, buf);
        this.reader_waits = answer.is_pending();
        this.reader = (this.reader_waits && this.awaits_word).then(|| cx.waker().clone());
        if this.silence.is_some()
            && (!this.reader_waits || !this.is_unheard())
            && let Some(writer) = &this.writer
        {
            // What it waits for came here.
            writer.wake_by_ref();
        }
        if this.reader_waits && !this.lazy && this.writer.is_none() {
            // The peer may wait for what is left here before it says anything. What goes wrong is
            // for the next write to say.
            let _ = this.poll_push(cx);
        }
        answer
    }
}

impl<S: Stream> AsyncWrite for TlsHandle<S> {
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
            .poll_for_writer(cx, |this, cx| this.poll_take(cx, bufs, false))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_for_writer(cx, Self::poll_all)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_for_writer(cx, Self::poll_end)
    }
}

impl<S: Stream> Stream for TlsHandle<S> {
    fn describe(&self, info: &mut Info) {
        self.below.describe(info);
        info.layer(LAYER);
        info.security = Some(self.info.to_string());
        info.insert(TlsInfo::clone(&self.info));
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bufs = &[IoSlice::new(buf)];
        self.get_mut()
            .poll_for_writer(cx, |this, cx| this.poll_take(cx, bufs, true))
    }
}

impl<S: Stream> fmt::Debug for TlsHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

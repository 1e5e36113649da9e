//! `TlsHandle`: a TLS session over a stream, and reads from it; close-notify is its end mark.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use xio_core::{Control, Error, ErrorKind, Info, Operation, Result, Stream, at_layer};

use crate::buffer::Buffer;
use crate::end::Filter;
use crate::error::{LAYER, blame, truncated};
use crate::info::TlsInfo;
use crate::session::{Intent, RECORD, Session, Step};
use crate::work::off_reactor;

/// First size of reads in bytes, enough for most handshakes.
pub(crate) const FIRST_READ: usize = 8 * 1024;
/// Largest size of reads in bytes. Handshake messages are assembled in the same buffer, so this
/// bounds the longest one.
const MOST_READ: usize = 16 * RECORD;

/// Number of small reads in a row after which the size of reads is halved.
const SMALL_READS: u8 = 16;

/// Progress of this end's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Open,
    /// The end mark is among the outgoing bytes.
    Marked,
    /// The layer below was shut down.
    Shut,
}

/// Progress of the peer's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// Open; only close-notify ends it.
    Marked,
    /// Open; the end of the stream below counts as close-notify.
    Unmarked,
    /// Close-notify was received.
    Closed,
    /// The stream below has ended as well.
    Ended,
}

impl Receiving {
    pub(crate) const fn is_open(self) -> bool {
        matches!(self, Self::Marked | Self::Unmarked)
    }
}

/// State of the bytes for the layer below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Those in `outgoing` wait for the first write of this end.
    Held,
    /// The layer below took some since it was flushed.
    Unflushed,
    Flushed,
}

/// The wait of a client for a first word of the server after the handshake.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Bytes received from below since the handshake, with those in `incoming` at its end.
    pub(crate) fetched: u64,
    /// Ends the wait.
    pub(crate) silence: Option<Pin<Box<Sleep>>>,
}

/// A TLS connection over a stream.
///
/// Reading ends with 0 bytes after the peer's close-notify. A stream below that ends without it is
/// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
pub struct TlsHandle<S> {
    pub(crate) below: S,
    session: Box<Session>,
    /// Received and not yet decrypted.
    pub(crate) incoming: Buffer,
    /// Decrypted and not yet read.
    pub(crate) plain: Buffer,
    /// Encrypted and not yet taken by the layer below.
    pub(crate) outgoing: Buffer,
    /// Size of the next read from below.
    read_size: usize,
    /// Number of small reads in a row.
    small_reads: u8,
    pub(crate) output: Output,
    pub(crate) ending: Ending,
    pub(crate) receiving: Receiving,
    /// Whether the end of the stream below took the place of close-notify.
    ended_unmarked: bool,
    /// `None` where the end of the handshake shows that the peer accepted it.
    pub(crate) verdict: Option<Verdict>,
    /// The error that broke the connection.
    pub(crate) fault: Option<rustls::Error>,
    /// Waker of the task that waits for the layer below to take more; its future may be dropped.
    pub(crate) writer: Option<Waker>,
    /// Waker of the task that waits for bytes; a writer does not read meanwhile, or wakes it.
    pub(crate) reader: Option<Waker>,
    /// `None` after the handshake.
    filter: Option<Box<dyn Filter>>,
    info: Arc<TlsInfo>,
}

#[cfg(test)]
impl<S> TlsHandle<S> {
    /// The stream below, to write bytes on it that TLS would not.
    pub(crate) const fn below_mut(&mut self) -> &mut S {
        &mut self.below
    }
}

impl<S: Stream> TlsHandle<S> {
    /// One end of a session over `below`, before its [`handshake`](Self::handshake).
    pub(crate) fn new(
        below: S,
        session: Session,
        receiving: Receiving,
        filter: Option<Box<dyn Filter>>,
    ) -> Self {
        Self {
            below,
            session: Box::new(session),
            incoming: Buffer::default(),
            plain: Buffer::default(),
            outgoing: Buffer::default(),
            read_size: FIRST_READ,
            small_reads: 0,
            output: Output::Flushed,
            ending: Ending::Open,
            receiving,
            ended_unmarked: false,
            verdict: None,
            fault: None,
            writer: None,
            reader: None,
            filter,
            info: Arc::default(),
        }
    }

    /// The negotiated parameters and the identity of the peer.
    pub fn tls_info(&self) -> &TlsInfo {
        &self.info
    }

    pub(crate) async fn handshake(&mut self, op: Operation) -> Result<()> {
        loop {
            let advanced = self.advance();
            if self.exchange(advanced, op).await? {
                return self.establish(op).await;
            }
        }
    }

    /// Runs the handshake with the work on received bytes off the reactor.
    pub(crate) async fn handshake_off_reactor(mut self, op: Operation) -> (Self, Result<()>) {
        loop {
            let advanced;
            (self, advanced) = off_reactor(move || {
                let advanced = self.advance();
                (self, advanced)
            })
            .await;
            match self.exchange(advanced, op).await {
                Ok(false) => {}
                Ok(true) => {
                    let done = self.establish(op).await;
                    return (self, done);
                }
                Err(error) => return (self, Err(error)),
            }
        }
    }

    /// Processes received bytes as far as that goes.
    fn advance(&mut self) -> std::result::Result<(), rustls::Error> {
        loop {
            match self.step(Intent::Look)? {
                Step::Starved | Step::Done => return Ok(()),
                // The peer may have sent payload, and its end mark, with the last of the handshake.
                Step::Again | Step::Payload | Step::PeerClosed => {}
            }
        }
    }

    /// Sends messages of the handshake and receives the peer's, unless it is complete, which it says.
    async fn exchange(
        &mut self,
        advanced: std::result::Result<(), rustls::Error>,
        op: Operation,
    ) -> Result<bool> {
        if let Err(fault) = advanced {
            let error = blame(&fault, op);
            poll_fn(|cx| {
                self.fail(cx, fault.clone());
                Poll::Ready(())
            })
            .await;
            return Err(error);
        }
        if !self.session.is_handshaking() {
            return Ok(true);
        }
        let sent = poll_fn(|cx| self.poll_push(cx)).await;
        sent.map_err(|e| Error::from_io(e, LAYER, op))?;
        match poll_fn(|cx| self.poll_fetch(cx)).await {
            Ok(0) => Err(truncated(
                op,
                "the peer ended in the middle of the handshake; \
                 it may speak no TLS, or refuse what this end offers",
            )),
            Ok(_) => Ok(false),
            Err(error) => Err(Error::from_io(error, LAYER, op)),
        }
    }

    /// Ends the handshake.
    async fn establish(&mut self, op: Operation) -> Result<()> {
        // A server of TLS 1.3 still holds tickets here. A peer that only sends may never read them,
        // and closing a socket with unread bytes destroys those in flight. So the tickets go with
        // the first bytes that this end writes. Where ending one way ends both, they do no such
        // harm, and are the word that the client waits for.
        if matches!(*self.session, Session::Responder(_))
            && self.session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && !self.below.info().ends_together
        {
            self.output = Output::Held;
        } else {
            let sent = poll_fn(|cx| self.poll_push(cx)).await;
            sent.map_err(|e| Error::from_io(e, LAYER, op))?;
        }
        self.filter = None;
        self.verdict = Self::awaits_verdict(&self.session).then(|| Verdict {
            fetched: self.incoming.len() as u64,
            silence: None,
        });
        self.info = Arc::new(TlsInfo::of(&self.session));
        Ok(())
    }

    /// Takes a step, and keeps the decrypted payload, which is no more than was received.
    pub(crate) fn step(&mut self, intent: Intent<'_>) -> std::result::Result<Step, rustls::Error> {
        let plain = &mut self.plain;
        let mut step = || {
            self.session.step(
                &mut self.incoming,
                &mut self.outgoing,
                intent,
                &mut |bytes| plain.extend(bytes),
            )
        };
        let step = match &self.filter {
            None => step(),
            Some(filter) => {
                let mut taken = Ok(Step::Starved);
                filter.scope(&mut || taken = step());
                taken
            }
        }?;
        if step == Step::PeerClosed {
            self.receiving = Receiving::Closed;
        }
        Ok(step)
    }

    /// Gives the connection up, and sends the alert as far as that works at once.
    #[cold]
    pub(crate) fn fail(&mut self, cx: &Context<'_>, fault: rustls::Error) {
        // The alert is the last message to send; the session takes no step after it. With used-up
        // keys it would be a close-notify, a false end.
        if fault != rustls::Error::EncryptError {
            while self.session.wants_write() && self.step(Intent::Look).is_ok() {}
        }
        self.fault = Some(fault);
        self.release();
        let _ = self.poll_push_beside_writer(cx);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    /// The error that ended the connection, for another operation.
    pub(crate) fn check(&self, op: Operation) -> io::Result<()> {
        match &self.fault {
            Some(fault) => Err(blame(fault, op).into()),
            None => Ok(()),
        }
    }

    /// Reads from below; 0 at its end.
    pub(crate) fn poll_fetch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let waiting = self.incoming.len();
        if waiting >= MOST_READ {
            // Whole records were taken out before, so this is an endless handshake message.
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
        if let Some(filter) = &mut self.filter {
            filter.admit(room.filled_mut());
        }
        // Grows while it is filled, and shrinks after many small reads: freeing memory and taking
        // it again costs more than keeping it for a while.
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
        if let Some(verdict) = &mut self.verdict {
            verdict.fetched += n as u64;
        }
        Poll::Ready(Ok(n))
    }

    /// Copies payload that was decrypted before.
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
        while buf.remaining() > 0 && self.receiving.is_open() {
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
                Ok(Step::PeerClosed) => self.receiving = Receiving::Closed,
                Ok(Step::Starved) if buf.filled().len() > before => break,
                Ok(Step::Starved) => match ready!(self.poll_fetch(cx)) {
                    Ok(0) if self.receiving == Receiving::Unmarked && self.incoming.is_empty() => {
                        self.receiving = Receiving::Closed;
                        self.ended_unmarked = true;
                    }
                    Ok(0) => {
                        let fact = "the peer ended without close-notify; \
                                    the received bytes may not be all";
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
        if !self.receiving.is_open() && buf.filled().len() == before && buf.remaining() > 0 {
            ready!(self.poll_end_below(cx));
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the end below after close-notify where that ends both ways: a caller that dropped
    /// the stream before it would break off the peer's end. Bytes after close-notify are ignored
    /// (RFC 8446 §6.1).
    fn poll_end_below(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.receiving == Receiving::Closed {
            if self.below.info().ends_together {
                self.answer_end(cx);
                let _ = ready!(xio_core::poll_end(cx, &mut self.below));
            }
            self.receiving = Receiving::Ended;
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
        this.reader = answer.is_pending().then(|| cx.waker().clone());
        if this.waits_for_verdict()
            && (this.reader.is_none() || !this.is_unheard())
            && let Some(writer) = &this.writer
        {
            // It waits for bytes that arrived here.
            writer.wake_by_ref();
        }
        if this.reader.is_some() && this.output != Output::Held {
            // The peer may wait for the rest before it sends anything. The next write reports
            // errors.
            let _ = this.poll_push_beside_writer(cx);
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
            .poll_for_writer(cx, |this, cx| this.poll_take(cx, bufs))
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
        info.ended_unmarked |= self.ended_unmarked;
        info.insert(TlsInfo::clone(&self.info));
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.below.control(control)
    }
}

impl<S: Stream> fmt::Debug for TlsHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

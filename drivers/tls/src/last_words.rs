//! Last words: each end hears why the other gives the connection up.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustls::{Error as Fault, ProtocolVersion};
use xio_core::{Error, ErrorKind, Operation, Stream, at_layer};

use crate::error::{LAYER, blame, truncated};
use crate::handle::{Ending, TlsHandle};
use crate::session::{Intent, RECORD, Session, Step};

/// How long a peer that was refused may take to hear of it and to leave.
const PARTING: Duration = Duration::from_secs(1);
/// Most that it may send meanwhile, in bytes.
const PARTING_BYTES: usize = 1 << 20;
/// How long a server may say nothing at all, from the end of the handshake until this end has ended.
const SILENCE: Duration = Duration::from_secs(30);

impl<S: Stream> TlsHandle<S> {
    /// Sees to it that a peer whose handshake failed is told why, before the connection is closed.
    ///
    /// It may have sent more by then, as who connects in TLS 1.3 does behind its part of the handshake.
    /// Closing a socket with that unread resets the connection, and the reset overtakes the alert. So the
    /// end follows the alert, and what still comes is thrown away, for as long and as much as costs
    /// little beside the handshake that the peer was allowed anyway.
    ///
    /// # Cancel safety
    /// The connection breaks off when the future is dropped.
    pub(crate) async fn part(&mut self) {
        if !matches!(&self.fault, Some(fault) if !matches!(fault, Fault::AlertReceived(_))) {
            return;
        }
        let parting = async {
            poll_fn(|cx| self.poll_push(cx)).await?;
            poll_fn(|cx| Pin::new(&mut self.below).poll_shutdown(cx)).await?;
            let mut came = 0;
            while came < PARTING_BYTES {
                self.incoming.consume(self.incoming.len());
                match poll_fn(|cx| self.poll_fetch(cx)).await? {
                    0 => break,
                    n => came += n,
                }
            }
            io::Result::Ok(())
        };
        // Whether it is there to hear or not, the error that is told is why it was refused.
        let _ = tokio::time::timeout(PARTING, parting).await;
    }

    /// Finds out why the layer below takes no more: the peer may have said it before it left.
    #[cold]
    pub(crate) fn explain(&mut self, failure: io::Error, op: Operation) -> io::Error {
        // Who waits for bytes hears of it there.
        let mut looks = !self.reader_waits && self.fault.is_none() && !self.peer_closed;
        let mut cx = Context::from_waker(Waker::noop());
        while looks {
            looks = match self.step(Intent::Look) {
                Ok(Step::Again | Step::Payload) => true,
                Ok(Step::PeerClosed | Step::Done) => false,
                Ok(Step::Starved) => match self.poll_fetch(&mut cx) {
                    // What arrived before is kept for a reader, but not without bounds.
                    Poll::Ready(Ok(n)) => n > 0 && self.plain.len() < 16 * RECORD,
                    Poll::Ready(Err(_)) => {
                        // What broke is told but once, and an end behind it is nobody's proper end.
                        self.unmarked_end = false;
                        false
                    }
                    Poll::Pending => false,
                },
                Err(fault) => {
                    let told = blame(&fault, op).into();
                    self.fault = Some(fault);
                    return told;
                }
            };
        }
        failure
    }

    /// As [`explain`](Self::explain) for an answer of the layer below, with errors of this layer.
    pub(crate) fn explained<T>(
        &mut self,
        answer: Poll<io::Result<T>>,
        op: Operation,
    ) -> Poll<io::Result<T>> {
        answer.map_err(|failure| at_layer(self.explain(failure, op), LAYER, op))
    }

    /// Whether the peer's part of the handshake says that it took ours, or is still to be waited for: in
    /// TLS 1.3 the end that connects is done first, and what comes next tells it what the other thinks.
    pub(crate) fn awaits_word_of(session: &Session) -> bool {
        matches!(session, Session::Initiator(_))
            && session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// Whether the peer's word is still to come.
    pub(crate) fn is_unheard(&self) -> bool {
        // What was not made out yet may be a refusal.
        self.awaits_word && !self.peer_closed && self.fetched <= self.incoming.len() as u64
    }

    /// Waits for the first that a server says after the handshake, where nothing can be read any more
    /// once this end has ended: that may be a refusal.
    pub(crate) fn poll_word(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let op = Operation::Shutdown;
        if !self.is_unheard() || !self.below.info().ends_together {
            return Poll::Ready(Ok(()));
        }
        let pushed = self.poll_push(cx);
        ready!(self.explained(pushed, op))?;
        loop {
            self.carry_out(cx, op, Intent::Look)?;
            if !self.is_unheard() {
                self.silence = None;
                return Poll::Ready(Ok(()));
            }
            let fetched = self.poll_fetch(cx);
            if fetched.is_ready()
                && let Some(reader) = self.reader.take()
            {
                reader.wake();
            }
            match fetched {
                Poll::Ready(Ok(0)) => {
                    let fact = "the peer ended without a word after the handshake; \
                                it may have refused what this end showed";
                    return Poll::Ready(Err(truncated(op, fact).into()));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(at_layer(error, LAYER, op))),
                Poll::Pending => {
                    let silence = self
                        .silence
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(SILENCE)));
                    ready!(silence.as_mut().poll(cx));
                    let fact = format!(
                        "the peer said nothing for {} s after the handshake; \
                         whether it took anything is not known",
                        SILENCE.as_secs()
                    );
                    let error = Error::new(ErrorKind::TimedOut, LAYER, op, fact);
                    return Poll::Ready(Err(error.into()));
                }
            }
        }
    }

    /// Answers the peer's end mark where its end is this one's as well, so that the peer has heard us.
    pub(crate) fn answer_end(&mut self, cx: &mut Context<'_>) {
        if self.ending == Ending::Open
            && self.writer.is_none()
            && self
                .carry_out(cx, Operation::Shutdown, Intent::Close)
                .is_ok()
        {
            self.ending = Ending::Marked;
            self.lazy = false;
        }
    }
}

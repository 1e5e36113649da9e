//! Refusals: each end reads the alert by which the other gives the connection up.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustls::{Error as Fault, ProtocolVersion};
use xio_core::{Error, ErrorKind, Operation, Result, Stream, at_layer};

use crate::error::{LAYER, blame, truncated};
use crate::handle::{Ending, Receiving, TlsHandle, Verdict};
use crate::session::{Intent, RECORD, Session, Step};

/// Longest time that a refused peer gets to read the alert and close.
const LINGER: Duration = Duration::from_secs(1);
/// Most bytes that it may send meanwhile.
const LINGER_BYTES: usize = 1 << 20;
/// Longest silence of a server between the handshake and the shutdown of this end.
const SILENCE: Duration = Duration::from_secs(30);

#[cold]
fn late(limit: Duration, op: Operation) -> Error {
    let fact = format!(
        "the handshake was not done in {} s; the peer may speak no TLS",
        limit.as_secs_f64()
    );
    Error::new(ErrorKind::TimedOut, LAYER, op, fact)
}

impl<S: Stream> TlsHandle<S> {
    /// Runs the handshake within a time limit, and sends the alert of a refusal.
    pub(crate) async fn opened(mut self, limit: Duration, op: Operation) -> Result<Self> {
        match tokio::time::timeout(limit, self.handshake(op)).await {
            Ok(done) => self.judged(done).await,
            Err(_) => Err(late(limit, op)),
        }
    }

    /// As [`opened`](Self::opened), with the work of the handshake off the reactor.
    pub(crate) async fn opened_off_reactor(self, limit: Duration, op: Operation) -> Result<Self> {
        match tokio::time::timeout(limit, self.handshake_off_reactor(op)).await {
            Ok((handle, done)) => handle.judged(done).await,
            Err(_) => Err(late(limit, op)),
        }
    }

    async fn judged(mut self, done: Result<()>) -> Result<Self> {
        if let Err(failure) = done {
            self.linger().await;
            return Err(failure);
        }
        Ok(self)
    }

    /// Sends the alert of a failed handshake, and lingers until the peer has closed.
    ///
    /// The peer may have sent more by then, as a client does in TLS 1.3 right after its part of the
    /// handshake. Closing a socket with unread bytes resets the connection, and the reset overtakes
    /// the alert. So this end shuts down after the alert and discards received bytes, within limits
    /// that cost little beside the handshake.
    ///
    /// # Cancel safety
    /// The connection breaks off when the future is dropped.
    async fn linger(&mut self) {
        if !matches!(&self.fault, Some(fault) if !matches!(fault, Fault::AlertReceived(_))) {
            return;
        }
        let lingering = async {
            poll_fn(|cx| self.poll_push(cx)).await?;
            poll_fn(|cx| Pin::new(&mut self.below).poll_shutdown(cx)).await?;
            let mut discarded = 0;
            while discarded < LINGER_BYTES {
                self.incoming.consume(self.incoming.len());
                match poll_fn(|cx| self.poll_fetch(cx)).await? {
                    0 => break,
                    n => discarded += n,
                }
            }
            io::Result::Ok(())
        };
        // The caller reports the failed handshake in any case.
        let _ = tokio::time::timeout(LINGER, lingering).await;
    }

    /// Replaces a failure to write by the alert that the peer may have sent before.
    #[cold]
    pub(crate) fn explain(&mut self, failure: io::Error, op: Operation) -> io::Error {
        // A waiting reader gets the alert.
        let mut looks = self.reader.is_none() && self.fault.is_none() && self.receiving.is_open();
        let mut cx = Context::from_waker(Waker::noop());
        while looks {
            looks = match self.step(Intent::Look) {
                Ok(Step::Again | Step::Payload) => true,
                Ok(Step::PeerClosed | Step::Done) => false,
                Ok(Step::Starved) => match self.poll_fetch(&mut cx) {
                    // Payload before the alert is kept for a reader, within bounds.
                    Poll::Ready(Ok(n)) => n > 0 && self.plain.len() < 16 * RECORD,
                    Poll::Ready(Err(_)) => {
                        self.require_mark();
                        false
                    }
                    Poll::Pending => false,
                },
                Err(fault) => {
                    let alert = blame(&fault, op).into();
                    self.fault = Some(fault);
                    return alert;
                }
            };
        }
        failure
    }

    /// Refuses an unmarked end after an error of the layer below, which reports that only once.
    pub(crate) fn require_mark(&mut self) {
        if self.receiving == Receiving::Unmarked {
            self.receiving = Receiving::Marked;
        }
    }

    /// As [`explain`](Self::explain) for an answer of the layer below, with errors of this layer.
    pub(crate) fn explained<T>(
        &mut self,
        answer: Poll<io::Result<T>>,
        op: Operation,
    ) -> Poll<io::Result<T>> {
        answer.map_err(|failure| at_layer(self.explain(failure, op), LAYER, op))
    }

    /// Whether the handshake leaves open that the peer accepted it: in TLS 1.3 the client is done
    /// before the server has checked its certificate.
    pub(crate) fn awaits_verdict(session: &Session) -> bool {
        matches!(session, Session::Initiator(_))
            && session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// Whether no message of the server was decrypted since the handshake.
    pub(crate) fn is_unheard(&self) -> bool {
        let waiting = self.incoming.len() as u64;
        let unheard = |verdict: &Verdict| verdict.fetched <= waiting;
        self.receiving.is_open() && self.verdict.as_ref().is_some_and(unheard)
    }

    /// Whether a shutdown waits for the first message of the server.
    pub(crate) fn waits_for_verdict(&self) -> bool {
        let waits = |verdict: &Verdict| verdict.silence.is_some();
        self.verdict.as_ref().is_some_and(waits)
    }

    /// Waits for the first message of the server after the handshake, which may be a refusal, where
    /// nothing can be read once this end has ended.
    pub(crate) fn poll_verdict(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let op = Operation::Shutdown;
        if !self.is_unheard() || !self.below.info().ends_together {
            return Poll::Ready(Ok(()));
        }
        let pushed = self.poll_push(cx);
        ready!(self.explained(pushed, op))?;
        loop {
            self.carry_out(cx, op, Intent::Look)?;
            if !self.is_unheard() {
                self.verdict = None;
                return Poll::Ready(Ok(()));
            }
            let fetched = self.poll_fetch(cx);
            if fetched.is_ready()
                && let Some(reader) = &self.reader
            {
                reader.wake_by_ref();
            }
            match fetched {
                Poll::Ready(Ok(0)) => {
                    let fact = "the peer ended without a message after the handshake; \
                                it may have refused the certificate of this end";
                    return Poll::Ready(Err(truncated(op, fact).into()));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(at_layer(error, LAYER, op))),
                Poll::Pending => {
                    if let Some(verdict) = &mut self.verdict {
                        let silence = verdict
                            .silence
                            .get_or_insert_with(|| Box::pin(tokio::time::sleep(SILENCE)));
                        ready!(silence.as_mut().poll(cx));
                    }
                    let fact = format!(
                        "the peer sent nothing for {} s after the handshake; \
                         whether it received anything is unknown",
                        SILENCE.as_secs()
                    );
                    let error = Error::new(ErrorKind::TimedOut, LAYER, op, fact);
                    return Poll::Ready(Err(error.into()));
                }
            }
        }
    }

    /// Answers the peer's close-notify where its end is this one's as well.
    pub(crate) fn answer_end(&mut self, cx: &Context<'_>) {
        if self.ending == Ending::Open
            && self.writer.is_none()
            && self
                .carry_out(cx, Operation::Shutdown, Intent::Close)
                .is_ok()
        {
            self.ending = Ending::Marked;
            self.release();
        }
    }
}

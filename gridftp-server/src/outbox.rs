//! `Outbox`: replies not yet sent, and the deadline for the client to read them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;

/// Bytes of replies that may wait for the client before no more of its commands are run.
const FULL: usize = 16 << 10;

/// Memory for replies that an idle session keeps.
const KEEP: usize = 1024;

/// Longest time without progress while replies wait for the client.
const DEADLINE: Duration = Duration::from_secs(120);

/// Replies not yet sent. Time is an argument.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// Number of bytes sent.
    sent: usize,
    /// Time of the last progress, or of the last empty outbox.
    took: Instant,
}

impl Outbox {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
            took: now,
        }
    }

    /// Adds the bytes that `write` appends.
    pub(crate) fn add(&mut self, now: Instant, write: impl FnOnce(&mut Vec<u8>)) {
        if self.rest().is_empty() {
            self.took = now;
        }
        // The sent part must go even where a client always leaves a few bytes unread.
        self.bytes.drain(..self.sent);
        self.sent = 0;
        write(&mut self.bytes);
    }

    /// The bytes not sent yet.
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or(&[])
    }

    /// Says whether the bound is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.rest().len() >= FULL
    }

    /// The deadline of the client's next progress.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.rest().is_empty()).then(|| self.took + DEADLINE)
    }

    /// Forgets all of it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP);
        self.sent = 0;
    }

    /// Sends as far as the connection accepts it.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn poll_send<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        while !self.rest().is_empty() {
            let rest = self.bytes.get(self.sent..).unwrap_or(&[]);
            match Pin::new(&mut *to).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => {
                    self.sent += n;
                    self.took = Instant::now();
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
        self.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_nothing_to_take_is_not_late() {
        let start = Instant::now();
        let mut out = Outbox::new(start);
        assert_eq!(out.deadline(), None);
        // However long ago the last reply was, the next one gets the whole time.
        let later = start + 10 * DEADLINE;
        out.add(later, |out| out.extend_from_slice(&[255, 254, 1]));
        assert_eq!(out.deadline(), Some(later + DEADLINE));
        out.add(later + DEADLINE / 2, |out| out.push(0));
        assert_eq!(out.deadline(), Some(later + DEADLINE));
    }

    /// Accepts all but the last byte.
    struct Reluctant;

    impl AsyncWrite for Reluctant {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            match bytes.len() {
                0 | 1 => Poll::Pending,
                n => Poll::Ready(Ok(n - 1)),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_client_that_always_leaves_a_byte_costs_no_more_than_that() {
        let mut out = Outbox::new(Instant::now());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..1000 {
            out.add(Instant::now(), |out| out.resize(out.len() + 1000, b'x'));
            out.poll_send(&mut Reluctant, &mut cx).unwrap();
            assert_eq!(out.rest().len(), 1);
        }
        assert!(out.bytes.capacity() < 4000, "{}", out.bytes.capacity());
    }

    #[test]
    fn it_is_full_by_its_unsent_bytes() {
        let mut out = Outbox::new(Instant::now());
        out.add(Instant::now(), |out| out.resize(FULL, b'x'));
        assert!(out.is_full());
        let mut taken = Vec::new();
        out.poll_send(
            &mut taken,
            &mut Context::from_waker(std::task::Waker::noop()),
        )
        .unwrap();
        assert_eq!((taken.len(), out.is_full()), (FULL, false));
    }
}

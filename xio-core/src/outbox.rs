//! `Outbox`: bytes that a layer has taken and the layer below has not taken yet.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Bytes on their way down, in the form that the layer below gets.
///
/// A layer that changes bytes cannot take back a write that the layer below did not take. It puts
/// the changed bytes here, reports the write as done, and brings them down with the next call. It
/// checks [`len`](Self::len) first to bound them.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// An empty buffer, which costs no memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
        }
    }

    /// Number of bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether no byte waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer to append bytes to.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        // Moving the rest to the front at half-way bounds the memory to twice the waiting bytes.
        if self.sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.bytes
    }

    /// Writes to `below` until no byte waits; a pending call keeps the rest.
    ///
    /// # Errors
    /// Those of `below`.
    pub fn poll_drain<W>(&mut self, cx: &mut Context<'_>, below: &mut W) -> Poll<io::Result<()>>
    where
        W: AsyncWrite + Unpin + ?Sized,
    {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut *below).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.sent += n,
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes wait", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn waiting_bytes_keep_their_order_and_bound() {
        let (mut near, mut far) = tokio::io::duplex(7);
        let mut outbox = Outbox::new();
        let mut arrived: Vec<u8> = Vec::new();
        let mut buf = [0; 5];
        // Few enough rounds for the runtime not to put a call off in between.
        for round in 0..40_u8 {
            outbox.tail().extend([round; 5]);
            let drained = poll_fn(|cx| Poll::Ready(outbox.poll_drain(cx, &mut near))).await;
            assert_eq!(drained.is_ready(), outbox.is_empty());
            let n = far.read(&mut buf).await.unwrap();
            arrived.extend(&buf[..n]);
            assert!(outbox.bytes.len() <= 2 * outbox.len() + 10, "{outbox:?}");
        }
        let rest = poll_fn(|cx| outbox.poll_drain(cx, &mut near));
        let (sent, _) = tokio::join!(rest, async {
            while arrived.len() < 200 {
                let n = far.read(&mut buf).await.unwrap();
                arrived.extend(&buf[..n]);
            }
        });
        sent.unwrap();
        let expected: Vec<u8> = (0..40).flat_map(|round| [round; 5]).collect();
        assert_eq!(arrived, expected);
    }
}

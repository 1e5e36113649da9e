//! `Outbox`: bytes that a layer has taken and the layer below has not taken yet.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Bytes on their way down, in the form that the layer below gets.
///
/// A layer that changes bytes cannot hand a write on and wait: what it was given is then already in
/// another form. It puts that form here, says that it took the bytes, and brings them down with
/// the next call. It bounds what it puts here by looking at [`len`](Self::len) first.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// An empty one, which costs no memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
        }
    }

    /// How many bytes wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where to append what shall follow.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        // Moving the rest to the front at half-way keeps the memory within twice what waits.
        if self.sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.bytes
    }

    /// Writes to `below` until nothing waits; what a pending call has not written waits on.
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
    async fn what_waits_keeps_its_order_and_its_bound() {
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

//! `LowWater`: wakes the reader of a bulk transfer for a worthwhile amount, not for each segment.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use nix::sys::socket::{SetSockOpt, sockopt};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Amount to wait for, in bytes. A wake-up costs about as much as moving it inside the kernel.
const WORTH: usize = 256 * 1024;

/// Least amount, in bytes, that a transfer must have found at once for the next one to wait.
const FAST: usize = 64 * 1024;

/// Longest wait for a worthwhile amount; after it the sender is slow, and any amount is taken.
const PATIENCE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
struct ReceiveLowWater;

nix::setsockopt_impl!(
    ReceiveLowWater,
    libc::SOL_SOCKET,
    libc::SO_RCVLOWAT,
    usize,
    sockopt::SetUsize
);

/// The receive low-water mark of a socket (`SO_RCVLOWAT`), raised while a fast sender's bulk data is
/// awaited.
#[derive(Debug, Default)]
pub(crate) struct LowWater {
    /// The mark of the socket in bytes; `None` before the first change.
    mark: Option<usize>,
    fast: bool,
    /// Deadline of the wait for a worthwhile amount, in an allocation that all waits reuse.
    deadline: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl LowWater {
    /// Records the result of a transfer of up to `wanted` bytes.
    pub(crate) fn moved(&mut self, n: usize, wanted: usize) {
        self.waiting = false;
        if n < wanted {
            self.fast = n >= FAST;
        }
    }

    /// Prepares the wait for up to `wanted` bytes of bulk data.
    ///
    /// The caller has registered its waker for readability, which follows as soon as the mark is
    /// reached, the stream ends, or the receive buffer is full.
    pub(crate) fn wait(&mut self, cx: &mut Context<'_>, socket: &TcpStream, wanted: usize) {
        if !self.fast {
            return self.lower(socket);
        }
        self.set(socket, wanted.min(WORTH));
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        if !self.waiting {
            deadline.as_mut().reset(Instant::now() + PATIENCE);
            self.waiting = true;
        }
        if deadline.as_mut().poll(cx).is_ready() {
            self.fast = false;
            self.lower(socket);
        }
    }

    /// Prepares the wait for the first byte. Bytes below a raised mark make the socket readable now.
    pub(crate) fn lower(&mut self, socket: &TcpStream) {
        self.waiting = false;
        if self.mark.is_some() {
            self.set(socket, 1);
        }
    }

    fn set(&mut self, socket: &TcpStream, mark: usize) {
        // A mark that cannot be set costs wake-ups only, and lowering one never fails.
        if self.mark != Some(mark) && ReceiveLowWater.set(socket, &mark).is_ok() {
            self.mark = Some(mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::fd::AsFd;
    use std::task::Poll;

    use nix::sys::socket::GetSockOpt;
    use rustix::pipe::pipe;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use xio_core::{KernelTransfer, Stream};

    use super::*;
    use crate::TcpHandle;

    nix::getsockopt_impl!(
        ReceiveLowWater,
        libc::SOL_SOCKET,
        libc::SO_RCVLOWAT,
        usize,
        sockopt::GetUsize
    );

    const LIMIT: Duration = Duration::from_secs(20);

    /// A handle that has just moved bulk data, and its peer.
    async fn fast_pair() -> (TcpHandle, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await;
        let mut handle = TcpHandle::from(near.unwrap());
        handle.low_water.moved(FAST, WORTH);
        (handle, listener.accept().await.unwrap().0)
    }

    fn mark(handle: &TcpHandle) -> usize {
        ReceiveLowWater.get(handle.socket()).unwrap()
    }

    /// Polls for bulk data once and leaves the handle waiting.
    async fn begin_to_wait(handle: &mut TcpHandle, len: usize) {
        let (_from, into) = pipe().unwrap();
        poll_fn(|cx| {
            let pipe = into.as_fd();
            let answer = handle.poll_kernel(cx, KernelTransfer::Splice { pipe, len });
            assert!(answer.is_pending(), "{answer:?}");
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn a_fast_transfer_waits_for_a_worthwhile_amount_within_its_length() {
        let (mut handle, _peer) = fast_pair().await;
        begin_to_wait(&mut handle, 1 << 20).await;
        assert_eq!(mark(&handle), WORTH);
        begin_to_wait(&mut handle, 1000).await;
        assert_eq!(mark(&handle), 1000);
        handle.low_water.moved(FAST - 1, WORTH);
        begin_to_wait(&mut handle, 1 << 20).await;
        assert_eq!(mark(&handle), 1);
    }

    #[tokio::test]
    async fn a_slow_sender_is_not_waited_for() {
        let (mut handle, mut peer) = fast_pair().await;
        begin_to_wait(&mut handle, 1 << 20).await;
        peer.write_all(&[7; 1000]).await.unwrap();
        let (_from, into) = pipe().unwrap();
        let moved = poll_fn(|cx| {
            let (pipe, len) = (into.as_fd(), 1 << 20);
            handle.poll_kernel(cx, KernelTransfer::Splice { pipe, len })
        });
        assert_eq!(timeout(LIMIT, moved).await.unwrap().unwrap(), 1000);
    }

    #[tokio::test]
    async fn the_end_of_the_stream_is_seen_below_the_mark() {
        let (mut handle, mut peer) = fast_pair().await;
        begin_to_wait(&mut handle, 1 << 20).await;
        peer.shutdown().await.unwrap();
        timeout(LIMIT, handle.socket().readable())
            .await
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn an_ordinary_read_is_woken_by_the_first_byte() {
        let (mut handle, mut peer) = fast_pair().await;
        begin_to_wait(&mut handle, 1 << 20).await;
        peer.write_all(b"x").await.unwrap();
        let byte = timeout(LIMIT, handle.read_u8()).await.unwrap();
        assert_eq!(byte.unwrap(), b'x');
    }
}

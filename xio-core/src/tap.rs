//! `Tap<S, O>`: forwards everything and tells an observer; the base of every pass-through layer.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use crate::control::Control;
use crate::error::{Operation, Result};
use crate::info::Info;
use crate::kernel::{KernelTransfer, KernelTransfers};
use crate::stream::{BlockRead, Stream};

/// Observes the operations of a [`Tap`]; every method has a default that does nothing.
pub trait Observer: Send + Unpin + 'static {
    /// Whether this observer limits amounts; [`ready`](Self::ready) is asked only when it does.
    const LIMITS: bool = false;

    /// Grants at most `want` bytes to a read, a write or a send-file, or parks it; a grant of
    /// nothing counts as one byte, since no bytes at all would read as the end.
    ///
    /// # Errors
    /// An error fails the operation before it reaches the layer below.
    fn ready(
        &mut self,
        cx: &mut Context<'_>,
        op: Operation,
        want: usize,
    ) -> Poll<io::Result<usize>> {
        let _ = (cx, op);
        Poll::Ready(Ok(want))
    }

    /// `n` bytes were read; 0 is the proper end of the layer below.
    fn read(&mut self, n: usize) {
        let _ = n;
    }

    /// `n` bytes went from the layer below into a pipe; 0 is its proper end.
    fn spliced(&mut self, n: usize) {
        self.read(n);
    }

    /// `n` bytes were taken by the layer below.
    fn wrote(&mut self, n: usize) {
        let _ = n;
    }

    /// `n` bytes went from a file to the layer below.
    fn sent_file(&mut self, n: usize) {
        self.wrote(n);
    }

    /// The stream was shut down in good order.
    fn shut(&mut self) {}

    /// The layer below cannot go on yet; an observer with a deadline may end the wait.
    fn pending(&mut self, cx: &mut Context<'_>, op: Operation) -> Poll<io::Error> {
        let _ = (cx, op);
        Poll::Pending
    }

    /// An operation failed below; not called for an error of the observer itself.
    fn failed(&mut self, op: Operation, error: &io::Error) {
        let _ = (op, error);
    }

    /// Carries out a setting of, or a question to, this layer; `None` where it concerns another.
    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        let _ = control;
        None
    }

    /// Adds the layer's name and its facts to the description of the handle.
    fn describe(&self, info: &mut Info);
}

/// A layer that leaves bytes as they are: forwards every method and tells an observer.
pub struct Tap<S, O> {
    inner: S,
    observer: O,
}

impl<S, O> Tap<S, O> {
    /// Puts `observer` on `inner`.
    pub const fn new(inner: S, observer: O) -> Self {
        Self { inner, observer }
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The handle below.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, O: Observer> Tap<S, O> {
    #[inline]
    fn grant(
        &mut self,
        cx: &mut Context<'_>,
        op: Operation,
        want: usize,
    ) -> Poll<io::Result<usize>> {
        if O::LIMITS && want > 0 {
            let granted = ready!(self.observer.ready(cx, op, want))?;
            Poll::Ready(Ok(granted.clamp(1, want)))
        } else {
            Poll::Ready(Ok(want))
        }
    }

    /// Tells the observer how the layer below answered.
    #[inline]
    fn settle<T>(
        &mut self,
        cx: &mut Context<'_>,
        op: Operation,
        answer: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match answer {
            Poll::Ready(Ok(value)) => Poll::Ready(Ok(value)),
            Poll::Ready(Err(error)) => {
                self.observer.failed(op, &error);
                Poll::Ready(Err(error))
            }
            Poll::Pending => self.observer.pending(cx, op).map(Err),
        }
    }
}

impl<S: Unpin, O: Observer> Tap<S, O> {
    /// Reads by `read`, into as much of `buf` as the observer grants.
    #[inline]
    fn poll_reading<T>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        read: impl FnOnce(Pin<&mut S>, &mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let room = buf.remaining();
        let granted = ready!(self.grant(cx, Operation::Read, room))?;
        let before = buf.filled().len();
        let answer = if granted >= room {
            read(Pin::new(&mut self.inner), cx, buf)
        } else {
            // A smaller window on the same memory; its filled bytes are then claimed in the larger
            // one.
            let mut window = ReadBuf::new(buf.initialize_unfilled_to(granted));
            let answer = read(Pin::new(&mut self.inner), cx, &mut window);
            let filled = window.filled().len();
            buf.advance(filled);
            answer
        };
        let value = ready!(self.settle(cx, Operation::Read, answer))?;
        // An empty buffer reads 0 bytes without being at the end.
        if room > 0 {
            self.observer.read(buf.filled().len() - before);
        }
        Poll::Ready(Ok(value))
    }
}

impl<S: AsyncRead + Unpin, O: Observer> AsyncRead for Tap<S, O> {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().poll_reading(cx, buf, S::poll_read)
    }
}

/// Cuts a list of slices down to `limit` bytes: how many are whole, and the part of the next.
fn cut<'a>(bufs: &'a [IoSlice<'a>], limit: usize) -> (&'a [IoSlice<'a>], &'a [u8]) {
    let mut left = limit;
    for (whole, buf) in bufs.iter().enumerate() {
        if buf.len() > left {
            let (head, _) = bufs.split_at(whole);
            return (head, buf.get(..left).unwrap_or_default());
        }
        left -= buf.len();
    }
    (bufs, &[])
}

impl<S: Stream, O: Observer> AsyncWrite for Tap<S, O> {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let granted = ready!(this.grant(cx, Operation::Write, buf.len()))?;
        let allowed = buf.get(..granted).unwrap_or(buf);
        let answer = Pin::new(&mut this.inner).poll_write(cx, allowed);
        let n = ready!(this.settle(cx, Operation::Write, answer))?;
        this.observer.wrote(n);
        Poll::Ready(Ok(n))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let answer = if O::LIMITS {
            let want = bufs.iter().map(|b| b.len()).sum();
            let granted = ready!(this.grant(cx, Operation::Write, want))?;
            match cut(bufs, granted) {
                // Only slices without bytes are whole: no bytes at all would look like a refusal.
                (whole, part) if whole.iter().all(|b| b.is_empty()) => {
                    Pin::new(&mut this.inner).poll_write(cx, part)
                }
                // The cut-off part waits for the next call: a short write, as any other.
                (whole, _) => Pin::new(&mut this.inner).poll_write_vectored(cx, whole),
            }
        } else {
            Pin::new(&mut this.inner).poll_write_vectored(cx, bufs)
        };
        let n = ready!(this.settle(cx, Operation::Write, answer))?;
        this.observer.wrote(n);
        Poll::Ready(Ok(n))
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.inner).poll_flush(cx);
        this.settle(cx, Operation::Flush, answer)
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.inner).poll_shutdown(cx);
        ready!(this.settle(cx, Operation::Shutdown, answer))?;
        this.observer.shut();
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream, O: Observer> Stream for Tap<S, O> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        self.observer.describe(info);
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        let own = self.observer.control(control);
        own.or_else(|| self.inner.control(control))
    }

    #[inline]
    fn kernel_transfers(&self) -> KernelTransfers {
        self.inner.kernel_transfers()
    }

    #[inline]
    fn poll_kernel(
        &mut self,
        cx: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        let op = transfer.operation();
        let granted = ready!(self.grant(cx, op, transfer.most()))?;
        let answer = self.inner.poll_kernel(cx, transfer.limited(granted));
        let n = ready!(self.settle(cx, op, answer))?;
        match transfer {
            KernelTransfer::Head(_) => self.observer.wrote(n),
            KernelTransfer::SendFile { .. } => self.observer.sent_file(n),
            KernelTransfer::Splice { len: 0, .. } => {}
            KernelTransfer::Splice { .. } => self.observer.spliced(n),
        }
        Poll::Ready(Ok(n))
    }

    fn blocks(&mut self) -> Option<&mut dyn BlockRead> {
        match self.inner.blocks().is_some() {
            true => Some(self),
            false => None,
        }
    }

    fn as_seek(&mut self) -> Option<&mut (dyn AsyncSeek + Unpin)> {
        self.inner.as_seek()
    }
}

impl<S: Stream, O: Observer> BlockRead for Tap<S, O> {
    fn poll_read_block(
        &mut self,
        cx: &mut Context<'_>,
        wanted: Option<u64>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        self.poll_reading(cx, buf, |inner, cx, buf| match inner.get_mut().blocks() {
            Some(blocks) => blocks.poll_read_block(cx, wanted, buf),
            None => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        })
    }
}

impl<S: Stream, O: Observer> fmt::Debug for Tap<S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, DuplexStream};

    use super::*;

    /// Grants 0 bytes, or far too many.
    struct Odd(usize);

    impl Observer for Odd {
        const LIMITS: bool = true;

        fn ready(
            &mut self,
            _: &mut Context<'_>,
            _: Operation,
            _: usize,
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(self.0))
        }

        fn describe(&self, _: &mut Info) {}
    }

    #[tokio::test]
    async fn an_observer_that_grants_nothing_or_too_much_cuts_nothing_off() {
        for grant in [0, usize::MAX] {
            let (near, far) = tokio::io::duplex(64);
            let mut tap: Tap<DuplexStream, Odd> = Tap::new(far, Odd(grant));
            let mut near = near;
            tokio::io::AsyncWriteExt::write_all(&mut near, b"all of it")
                .await
                .unwrap();
            drop(near);
            let mut text = String::new();
            tap.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "all of it", "{grant} granted");
        }
    }

    #[test]
    fn slices_are_cut_at_the_limit() {
        let bufs = [
            IoSlice::new(b"abc"),
            IoSlice::new(b""),
            IoSlice::new(b"defg"),
        ];
        let count = |limit| {
            let (whole, part) = cut(&bufs, limit);
            (whole.len(), part.len())
        };
        assert_eq!(count(0), (0, 0));
        assert_eq!(count(2), (0, 2));
        assert_eq!(count(3), (2, 0));
        assert_eq!(count(5), (2, 2));
        assert_eq!(count(7), (3, 0));
        assert_eq!(count(9), (3, 0));
    }
}

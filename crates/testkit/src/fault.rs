//! `Fault`: a layer that injects faults by its options and its seed.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use xio_core::{
    Control, Driver, DynLayer, Info, Operation, Result, Setting, Stream, Transform, at_layer,
};

use crate::random::Random;

xio_core::options! {
    /// The faults; none by default.
    #[derive(Copy)]
    pub struct FaultOptions for "fault" [impl Fault] {
        /// Flips a bit of the byte at this offset of the read data.
        corrupt: Option<u64> = None, "corrupt", Setting::bytes();
        /// Delays every read.
        delay: Option<Duration> = None, "delay";
        /// Percentage of operations that return pending without need, below 100.
        pending: u8 = 0, "pending", Setting::new().takes("percent", &["0", "99"]).only(|p| *p < 100);
        /// Resets the connection after this number of bytes, both directions together.
        reset: Option<u64> = None, "reset", Setting::bytes();
        /// Seed of the random choices.
        seed: u64 = 0, "seed";
        /// Shortens every read and write.
        short: bool = false, "short";
        /// Stops after this number of bytes, both directions together.
        stall: Option<u64> = None, "stall", Setting::bytes();
        /// Returns a clean end after this number of read bytes.
        truncate: Option<u64> = None, "truncate", Setting::bytes();
    }
}

/// The layer.
#[derive(Clone, Copy, Default)]
pub struct Fault {
    options: FaultOptions,
}

impl Fault {
    /// Creates the layer without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fault")
    }
}

impl<S: Stream> Transform<S> for Fault {
    type Handle = Faulty<S>;

    async fn respond(&self, inner: S) -> Result<Faulty<S>> {
        Ok(Faulty::new(inner, self.options))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("fault");
    }
}

/// A handle with faults. It changes and drops bytes, so it is not a `Tap`.
pub struct Faulty<S> {
    /// `None` after a reset.
    inner: Option<S>,
    options: FaultOptions,
    random: Random,
    read: u64,
    moved: u64,
    delay: Option<Pin<Box<Sleep>>>,
}

impl<S: Stream> Faulty<S> {
    /// Adds faults to a handle.
    #[must_use]
    pub fn new(inner: S, options: FaultOptions) -> Self {
        Self {
            inner: Some(inner),
            options,
            random: Random::new(options.seed),
            read: 0,
            moved: 0,
            delay: None,
        }
    }

    /// Returns the number of bytes of `want` that may be transferred now, or the fault that is due.
    fn grant(&mut self, cx: &Context<'_>, op: Operation, want: usize) -> Poll<io::Result<usize>> {
        if self.options.reset.is_some_and(|after| self.moved >= after) {
            // Dropping is an abort, so that the peer gets an error.
            self.inner = None;
        }
        if self.inner.is_none() {
            let reset = io::ErrorKind::ConnectionReset.into();
            return Poll::Ready(Err(at_layer(reset, "fault", op)));
        }
        if self.options.stall.is_some_and(|after| self.moved >= after) {
            return Poll::Pending;
        }
        if self.random.percent(self.options.pending) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut most = if self.options.short {
            self.random.up_to(want)
        } else {
            want
        };
        for after in [self.options.reset, self.options.stall]
            .into_iter()
            .flatten()
        {
            most = most.min(usize::try_from(after - self.moved).unwrap_or(usize::MAX));
        }
        Poll::Ready(Ok(most.min(want)))
    }

    fn below(&mut self, op: Operation) -> io::Result<&mut S> {
        let reset = || at_layer(io::ErrorKind::ConnectionReset.into(), "fault", op);
        self.inner.as_mut().ok_or_else(reset)
    }
}

impl<S: Stream> AsyncRead for Faulty<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut most = ready!(this.grant(cx, Operation::Read, buf.remaining()))?;
        if let Some(time) = this.options.delay {
            let sleep = this
                .delay
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
            ready!(sleep.as_mut().poll(cx));
        }
        if let Some(after) = this.options.truncate {
            most = most.min(usize::try_from(after.saturating_sub(this.read)).unwrap_or(usize::MAX));
        }
        if most == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut part = buf.take(most);
        ready!(Pin::new(this.below(Operation::Read)?).poll_read(cx, &mut part))?;
        let n = part.filled().len();
        if let Some(after) = this.options.corrupt {
            let at = after
                .checked_sub(this.read)
                .and_then(|at| usize::try_from(at).ok());
            if let Some(byte) = at.and_then(|at| part.filled_mut().get_mut(at)) {
                *byte ^= 0x40;
            }
        }
        // `part` shares the memory of `buf`, whose filled length does not include it yet.
        let bytes = part.filled().to_vec();
        buf.put_slice(&bytes);
        this.read += n as u64;
        this.moved += n as u64;
        if let (Some(sleep), Some(time)) = (&mut this.delay, this.options.delay) {
            sleep.as_mut().reset(Instant::now() + time);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Faulty<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = ready!(this.grant(cx, Operation::Write, buf.len()))?;
        let part = buf.get(..most).unwrap_or(buf);
        let n = ready!(Pin::new(this.below(Operation::Write)?).poll_write(cx, part))?;
        this.moved += n as u64;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().below(Operation::Flush)?).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().below(Operation::Shutdown)?).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for Faulty<S> {
    fn describe(&self, info: &mut Info) {
        if let Some(inner) = &self.inner {
            inner.describe(info);
        }
        info.layer("fault");
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.inner.as_mut()?.control(control)
    }
}

impl<S: Stream> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// Returns the driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        "fault",
        "injects faults by a seed, for tests",
        |options: FaultOptions, _| Ok(DynLayer::new(Fault::new().with_options(options))),
    )
}

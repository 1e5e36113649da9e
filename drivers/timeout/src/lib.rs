//! Ends operations that make no progress.
//!
//! # What it does
//!
//! Opening as a whole, and every read, write and shutdown by itself, fails with
//! [`TimedOut`](std::io::ErrorKind::TimedOut) after a time without progress. The time measures
//! *inactivity*: each byte restarts it, so a slow peer does not expire. It continues from a dropped
//! read to the next one, since the peer was silent in between as well.
//!
//! # When not to use it
//!
//! For a limit on a whole transfer: put `tokio::time::timeout` around that.
//!
//! # String form
//!
//! `timeout:key=value;key=value`, above the layers with handshakes that count as opening, so mostly
//! at the top: `tcp,timeout:all=30;accept=600`.
//!
//! | Option | Seconds | Default |
//! | --- | --- | --- |
//! | `accept` | for a listener to wait for a peer | unlimited |
//! | `all` | for each of `open`, `read`, `write` and `close` without an own time | unlimited |
//! | `close` | for a clean end | unlimited |
//! | `open` | for connecting and handshakes | unlimited |
//! | `read` | for a read | unlimited |
//! | `write` | for a write, a flush or a send-file | unlimited |
//!
//! # Cost
//!
//! Nothing while bytes move; one timer update when an operation has to wait.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use tokio::io::AsyncReadExt;
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_testkit::Mem;
//! use xio_timeout::{Timeout, TimeoutOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = Timeout::over(Mem::new()).all(Duration::from_millis(10));
//! let at = "somewhere:1".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let mut near = stack.connect(&at).await?;
//! let silent = listener.accept().await?.open().await?;
//!
//! let error = near.read_u8().await.expect_err("the other end says nothing");
//! assert_eq!(error.to_string(), "timeout: read: no progress in 0.01 s");
//! # drop(silent);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod options;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use xio_core::{
    Control, Driver, Error, ErrorKind, Incoming, Info, Listener, Observer, Operation, Passive,
    Result, Stream, Tap, Target, Transport,
};

pub use options::TimeoutOptions;

const LAYER: &str = "timeout";

fn expired(op: Operation, time: Duration) -> Error {
    let fact = format!("no progress in {} s", time.as_secs_f64());
    Error::new(ErrorKind::TimedOut, LAYER, op, fact)
}

/// Runs a whole operation within `time`.
async fn within<T>(
    time: Option<Duration>,
    op: Operation,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(time) = time else {
        return work.await;
    };
    match tokio::time::timeout(time, work).await {
        Ok(done) => done,
        Err(_) => Err(expired(op, time)),
    }
}

/// A transport that ends operations without progress.
#[derive(Clone)]
pub struct Timeout<T> {
    below: T,
    options: TimeoutOptions,
}

impl<T> Timeout<T> {
    /// Limits the operations of `below`; unlimited until a time is set.
    #[must_use]
    pub fn over(below: T) -> Self {
        let options = TimeoutOptions::default();
        Self { below, options }
    }
}

impl<T: fmt::Debug> fmt::Debug for Timeout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, ", self.below)?;
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl<T: Transport<Handle: Stream>> Transport for Timeout<T> {
    type Handle = Tap<T::Handle, Deadlines>;

    async fn connect(&self, to: &Target) -> Result<Self::Handle> {
        let handle = within(
            self.options.or_all(self.options.open),
            Operation::Connect,
            self.below.connect(to),
        )
        .await?;
        Ok(Tap::new(handle, Deadlines::new(self.options)))
    }
}

impl<T: Passive<Handle: Stream>> Passive for Timeout<T> {
    type Listener = TimeoutListener<T::Listener>;

    async fn listen(&self, at: &Target) -> Result<Self::Listener> {
        Ok(TimeoutListener {
            below: self.below.listen(at).await?,
            options: self.options,
        })
    }
}

/// The listener of a [`Timeout`].
#[derive(Debug)]
pub struct TimeoutListener<L> {
    below: L,
    options: TimeoutOptions,
}

impl<L: Listener<Handle: Stream>> Listener for TimeoutListener<L> {
    type Handle = Tap<L::Handle, Deadlines>;
    type Incoming = TimeoutIncoming<L::Incoming>;

    async fn accept(&mut self) -> Result<Self::Incoming> {
        let time = self.options.accept;
        Ok(TimeoutIncoming {
            below: within(time, Operation::Accept, self.below.accept()).await?,
            options: self.options,
        })
    }

    fn describe(&self, info: &mut Info) {
        self.below.describe(info);
        info.layer(LAYER);
    }
}

/// A peer accepted by a [`TimeoutListener`].
#[derive(Debug)]
pub struct TimeoutIncoming<I> {
    below: I,
    options: TimeoutOptions,
}

impl<I: Incoming<Handle: Stream>> Incoming for TimeoutIncoming<I> {
    type Handle = Tap<I::Handle, Deadlines>;

    fn describe(&self, info: &mut Info) {
        self.below.describe(info);
        info.layer(LAYER);
    }

    async fn open(self) -> Result<Self::Handle> {
        let handle = within(
            self.options.or_all(self.options.open),
            Operation::Open,
            self.below.open(),
        )
        .await?;
        Ok(Tap::new(handle, Deadlines::new(self.options)))
    }
}

/// The deadline of one direction.
#[derive(Debug, Default)]
struct Timer {
    time: Option<Duration>,
    /// Created at the first wait and reset from then on.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whether an operation waits, or waited and was dropped.
    armed: bool,
}

impl Timer {
    fn new(time: Option<Duration>) -> Self {
        Self {
            time,
            ..Self::default()
        }
    }

    fn progress(&mut self) {
        self.armed = false;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        let Some(time) = self.time else {
            return Poll::Pending;
        };
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        if !self.armed {
            sleep.as_mut().reset(Instant::now() + time);
            self.armed = true;
        }
        ready!(sleep.as_mut().poll(cx));
        // A further operation gets the full time again.
        self.armed = false;
        Poll::Ready(time)
    }
}

/// The observer of one handle.
#[derive(Debug)]
pub struct Deadlines {
    options: TimeoutOptions,
    read: Timer,
    write: Timer,
    close: Timer,
}

impl Deadlines {
    fn new(options: TimeoutOptions) -> Self {
        Self {
            options,
            read: Timer::new(options.or_all(options.read)),
            write: Timer::new(options.or_all(options.write)),
            close: Timer::new(options.or_all(options.close)),
        }
    }
}

impl Observer for Deadlines {
    #[inline]
    fn read(&mut self, _: usize) {
        self.read.progress();
    }

    #[inline]
    fn wrote(&mut self, _: usize) {
        self.write.progress();
    }

    fn shut(&mut self) {
        self.close.progress();
    }

    fn pending(&mut self, cx: &mut Context<'_>, op: Operation) -> Poll<io::Error> {
        let timer = match op {
            Operation::Read => &mut self.read,
            Operation::Shutdown => &mut self.close,
            _ => &mut self.write,
        };
        let time = ready!(timer.poll(cx));
        Poll::Ready(expired(op, time).into())
    }

    /// New times hold for operations that begin later.
    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        let open = ["all", "close", "read", "write"];
        let answer = control.answer(LAYER, &mut self.options, &open)?;
        let options = &self.options;
        self.read.time = options.or_all(options.read);
        self.write.time = options.or_all(options.write);
        self.close.time = options.or_all(options.close);
        Some(answer)
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::over(
        LAYER,
        "ends operations that make no progress",
        |options: TimeoutOptions, entry, below| {
            let stack = Timeout::over(below.clone()).with_options(options);
            Ok(below.under(stack, entry))
        },
    )
}

//! Limits how fast bytes pass through a stack.
//!
//! # What it does
//!
//! Keeps two token buckets for each handle, one for reading and one for writing. A bucket is filled
//! at the end of each period with the bytes of one period, and holds at most the burst; bytes pass
//! while it is not empty. Send-file and splice count as well.
//!
//! [`Rate::shared`] gives several streams one bucket: all handles of the layer and of its clones
//! then share the rate, in no fixed proportion, and [`Rate::set`] changes it at any time. [`Bound`]
//! is such a layer for any rate, with a period and a burst to match.
//!
//! # When not to use it
//!
//! To smooth the packets of TCP, for which `tcp` has the option `pacing`; to divide a link among
//! users, which is the task of the network.
//!
//! # String form
//!
//! `rate:key=value;key=value`, as `tcp,rate:rate=10M`. An option with the prefix `read_` or
//! `write_` is for that direction alone.
//!
//! The options are those of [`RateOptions`].
//!
//! A burst below the bytes of one period shortens the period, so that the rate is kept.
//!
//! # Cost
//!
//! One read of the clock and one uncontended lock per call; one timer for a call that must wait.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_rate::{Rate, RateOptions};
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options: RateOptions = "write_rate=100K;period=10000".parse()?;
//! let stack = Mem::new().push(Rate::new().with_options(options));
//! let at = "somewhere:1".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let mut near = stack.connect(&at).await?;
//! let mut far = listener.accept().await?.open().await?;
//!
//! let began = Instant::now();
//! near.write_all(&[0; 5000]).await?;
//! far.read_exact(&mut [0; 5000]).await?;
//! assert!(began.elapsed() > Duration::from_millis(30));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod bound;
mod bucket;
mod options;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};
use xio_core::{
    ByteSize, Driver, DynLayer, Info, Observer, Operation, Result, Stream, Tap, Transform,
};

pub use bound::Bound;
use bucket::Bucket;
pub use options::{Limit, RateOptions};

type Shared = Arc<Mutex<Bucket>>;

/// The layer; each handle has its own rate unless it is [shared](Self::shared).
#[derive(Clone, Default)]
pub struct Rate {
    options: RateOptions,
    group: Option<Limits>,
}

impl Rate {
    /// The driver with the default options; each handle has its own rate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes all handles, those of clones included, share the rate of the present options.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.group = Some(Limits::new(&self.options));
        self
    }

    /// Changes the rate of a [shared](Self::shared) layer, each way for which it has one, in bytes a
    /// second, for handles that are open too; `None` for no limit. A call that waits goes on when
    /// the former rate allows it.
    pub fn set(&self, rate: Option<ByteSize>) {
        let rate = rate.map_or(u64::MAX, ByteSize::bytes);
        let now = Instant::now();
        for bucket in self.buckets() {
            lock(bucket).set(rate, now);
        }
    }

    /// As [`set`](Self::set), with the period and the burst of `limit`.
    pub fn set_limit(&self, limit: Limit) {
        let now = Instant::now();
        for bucket in self.buckets() {
            lock(bucket).set_limit(limit, now);
        }
    }

    /// Waits until `bytes` more may pass a [shared](Self::shared) layer beside its handles, as if one
    /// of them wrote them.
    ///
    /// # Cancel safety
    /// Bytes that have passed count, also when the future is dropped.
    pub async fn pass(&self, bytes: usize) {
        let bucket = self.group.as_ref().and_then(|group| group.write.clone());
        let (mut side, mut left) = (Side::new(bucket), bytes);
        while left > 0 {
            left -= poll_fn(|cx| side.poll_take(cx, left)).await;
        }
    }

    fn buckets(&self) -> impl Iterator<Item = &Shared> {
        let groups = self.group.iter();
        groups
            .flat_map(|group| [&group.read, &group.write])
            .flatten()
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, "rate", &self.options)
    }
}

/// The buckets of a handle or of a group; `None` for no limit.
#[derive(Clone)]
struct Limits {
    read: Option<Shared>,
    write: Option<Shared>,
}

impl Limits {
    fn new(options: &RateOptions) -> Self {
        let now = Instant::now();
        let bucket =
            |limit: Option<Limit>| limit.map(|limit| Arc::new(Mutex::new(Bucket::new(limit, now))));
        Self {
            read: bucket(options.reading()),
            write: bucket(options.writing()),
        }
    }
}

impl<S: Stream> Transform<S> for Rate {
    type Handle = Tap<S, Pace>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        let limits = self.group.clone();
        let limits = limits.unwrap_or_else(|| Limits::new(&self.options));
        Ok(Tap::new(
            inner,
            Pace {
                read: Side::new(limits.read),
                write: Side::new(limits.write),
            },
        ))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("rate");
    }
}

/// One direction of a handle.
struct Side {
    bucket: Option<Shared>,
    /// Bytes taken out of the bucket for the current call.
    held: usize,
    /// Created at the first wait and reset from then on.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Side {
    const fn new(bucket: Option<Shared>) -> Self {
        Self {
            bucket,
            held: 0,
            sleep: None,
        }
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, want: usize) -> Poll<usize> {
        let Some(bucket) = &self.bucket else {
            return Poll::Ready(want);
        };
        loop {
            let taken = lock(bucket).take(Instant::now(), want);
            let next = match taken {
                Ok(n) => {
                    self.held = n;
                    return Poll::Ready(n);
                }
                Err(next) => next,
            };
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next)));
            sleep.as_mut().reset(next);
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Records `n` of the taken bytes as used; the rest returns to the bucket.
    fn used(&mut self, n: usize) {
        let rest = std::mem::take(&mut self.held).saturating_sub(n);
        if let Some(bucket) = &self.bucket
            && rest > 0
        {
            lock(bucket).give_back(rest);
        }
    }
}

fn lock(bucket: &Shared) -> std::sync::MutexGuard<'_, Bucket> {
    // A bucket is consistent at every instant, so a panic elsewhere does not corrupt it.
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The observer of one handle.
pub struct Pace {
    read: Side,
    write: Side,
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rate")
    }
}

impl Pace {
    /// The direction of an operation, if it moves bytes.
    fn side(&mut self, op: Operation) -> Option<&mut Side> {
        match op {
            Operation::Read => Some(&mut self.read),
            Operation::Write | Operation::SendFile => Some(&mut self.write),
            _ => None,
        }
    }
}

impl Observer for Pace {
    const LIMITS: bool = true;

    fn ready(
        &mut self,
        cx: &mut Context<'_>,
        op: Operation,
        want: usize,
    ) -> Poll<io::Result<usize>> {
        match self.side(op) {
            Some(side) => side.poll_take(cx, want).map(Ok),
            None => Poll::Ready(Ok(want)),
        }
    }

    fn read(&mut self, n: usize) {
        self.read.used(n);
    }

    fn wrote(&mut self, n: usize) {
        self.write.used(n);
    }

    // A call that waits or fails below has used no bytes, so the group may use them.
    fn pending(&mut self, _: &mut Context<'_>, op: Operation) -> Poll<io::Error> {
        if let Some(side) = self.side(op) {
            side.used(0);
        }
        Poll::Pending
    }

    fn failed(&mut self, op: Operation, _: &io::Error) {
        if let Some(side) = self.side(op) {
            side.used(0);
        }
    }

    fn describe(&self, info: &mut Info) {
        info.layer("rate");
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        "rate",
        "limits how fast bytes pass",
        |options: RateOptions, _| Ok(DynLayer::new(Rate::new().with_options(options))),
    )
}

#[cfg(test)]
mod tests;

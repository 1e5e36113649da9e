//! Counts the bytes and calls that pass through a stack.
//!
//! # What it does
//!
//! Keeps six counters for each handle, readable through [`Counts`] while the handle is in use.
//! Bytes of send-file are counted too.
//!
//! # When not to use it
//!
//! To limit a rate, or to measure the network: it counts bytes that the layer below has *accepted*,
//! and a socket accepts more than it has sent.
//!
//! # String form
//!
//! `count`, without options. A stack such as `tcp,count,compress,count` counts on both sides of a
//! layer; [`Info::all`] then gives the lower one first.
//!
//! # Cost
//!
//! Two additions without a lock per call; no system call, no copy.
//!
//! # Example
//!
//! ```
//! use tokio::io::AsyncWriteExt;
//! use xio_core::{Incoming, Listener, Passive, Stream, Transport};
//! use xio_count::{Count, Counts};
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = Mem::new().push(Count::new());
//! let at = "somewhere:1".parse()?;
//! let mut listener = stack.listen(&at).await?;
//!
//! let mut near = stack.connect(&at).await?;
//! near.write_all(b"hello").await?;
//!
//! let info = near.info();
//! let counts = info.get::<Counts>().expect("the stack counts");
//! assert_eq!((counts.written(), counts.writes()), (5, 1));
//! # drop(listener.accept().await?.open().await?);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xio_core::{Driver, DynLayer, Info, NoOptions, Observer, Result, Stream, Tap, Transform};

/// The layer; each handle has its own counters.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Count;

impl Count {
    /// A layer that counts.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("count")
    }
}

impl<S: Stream> Transform<S> for Count {
    type Handle = Tap<S, Counting>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(Tap::new(inner, Counting::default()))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("count");
    }
}

#[derive(Default)]
struct Numbers {
    read: AtomicU64,
    reads: AtomicU64,
    written: AtomicU64,
    writes: AtomicU64,
    sent: AtomicU64,
    sends: AtomicU64,
}

/// The counters of one handle; clones share them, and may outlive it.
#[derive(Clone, Default)]
pub struct Counts(Arc<Numbers>);

impl Counts {
    /// Bytes read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Reads that returned bytes.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Bytes written, send-file included.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Writes that accepted bytes, send-file included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::Relaxed)
    }

    /// Bytes written by send-file.
    #[must_use]
    pub fn sent_from_files(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Send-file calls that moved bytes.
    #[must_use]
    pub fn sends_from_files(&self) -> u64 {
        self.0.sends.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes read, {} written", self.read(), self.written())
    }
}

/// The observer of one handle.
#[derive(Debug, Default)]
pub struct Counting(Counts);

impl Counting {
    /// The counters.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.0
    }
}

#[inline]
fn add(bytes: &AtomicU64, calls: &AtomicU64, n: usize) {
    if n > 0 {
        // The handle is the only writer, so the addition need not be atomic.
        let plus = |number: &AtomicU64, more: u64| {
            number.store(
                number.load(Ordering::Relaxed).wrapping_add(more),
                Ordering::Relaxed,
            );
        };
        plus(bytes, n as u64);
        plus(calls, 1);
    }
}

impl Observer for Counting {
    #[inline]
    fn read(&mut self, n: usize) {
        add(&self.0.0.read, &self.0.0.reads, n);
    }

    #[inline]
    fn wrote(&mut self, n: usize) {
        add(&self.0.0.written, &self.0.0.writes, n);
    }

    #[inline]
    fn sent_file(&mut self, n: usize) {
        self.wrote(n);
        add(&self.0.0.sent, &self.0.0.sends, n);
    }

    fn describe(&self, info: &mut Info) {
        info.layer("count");
        info.insert(self.0.clone());
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer("count", "counts bytes and calls", |_: NoOptions, _| {
        Ok(DynLayer::new(Count::new()))
    })
}

//! `Watch`: the state of a running transfer, readable from outside.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use byte_ranges::RangeSet;
use ftp_wire::receipt::Receipt;
use mode_e::{Gather, Limits};
use tokio::sync::Notify;

use crate::error::{Result, Wait};
use crate::head::Head;

const CLOSED: u8 = 0;
const FRESH: u8 = 1;
const REUSED: u8 = 2;

/// The state of one transfer, for markers and progress bars.
///
/// One watch serves one transfer and is shared with its future by reference. Reading it does not
/// delay the transfer.
#[derive(Debug)]
pub struct Watch {
    opened: AtomicU8,
    opening: Notify,
    bytes: AtomicU64,
    connections: AtomicU32,
    /// Whether the transfer waits for the local producer or consumer.
    local: AtomicBool,
    /// Reads of the storage in progress.
    reading: AtomicU32,
    /// Locked once a block by the transfer, once a tick by the reader of the watch.
    arrived: Mutex<Gather>,
    /// Whether to skip the rest of the file.
    cut: AtomicBool,
    head: Mutex<Head>,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Creates the watch of a transfer that has not begun.
    pub fn new() -> Self {
        Self {
            opened: AtomicU8::new(CLOSED),
            opening: Notify::new(),
            bytes: AtomicU64::new(0),
            connections: AtomicU32::new(0),
            local: AtomicBool::new(false),
            reading: AtomicU32::new(0),
            arrived: Mutex::new(Gather::new(Limits::default())),
            cut: AtomicBool::new(false),
            head: Mutex::default(),
        }
    }

    /// Waits until the data connection is open; returns whether it is reused.
    ///
    /// # Cancel safety
    /// Nothing is lost: once the connection is open, every later call returns at once.
    pub async fn opened(&self) -> bool {
        loop {
            let change = self.opening.notified();
            match self.opened.load(Ordering::Acquire) {
                CLOSED => change.await,
                state => return state == REUSED,
            }
        }
    }

    /// Whether the data connection is open.
    pub fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire) != CLOSED
    }

    /// Payload bytes sent, or received and written, so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of data connections so far.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ranges written since the last call, in wire offsets.
    pub fn take_received(&self) -> RangeSet {
        self.arrived().take_new()
    }

    /// All ranges written so far, in wire offsets; valid also after an error.
    pub fn received(&self) -> RangeSet {
        self.arrived().received().clone()
    }

    /// Ends a tagged send cleanly without the rest of its bytes: the peer has refused the file and
    /// discards its data.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// The receipt of a finished tagged transfer; `None` for any other.
    pub fn receipt(&self) -> Option<Receipt> {
        let (head, bytes) = (self.head(), self.bytes());
        head.is_wanted()
            .then(|| Receipt::new(bytes, head.digest(bytes)))
    }

    /// Reports that the data connections are open; `reused` if they served before.
    ///
    /// With [`connected`](Self::connected), [`moved`](Self::moved) and [`record`](Self::record) this
    /// lets a watch follow a transfer that runs on another host.
    pub fn open(&self, reused: bool) {
        let state = if reused { REUSED } else { FRESH };
        if self
            .opened
            .compare_exchange(CLOSED, state, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            self.opening.notify_waiters();
        }
    }

    /// Counts data connections.
    pub fn connected(&self, more: u32) {
        self.connections.fetch_add(more, Ordering::Relaxed);
    }

    /// Counts payload bytes.
    pub fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds written ranges, in wire offsets.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) when all written ranges are too many.
    pub fn record(&self, ranges: &RangeSet) -> Result<()> {
        let mut arrived = self.arrived();
        for range in ranges.iter() {
            arrived.record(range.start(), range.len())?;
        }
        Ok(())
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// The digest of the first bytes. The lock is never held across a wait.
    pub(crate) fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn local(&self, yes: bool) {
        self.local.store(yes, Ordering::Relaxed);
    }

    pub(crate) fn is_local(&self) -> bool {
        self.local.load(Ordering::Relaxed)
    }

    /// Counts a read of the storage while `step` runs.
    pub(crate) async fn reading<T>(&self, step: impl Future<Output = T>) -> T {
        self.reading.fetch_add(1, Ordering::Relaxed);
        let done = step.await;
        self.reading.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// The party to blame while nothing is sent.
    pub(crate) fn sending(&self) -> Wait {
        if self.reading.load(Ordering::Relaxed) > 0 {
            Wait::Storage
        } else {
            Wait::Send
        }
    }

    /// The state of a receive. The lock is never held across a wait.
    pub(crate) fn arrived(&self) -> MutexGuard<'_, Gather> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! `Watch`: what an onlooker may know of a running transfer, without stopping it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use byte_ranges::RangeSet;
use ftp_wire::receipt::Receipt;
use mode_e::{Gather, Limits};
use tokio::sync::Notify;

use crate::error::Wait;
use crate::head::Head;

const CLOSED: u8 = 0;
const FRESH: u8 = 1;
const REUSED: u8 = 2;

/// The state of one transfer, for markers and progress bars.
///
/// One watch serves one transfer. It is shared by reference with the transfer's future; looking
/// at it costs the transfer nothing.
#[derive(Debug)]
pub struct Watch {
    opened: AtomicU8,
    opening: Notify,
    bytes: AtomicU64,
    connections: AtomicU32,
    /// Whether whoever makes or takes bytes here is waited for.
    local: AtomicBool,
    /// Reads of the storage under way.
    reading: AtomicU32,
    /// Taken once a block by the transfer, once a tick by the onlooker.
    arrived: Mutex<Gather>,
    /// Whether the rest is not to be sent.
    cut: AtomicBool,
    head: Mutex<Head>,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Makes the watch of a transfer that has not begun.
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

    /// Waits until the data connection is there; whether cached ones serve again.
    ///
    /// # Cancel safety
    /// Nothing is lost: once the connection is there, every later call returns at once.
    pub async fn opened(&self) -> bool {
        loop {
            let change = self.opening.notified();
            match self.opened.load(Ordering::Acquire) {
                CLOSED => change.await,
                state => return state == REUSED,
            }
        }
    }

    /// Whether the data connection is there.
    pub fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire) != CLOSED
    }

    /// Payload bytes sent, or received and written, so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Data connections that have served so far.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ranges written since the last call, in wire offsets.
    pub fn take_received(&self) -> RangeSet {
        self.arrived().take_new()
    }

    /// All ranges written so far, in wire offsets; true also after an error.
    pub fn received(&self) -> RangeSet {
        self.arrived().received().clone()
    }

    /// Ends a tagged send in good order without the rest of its bytes: the peer has refused the file
    /// and throws away what comes of it.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// What crossed in a tagged transfer that is over; `None` of any other.
    pub fn receipt(&self) -> Option<Receipt> {
        let (head, bytes) = (self.head(), self.bytes());
        head.is_wanted()
            .then(|| Receipt::new(bytes, head.digest(bytes)))
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// The digest of the first bytes. Nothing panics while it is held, and it is never held over a wait.
    pub(crate) fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self, reused: bool) {
        let state = if reused { REUSED } else { FRESH };
        if self
            .opened
            .compare_exchange(CLOSED, state, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            self.opening.notify_waiters();
        }
    }

    pub(crate) fn connected(&self, more: u32) {
        self.connections.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
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

    /// Who is waited for while nothing is sent.
    pub(crate) fn sending(&self) -> Wait {
        if self.reading.load(Ordering::Relaxed) > 0 {
            Wait::Storage
        } else {
            Wait::Send
        }
    }

    /// The account of a receive. Nothing panics while it is held, and it is never held over a wait.
    pub(crate) fn arrived(&self) -> MutexGuard<'_, Gather> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

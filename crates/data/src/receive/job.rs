//! `Job`: the state that all connections of one transfer share, and the delivery to the storage.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use xio_core::Pool;

use crate::error::Error;
use crate::receive::order::InOrder;
use crate::receive::parts::Parts;
use crate::watch::Watch;

/// Most connections of one transfer with a pipe; more use descriptors without gain.
const PIPES: u32 = 16;

/// The shared state of all pumps of one transfer.
pub(crate) struct Job<'a, W> {
    /// Writes payload at a wire offset.
    pub(crate) write: W,
    pub(crate) pool: &'a Pool,
    pub(crate) watch: &'a Watch,
    pub(crate) delivery: Delivery<'a>,
    /// Number of pipes that may still be created.
    pub(crate) pipes: u32,
    /// Payload bytes read so far.
    pub(crate) read: u64,
    /// Ranges of the writes in flight.
    in_flight: RangeSet,
    /// Offset of the one block that is being compared with stored bytes; comparing takes memory
    /// outside the pool.
    compared: Option<u64>,
    /// Whether a write waits for one of these.
    waits: bool,
}

/// The delivery of payload to the storage.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delivery<'a> {
    /// Each write stores its bytes. With `pipes`, payload may be in a pipe.
    Direct { pipes: bool },
    /// Each write queues its bytes. The consumer records them in the watch, and connections read
    /// ahead only as far as the queue has room.
    Queued(&'a InOrder),
    /// Each write adds its bytes to their part. Whole parts are recorded in the watch once they are
    /// stored, and connections read only bytes of the parts that may be in memory.
    Parts(&'a Parts),
}

impl Delivery<'_> {
    /// Waits until the consumer fails.
    pub(crate) async fn failed(self) -> Error {
        match self {
            Self::Direct { .. } => std::future::pending().await,
            Self::Queued(order) => order.failed().await,
            Self::Parts(parts) => parts.failed().await,
        }
    }

    /// Number of bytes that may be read behind the `read` ones at `offset`.
    pub(crate) fn poll_room(self, cx: &Context<'_>, offset: u64, read: usize) -> Poll<usize> {
        match self {
            Self::Direct { .. } => Poll::Ready(usize::MAX),
            Self::Queued(order) => order.poll_room(cx, offset, read),
            Self::Parts(parts) => parts.poll_room(cx, offset, read),
        }
    }
}

/// Bytes for the storage.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In memory.
    Block(Bytes),
    /// In memory, with the wire offsets that are stored already and must have the same bytes.
    Again(Bytes, RangeSet),
    /// A number of bytes, the whole content of a pipe.
    Pipe(Arc<OwnedFd>, usize),
}

impl<'a, W> Job<'a, W> {
    pub(crate) fn new(write: W, delivery: Delivery<'a>, pool: &'a Pool, watch: &'a Watch) -> Self {
        Self {
            write,
            pool,
            watch,
            delivery,
            pipes: match delivery {
                Delivery::Direct { pipes: true } => PIPES,
                _ => 0,
            },
            read: 0,
            in_flight: RangeSet::new(),
            compared: None,
            waits: false,
        }
    }

    /// Whether some of the `len` bytes at `offset` were received before.
    pub(crate) fn came(&self, offset: u64, len: u64) -> bool {
        Range64::from_len(offset, len).is_some_and(|range| {
            let stored = self.watch.arrived().received().clip(range);
            !stored.is_empty() || !self.in_flight.clip(range).is_empty()
        })
    }

    /// Begins to write a range and returns the stored part of it; `None` while another connection
    /// writes some of it, or while another comparison runs.
    pub(crate) fn begin(&mut self, offset: u64, len: u64) -> Option<RangeSet> {
        let Some(range) = Range64::from_len(offset, len).filter(|_| self.is_direct()) else {
            return Some(RangeSet::new());
        };
        let stored = self.watch.arrived().received().clip(range);
        let compares = !stored.is_empty();
        if !self.in_flight.clip(range).is_empty() || (compares && self.compared.is_some()) {
            self.waits = true;
            return None;
        }
        if compares {
            self.compared = Some(offset);
        }
        self.in_flight.insert(range);
        Some(stored)
    }

    /// Ends the write of a range; returns whether another write waits.
    pub(crate) fn end(&mut self, offset: u64, len: u64) -> bool {
        if let Some(range) = Range64::from_len(offset, len) {
            self.in_flight.remove(range);
        }
        self.compared.take_if(|compared| *compared == offset);
        std::mem::take(&mut self.waits)
    }

    /// Whether each write stores its bytes.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.delivery, Delivery::Direct { .. })
    }
}

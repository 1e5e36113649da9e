//! `Job`: what all connections of one transfer share, and how their bytes reach the storage.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use xio_core::Pool;

use crate::error::Error;
use crate::receive::order::InOrder;
use crate::watch::Watch;

/// Connections of one transfer that get a pipe; more would take descriptors and gain nothing.
const PIPES: u32 = 16;

/// What all pumps of one transfer share.
pub(crate) struct Job<'a, W> {
    /// Writes payload at a wire offset.
    pub(crate) write: W,
    pub(crate) pool: &'a Pool,
    pub(crate) watch: &'a Watch,
    pub(crate) delivery: Delivery<'a>,
    /// Pipes that connections may still make.
    pub(crate) pipes: u32,
    /// Payload bytes read so far.
    pub(crate) read: u64,
    /// Ranges that are being written.
    in_flight: RangeSet,
    /// Where the one begins that is compared with what is stored: each takes memory outside the
    /// pool.
    compared: Option<u64>,
    /// Whether a write waits for one of them.
    waits: bool,
}

/// What it means that a write is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delivery<'a> {
    /// The bytes are where they belong. With `pipes`, payload may come in a pipe.
    Direct { pipes: bool },
    /// The bytes are queued for their turn. Then whoever takes them keeps account, and connections
    /// read ahead only as far as the queue has room.
    Queued(&'a InOrder),
}

impl Delivery<'_> {
    /// Waits until whoever takes the bytes fails.
    pub(crate) async fn failed(self) -> Error {
        match self {
            Self::Direct { .. } => std::future::pending().await,
            Self::Queued(order) => order.failed().await,
        }
    }
}

/// Bytes for the storage.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In memory.
    Block(Bytes),
    /// In memory, and these wire offsets of it are stored already: they must be the same bytes.
    Again(Bytes, RangeSet),
    /// So many, in a pipe that holds nothing else.
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

    /// Whether some of what begins at `offset` came before.
    pub(crate) fn came(&self, offset: u64, len: u64) -> bool {
        Range64::from_len(offset, len).is_some_and(|range| {
            let stored = self.watch.arrived().received().clip(range);
            !stored.is_empty() || !self.in_flight.clip(range).is_empty()
        })
    }

    /// Begins to write a range, and says what of it is stored already; `None` while another
    /// connection is just writing some of it, or comparing as well.
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

    /// Ends the write of a range; says whether another one waited for it.
    pub(crate) fn end(&mut self, offset: u64, len: u64) -> bool {
        if let Some(range) = Range64::from_len(offset, len) {
            self.in_flight.remove(range);
        }
        self.compared.take_if(|compared| *compared == offset);
        std::mem::take(&mut self.waits)
    }

    /// Whether writes leave the bytes where they belong.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.delivery, Delivery::Direct { .. })
    }
}

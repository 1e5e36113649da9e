//! `Job`: what all connections of one transfer share, and how their bytes reach the storage.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use xio_core::Pool;

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
    pub(crate) way: Way<'a>,
    /// Pipes that connections may still make.
    pub(crate) pipes: u32,
    /// Payload bytes read so far.
    pub(crate) read: u64,
}

/// What it means that a write is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way<'a> {
    /// The bytes are where they belong. With `pipes`, payload may come in a pipe.
    Direct { pipes: bool },
    /// The bytes are queued for their turn. Then whoever takes them keeps account, and connections
    /// read ahead only as far as the queue has room.
    Queued(&'a InOrder),
}

/// Bytes for the storage.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In memory.
    Block(Bytes),
    /// So many, in a pipe that holds nothing else.
    Pipe(Arc<OwnedFd>, usize),
}

impl<'a, W> Job<'a, W> {
    pub(crate) fn new(write: W, way: Way<'a>, pool: &'a Pool, watch: &'a Watch) -> Self {
        Self {
            write,
            pool,
            watch,
            way,
            pipes: match way {
                Way::Direct { pipes: true } => PIPES,
                _ => 0,
            },
            read: 0,
        }
    }

    /// Whether writes leave the bytes where they belong.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct { .. })
    }
}

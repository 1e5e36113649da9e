//! `Pipe`: carries bytes from a connection to a file inside the kernel, so that they are copied once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gridftp_dsi::Error as StorageError;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Payload that has to be on its way before a pipe pays, in bytes.
pub(crate) const WORTH: u64 = 256 << 10;

/// What a pipe should hold, in bytes, and the least that is worth it: the kernel gives less to
/// users who have many.
pub(crate) const SIZE: usize = 1 << 20;
const LEAST: usize = 256 << 10;

/// Where a pipe's bytes go: writes so many of them at a wire offset, and blocks meanwhile.
pub(crate) type Drain<'a> =
    &'a (dyn Fn(BorrowedFd<'_>, u64, usize) -> Result<(), StorageError> + Sync);

/// A pipe that is empty between two uses.
#[derive(Debug)]
pub(crate) struct Pipe {
    from: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    /// Makes one; `None` where the kernel gives none that is worth it.
    pub(crate) fn new() -> Option<Self> {
        let (from, into) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let size = fcntl_setpipe_size(&into, SIZE).ok()?;
        (size >= LEAST).then_some(Self { from, into })
    }

    /// The end that a connection fills.
    pub(crate) fn into(&self) -> BorrowedFd<'_> {
        self.into.as_fd()
    }

    /// The end that a file empties.
    pub(crate) fn from(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}

/// Whether this thread's work can be handed to another one while it blocks.
pub(crate) fn may_block() -> bool {
    Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Runs `work` here, where its bytes are warm; other tasks go on elsewhere when `block` says that
/// it may take long.
pub(crate) fn here<T>(block: bool, work: impl FnOnce() -> T) -> T {
    if block {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

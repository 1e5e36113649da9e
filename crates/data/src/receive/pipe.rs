//! `Pipe`: carries bytes from a connection to a file inside the kernel, so that they are copied once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::descriptors::Permit;

/// Payload that has to be on its way before a pipe pays, in bytes.
pub(crate) const WORTH: u64 = 256 << 10;

/// What a pipe should hold, in bytes, and the least that is worth it: the kernel gives less to
/// users who have many.
pub(crate) const SIZE: usize = 1 << 20;
const LEAST: usize = 256 << 10;

/// A pipe that is empty between two uses.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Shared with the write that empties it, which may outlive the transfer.
    from: Arc<OwnedFd>,
    into: OwnedFd,
    permit: Permit,
}

impl Pipe {
    /// Makes one for a connection; `None` where its descriptors are too many or the kernel gives none that is worth it.
    pub(crate) fn new(of: &Permit) -> Option<Self> {
        let permit = of.more_to_spare(2).ok()?;
        let (from, into) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let size = fcntl_setpipe_size(&into, SIZE).or_else(|_| fcntl_setpipe_size(&into, LEAST));
        (size.ok()? >= LEAST).then(|| Self {
            from: Arc::new(from),
            into,
            permit,
        })
    }

    /// The end that a connection fills.
    pub(crate) fn into(&self) -> BorrowedFd<'_> {
        self.into.as_fd()
    }

    /// The end that a file empties.
    pub(crate) fn from(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.from)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // A write that blocks goes on after its transfer.
        self.permit.linger(&self.from);
    }
}

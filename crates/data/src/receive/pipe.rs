//! `Pipe`: moves bytes from a connection to a file inside the kernel, with one copy.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::descriptors::Permit;

/// Least payload, in bytes, for which a pipe is faster.
pub(crate) const WORTH: u64 = 256 << 10;

/// Wanted and least useful capacity of a pipe, in bytes: the kernel limits the sum for each user.
pub(crate) const SIZE: usize = 1 << 20;
const LEAST: usize = 256 << 10;

/// A pipe, empty between two uses.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Shared with the write that reads it, which may outlive the transfer.
    from: Arc<OwnedFd>,
    into: OwnedFd,
    permit: Permit,
}

impl Pipe {
    /// Creates a pipe for a connection; `None` without free descriptors or enough capacity.
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

    /// The write end, for the connection.
    pub(crate) fn into(&self) -> BorrowedFd<'_> {
        self.into.as_fd()
    }

    /// The read end, for the file.
    pub(crate) fn from(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.from)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // A blocked write continues after its transfer and keeps the read end open.
        self.permit.linger(&self.from);
    }
}

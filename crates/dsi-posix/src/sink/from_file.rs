//! Writes the bytes of another file of this machine by the copy of the kernel.

use std::sync::Arc;

use byte_ranges::Range64;
use gridftp_dsi::Error;
use rustix::fd::BorrowedFd;

use super::{FileSink, IN_ORDER, Inner, Way};
use crate::FileSource;
use crate::blocking::{Work, run_until_dropped};
use crate::copy::{Failure, copy_range};
use crate::error::Outcome;

/// The failure of [`FileSink::take_file`].
#[derive(Debug)]
#[non_exhaustive]
pub struct TakeError {
    /// Whether the source could not be read; else the sink failed.
    pub is_of_source: bool,
    /// The error of that end.
    pub error: Error,
}

impl From<Error> for TakeError {
    fn from(error: Error) -> Self {
        Self {
            is_of_source: false,
            error,
        }
    }
}

impl FileSink {
    /// Writes the bytes in `range` of `source` at the same offsets. The kernel copies them, by
    /// reference where the file system can; zeros that are to be left out are written.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`](gridftp_dsi::ErrorKind::Changed) of a source that ends before the range,
    /// [`ErrorKind::Unsupported`](gridftp_dsi::ErrorKind::Unsupported) for a file that takes bytes
    /// only in order, and errors of the kernel.
    ///
    /// # Cancel safety
    /// Dropping the future ends the copy at its next step; some of the bytes may be written.
    pub async fn take_file(&self, source: &FileSource, range: Range64) -> Result<(), TakeError> {
        let len = usize::try_from(range.len()).unwrap_or(usize::MAX);
        self.inner.must_end_in_range(range.start(), len)?;
        let (inner, from) = (Arc::clone(&self.inner), source.file());
        let unread = run_until_dropped(Work::Long, "copy", move |stop| {
            inner.with_room("copy", || {
                let (_open, to) = (inner.enter()?, inner.at_any_offset(range.start(), len)?);
                let range = (range.start(), range.end());
                match copy_range(from.as_fd(), to, range, stop) {
                    Ok(()) => Ok(None),
                    Err(Failure::Source(errno)) => Ok(Some(errno)),
                    Err(Failure::Destination(errno)) => Err(errno.into()),
                }
            })
        });
        match unread.await? {
            Some(errno) => Err(TakeError {
                is_of_source: true,
                error: source.error("copy", errno),
            }),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// The file, of which `len` bytes at `offset` are about to change.
    pub(super) fn at_any_offset(&self, offset: u64, len: usize) -> Outcome<BorrowedFd<'_>> {
        if matches!(self.way, Way::InOrder(..)) {
            return Err(IN_ORDER);
        }
        self.catch_up()?;
        self.changes(offset, len)?;
        self.file()
    }
}

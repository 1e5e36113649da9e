//! Writes the bytes of another file of this machine by the copy of the kernel.

use std::sync::Arc;

use byte_ranges::Range64;
use gridftp_dsi::Result;
use rustix::fd::BorrowedFd;

use super::{FileSink, IN_ORDER, Inner, Way};
use crate::FileSource;
use crate::blocking::{Work, run_until_dropped};
use crate::copy::copy_range;
use crate::error::Outcome;

impl FileSink {
    /// Writes the bytes in `range` of `source` at the same offsets. The kernel copies them, by
    /// reference where the file system can; zeros that are to be left out are written.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`](gridftp_dsi::ErrorKind::Changed) where the source ends before the range,
    /// [`ErrorKind::Unsupported`](gridftp_dsi::ErrorKind::Unsupported) for a file that takes bytes
    /// only in order, and errors of the kernel.
    ///
    /// # Cancel safety
    /// Dropping the future ends the copy at its next step; some of the bytes may be written.
    pub async fn take_file(&self, source: &FileSource, range: Range64) -> Result<()> {
        let len = usize::try_from(range.len()).unwrap_or(usize::MAX);
        self.inner.must_end_in_range(range.start(), len)?;
        let (inner, from) = (Arc::clone(&self.inner), source.file());
        run_until_dropped(Work::Long, "copy", move |stop| {
            inner.with_room("copy", || {
                let (_open, to) = (inner.enter()?, inner.at_any_offset(range.start(), len)?);
                Ok(copy_range(
                    from.as_fd(),
                    to,
                    (range.start(), range.end()),
                    stop,
                )?)
            })
        })
        .await
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

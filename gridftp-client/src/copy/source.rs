//! `LocalSource`: an open file of this machine, and the part of it that is copied.

use gridftp_dsi::Source as _;
use gridftp_dsi_posix::FileSource;

use super::job::{Facts, FileJob};
use super::pull::local;
use super::state::CopyState;
use crate::error::TransferError;
use crate::local::check_empty;

/// The open source of a copy.
pub(crate) struct LocalSource {
    pub(crate) file: FileSource,
    /// Offset and length of the copied part.
    pub(crate) part: (u64, u64),
    /// Whether it is as it was when it was found, or at the last attempt.
    pub(crate) is_same: bool,
}

impl CopyState {
    /// Opens the source of a file, which has the facts of that then, and forgets the bytes of another
    /// version of it.
    ///
    /// # Errors
    /// When it cannot be read, or has become smaller since its copying began.
    pub(crate) async fn open_source(
        &self,
        job: &mut FileJob,
    ) -> Result<LocalSource, TransferError> {
        let path = local(&job.from);
        let file = FileSource::open(path).await;
        let file = file.map_err(|error| TransferError::local("read", &job.from, error))?;
        // The walk may be long ago, and the copy is to have the facts of the file that is read.
        let now = Facts::of_source(&file);
        match file.size() {
            _ if job.has_shrunk(&now) => return Err(self.shrunk(job, &now)),
            0 => check_empty(path).await?,
            _ => {}
        }
        let is_same = now.is_same_as(&job.facts);
        job.facts = now;
        job.source_changed = Some(file.changed());
        if !is_same || (job.begun && self.through_layers()) {
            job.forget();
        }
        let offset = self.options.offset.unwrap_or(0).min(file.size());
        let rest = file.size() - offset;
        let length = self.options.length.map_or(rest, |length| length.min(rest));
        Ok(LocalSource {
            file,
            part: (offset, length),
            is_same,
        })
    }
}

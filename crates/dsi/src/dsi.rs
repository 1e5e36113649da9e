//! `Dsi`: stat, list, open for reading, open for writing, mutate names.

use std::future::Future;

use byte_ranges::RangeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::file::{Listing, Sink, Source};
use crate::types::{Capabilities, ChecksumAlgorithm, Create, DsiPath, Meta, Progress, Stat, User};

/// A storage backend.
///
/// Every operation names the user on whose behalf it runs. Paths are absolute within the tree the
/// backend exports and already normalised; the backend still resolves them without a race.
pub trait Dsi: Send + Sync + 'static {
    /// An object open for reading.
    type Source: Source;
    /// An object open for writing.
    type Sink: Sink;
    /// A directory being listed.
    type Listing: Listing;

    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Facts of one object; links are followed, and a link that leads nowhere is described itself.
    fn stat(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<Stat>> + Send;

    /// Opens a directory to be listed in batches.
    fn list(
        &self,
        user: &User,
        path: &DsiPath,
    ) -> impl Future<Output = Result<Self::Listing>> + Send;

    /// Opens a file for reading.
    fn read(
        &self,
        user: &User,
        path: &DsiPath,
    ) -> impl Future<Output = Result<Self::Source>> + Send;

    /// Opens a file for writing.
    fn write(
        &self,
        user: &User,
        path: &DsiPath,
        how: Create,
    ) -> impl Future<Output = Result<Self::Sink>> + Send;

    /// What is kept of an upload to `path` that broke: what [`Create::Resume`] would find.
    fn held(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<RangeSet>> + Send {
        let _ = (user, path);
        async { Ok(RangeSet::new()) }
    }

    /// Removes what is kept of an upload to `path` that broke.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when nothing is kept, [`ErrorKind::Busy`] while an upload goes on with it.
    fn drop_held(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send {
        let _ = user;
        std::future::ready(Err(
            Error::new(ErrorKind::NotFound, "drop what is held").at(path)
        ))
    }

    /// Makes a directory.
    fn make_dir(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Removes an empty directory.
    fn remove_dir(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Removes a file or a link.
    fn remove(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Removes a tree without following links; never the root itself.
    fn remove_tree(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Renames, replacing what is there.
    fn rename(
        &self,
        user: &User,
        from: &DsiPath,
        to: &DsiPath,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Makes a symbolic link at `link` holding `target`.
    fn symlink(
        &self,
        user: &User,
        target: &[u8],
        link: &DsiPath,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Sets metadata; what `meta` leaves out stays.
    fn set_meta(
        &self,
        user: &User,
        path: &DsiPath,
        meta: Meta,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Cuts a file to `length` bytes; refuses to grow it.
    fn truncate(
        &self,
        user: &User,
        path: &DsiPath,
        length: u64,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Hashes `length` bytes (to the end when `None`) from `offset`, in bounded memory; a digest
    /// in lower-case hexadecimal. `progress` learns the bytes done so far.
    fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> impl Future<Output = Result<String>> + Send;
}

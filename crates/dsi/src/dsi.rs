//! `Dsi`: stat, list, open for reading or writing, change names.

use std::future::Future;
use std::time::Duration;

use byte_ranges::RangeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::file::{Listing, Sink, Source};
use crate::types::{
    Attribute, Capabilities, ChecksumAlgorithm, Create, DsiPath, Meta, Partial, Progress, Staging,
    Stat, User,
};

/// Longest token of a shared upload, in bytes.
pub const MAX_TOKEN: usize = 256;

/// A storage backend.
///
/// Every operation runs on behalf of a user. Paths are normalised and absolute within the exported
/// tree; the backend must still resolve them without a race.
pub trait Dsi: Send + Sync + 'static {
    /// An object open for reading.
    type Source: Source;
    /// An object open for writing.
    type Sink: Sink;
    /// A directory being listed.
    type Listing: Listing;

    /// The capabilities of this backend.
    fn capabilities(&self) -> Capabilities;

    /// The identity of the storage: the same in each process that serves it, and of no other
    /// storage. `None` if it has none to tell. It may block for a moment.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Facts of one object, links followed; a dangling link is described itself.
    fn stat(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<Stat>> + Send;

    /// Bytes that are free for the user's files where an object is.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] of a backend without
    /// [`tells_space`](crate::Capabilities::tells_space).
    fn free_space(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<u64>> + Send {
        let _ = user;
        std::future::ready(Err(Error::new(
            ErrorKind::Unsupported,
            "ask for free space",
        )
        .at(path)))
    }

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

    /// Opens the upload to `path` of the same user that [`Sink::share`] returned `token` for, in
    /// this process or another one with the same storage.
    ///
    /// The sink writes to the same partial object at any offset. Its `checkpoint` makes its own
    /// bytes durable and records nothing, and its `finish` is refused. Its end changes nothing for
    /// the owner; once the owner has ended, all its writes fail with [`ErrorKind::Changed`].
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a token of another path or user, or of no upload;
    /// [`ErrorKind::Changed`] if the upload has ended.
    fn join(
        &self,
        user: &User,
        path: &DsiPath,
        token: &[u8],
    ) -> impl Future<Output = Result<Self::Sink>> + Send {
        let _ = (user, token);
        std::future::ready(Err(Error::new(ErrorKind::Unsupported, "join").at(path)))
    }

    /// Retrieves a file from an archive, if it is there, and waits for it at most `within`. Asking
    /// again within the same `task` of the user continues the same retrieval.
    ///
    /// [`read`](Self::read) of such a file waits by itself, as long as the backend allows.
    fn stage(
        &self,
        user: &User,
        path: &DsiPath,
        task: &str,
        within: Duration,
    ) -> impl Future<Output = Result<Staging>> + Send {
        let _ = (task, within);
        async { self.stat(user, path).await.map(|_| Staging::Here) }
    }

    /// The ranges kept of an interrupted upload to `path`, which [`Create::Resume`] would find, also
    /// those that its sink names for a digest only.
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`] for a directory of a backend that lists its
    /// [`partials`](Self::partials).
    fn held(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<RangeSet>> + Send {
        let _ = (user, path);
        async { Ok(RangeSet::new()) }
    }

    /// The partial files of interrupted uploads in the directory `path` and below it, in order of
    /// their names, at most [`MAX_PARTIALS`](crate::types::MAX_PARTIALS), and whether others are or
    /// may be kept.
    ///
    /// # Cancel safety
    /// Dropping the future ends the search.
    fn partials(
        &self,
        user: &User,
        path: &DsiPath,
    ) -> impl Future<Output = Result<(Vec<Partial>, bool)>> + Send {
        let _ = (user, path);
        std::future::ready(Ok((Vec::new(), false)))
    }

    /// Removes the partial file of an interrupted upload to `path`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::Busy`] while an upload continues it.
    fn drop_held(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send {
        let _ = user;
        std::future::ready(Err(
            Error::new(ErrorKind::NotFound, "remove partial file").at(path)
        ))
    }

    /// Removes the partial files of interrupted uploads that were not written to for `age`, and
    /// returns their number.
    ///
    /// # Cancel safety
    /// Dropping the future ends the work at its next partial file.
    fn expire(&self, age: Duration) -> impl Future<Output = Result<u64>> + Send {
        let _ = age;
        std::future::ready(Ok(0))
    }

    /// Creates a directory.
    fn make_dir(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Removes an empty directory.
    fn remove_dir(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Removes a file or a link.
    fn remove(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Removes a tree without following links; never the root itself.
    fn remove_tree(&self, user: &User, path: &DsiPath) -> impl Future<Output = Result<()>> + Send;

    /// Renames, replacing the destination.
    fn rename(
        &self,
        user: &User,
        from: &DsiPath,
        to: &DsiPath,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Creates a symbolic link to `target` at `link`.
    fn symlink(
        &self,
        user: &User,
        target: &[u8],
        link: &DsiPath,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Sets the metadata present in `meta`.
    fn set_meta(
        &self,
        user: &User,
        path: &DsiPath,
        meta: Meta,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The extended attributes of a file or a directory, those of the namespace `user.`: at most
    /// [`MAX_ATTRIBUTES`](crate::types::MAX_ATTRIBUTES), each of at most
    /// [`MAX_VALUE`](crate::types::MAX_VALUE) bytes.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] for a file with more; [`ErrorKind::Unsupported`] of a backend without
    /// [`attributes`](crate::Capabilities::attributes).
    fn attributes(
        &self,
        user: &User,
        path: &DsiPath,
    ) -> impl Future<Output = Result<Vec<Attribute>>> + Send {
        let _ = user;
        let error = Error::new(ErrorKind::Unsupported, "read attributes").at(path);
        std::future::ready(Err(error))
    }

    /// Sets one extended attribute of a file or a directory.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] in another namespace; [`ErrorKind::Unsupported`] as by
    /// [`attributes`](Self::attributes), and on a file system that keeps none.
    fn set_attribute(
        &self,
        user: &User,
        path: &DsiPath,
        attribute: Attribute,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (user, attribute);
        let error = Error::new(ErrorKind::Unsupported, "set attribute").at(path);
        std::future::ready(Err(error))
    }

    /// Truncates a file to `length` bytes; refuses to grow it.
    fn truncate(
        &self,
        user: &User,
        path: &DsiPath,
        length: u64,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Hashes `length` bytes (to the end if `None`) from `offset`, in bounded memory.
    ///
    /// Returns the digest in lower-case hexadecimal. `progress` counts the bytes hashed so far.
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

//! `Source`, `Sink` and `Listing`: open objects, positional, shared by `&self`, so that N connections need no lock.

use std::future::Future;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};

use crate::error::{Error, ErrorKind, Result};
use crate::types::{ChecksumAlgorithm, Stat, WriteModel};

/// An object open for reading.
pub trait Source: Send + Sync + 'static {
    /// Size in bytes when it was opened.
    fn size(&self) -> u64;

    /// Reads at `offset` into the spare capacity of `into`, at most up to that capacity, and gives
    /// the buffer back longer by what was read. No growth means the end.
    fn read_at(&self, offset: u64, into: BytesMut)
    -> impl Future<Output = Result<BytesMut>> + Send;

    /// A descriptor whose bytes are the object's bytes, for send-file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ranges that hold data, as far as the backend knows: what is left out reads as zeros.
    fn data(&self) -> impl Future<Output = Result<Option<RangeSet>>> + Send {
        async { Ok(None) }
    }

    /// Checks that the object is still what was opened: same size, same modification time. One that
    /// lost its name meanwhile, or lost it to another object, stays what it is.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`] when it is not.
    fn unchanged(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// An object open for writing.
///
/// Dropping a sink without `finish` leaves what was written as a partial object that a later
/// restart can continue; the final name never shows it.
pub trait Sink: Send + Sync + 'static {
    /// Writes all of `data` at `offset`.
    fn write_at(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Records that exactly `held` is written, so that a later restart may build on it even after
    /// this process dies; with `durable`, even after the machine does.
    ///
    /// Called before a restart marker names those bytes, and before a partial object is left.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] where another upload to the same name is
    /// the one that can be continued: a restart would go on behind that one's bytes. When bytes
    /// could not be made `durable`, this and all that follows on the sink fails.
    fn checkpoint(&self, held: &RangeSet, durable: bool)
    -> impl Future<Output = Result<()>> + Send;

    /// What an earlier attempt left: bytes that this sink already holds.
    fn held(&self) -> RangeSet;

    /// The order in which this object takes writes.
    fn order(&self) -> WriteModel {
        WriteModel::Random
    }

    /// Reads `len` bytes at `offset` that were written before; fewer where they are not there.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where what is written cannot be read.
    fn read_back(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes>> + Send {
        let _ = (offset, len);
        async { Err(Error::new(ErrorKind::Unsupported, "read back")) }
    }

    /// Completes the object and publishes it under its name.
    ///
    /// When it fails, what was last recorded by `checkpoint` is kept for a restart, except after
    /// [`ErrorKind::Mismatch`]: wrong bytes are not kept.
    fn finish(self, done: Finish) -> impl Future<Output = Result<Stat>> + Send;

    /// Whether [`take_pipe`](Self::take_pipe) works on this object.
    fn takes_pipes(&self) -> bool {
        false
    }

    /// Writes the `len` bytes that wait in `pipe` at `offset`, inside the kernel where it can.
    ///
    /// It keeps the pipe until it is done with it, and takes all `len` bytes or fails. After an
    /// error, or once the future is dropped, an unknown part of them is left in the pipe.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at); [`Unsupported`](ErrorKind::Unsupported) unless
    /// [`takes_pipes`](Self::takes_pipes).
    fn take_pipe(
        &self,
        pipe: Arc<OwnedFd>,
        offset: u64,
        len: usize,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (pipe, offset, len);
        async { Err(Error::new(ErrorKind::Unsupported, "write")) }
    }
}

/// What is known of a stored object when it is complete.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Finish {
    /// Length the object gets when it is a whole one; `None` leaves its length (ESTO, APPE), as an
    /// update does with a longer one.
    pub size: Option<u64>,
    /// Modification time to set: seconds since 1970 and nanoseconds.
    pub modified: Option<(i64, u32)>,
    /// Algorithm and digest that the object must have before it is published.
    pub checksum: Option<(ChecksumAlgorithm, String)>,
    /// Permission bits to set; `None` keeps those of a replaced object, or takes the default.
    pub mode: Option<u32>,
    /// All that is written, where the caller kept account: an object that `size` calls larger is
    /// refused as [`ErrorKind::Incomplete`].
    pub held: Option<RangeSet>,
}

impl Finish {
    /// Completes a whole object of `size` bytes.
    pub fn whole(size: u64) -> Self {
        Self {
            size: Some(size),
            ..Self::default()
        }
    }

    /// Completes an object that keeps the length it has.
    pub fn as_is() -> Self {
        Self::default()
    }

    /// Sets the modification time: seconds since 1970 and nanoseconds.
    #[must_use]
    pub fn with_modified(mut self, seconds: i64, nanos: u32) -> Self {
        self.modified = Some((seconds, nanos));
        self
    }

    /// Publishes the object only if it has this digest, hexadecimal in any case.
    #[must_use]
    pub fn with_checksum(
        mut self,
        algorithm: ChecksumAlgorithm,
        digest: impl Into<String>,
    ) -> Self {
        self.checksum = Some((algorithm, digest.into()));
        self
    }

    /// Sets the permission bits.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The same for an update of an object of `kept` bytes, of which those that were not written stay.
    #[must_use]
    pub fn keeping(mut self, kept: u64) -> Self {
        self.size = self.size.map(|size| size.max(kept));
        if let Some(held) = &mut self.held {
            held.extend(Range64::new(0, kept));
        }
        self
    }

    /// Says what is written, to be checked against the size.
    #[must_use]
    pub fn with_held(mut self, held: RangeSet) -> Self {
        self.held = Some(held);
        self
    }
}

/// A directory being listed.
pub trait Listing: Send + 'static {
    /// The next entries, at most a few hundred; empty at the end. `.` and `..` are not among them.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Stat>>> + Send;

    /// Where the next batch begins, for [`seek`](Self::seek) in another listing of the directory;
    /// `None` in a backend that knows no such places.
    fn position(&self) -> Option<u64> {
        None
    }

    /// Has the next batch begin where another listing of the same directory stood.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) in a backend that gives no [`position`](Self::position).
    fn seek(&mut self, position: u64) -> impl Future<Output = Result<()>> + Send {
        let _ = position;
        async { Err(Error::new(ErrorKind::Unsupported, "list")) }
    }
}

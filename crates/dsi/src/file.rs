//! `Source`, `Sink` and `Listing`: open objects with positional access, shared without a lock.

use std::future::Future;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};

use crate::error::{Error, ErrorKind, Result};
use crate::types::{ChecksumAlgorithm, Stat, WriteModel};

/// An object open for reading.
pub trait Source: Send + Sync + 'static {
    /// Size in bytes at the time of opening.
    fn size(&self) -> u64;

    /// Reads at `offset` into the spare capacity of `into`, without growing it, and returns the
    /// buffer with the bytes appended. No appended bytes mean the end.
    fn read_at(&self, offset: u64, into: BytesMut)
    -> impl Future<Output = Result<BytesMut>> + Send;

    /// Whether [`lend`](Self::lend) works: the bytes pass through memory of the backend anyway.
    fn lends(&self) -> bool {
        false
    }

    /// The next bytes at `offset` in memory of the backend: at most `len`, and at least one before
    /// the end. The caller keeps them no longer than their use, since they count as read ahead.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); [`Unsupported`](ErrorKind::Unsupported) unless
    /// [`lends`](Self::lends).
    fn lend(&self, offset: u64, len: u64) -> impl Future<Output = Result<Bytes>> + Send {
        let _ = (offset, len);
        async { Err(Error::new(ErrorKind::Unsupported, "read")) }
    }

    /// A descriptor with the bytes of the object, for send-file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ranges that hold data, if the backend knows them: all others read as zeros.
    fn data(&self) -> impl Future<Output = Result<Option<RangeSet>>> + Send {
        async { Ok(None) }
    }

    /// The version of the object that was opened, if the backend tells versions apart.
    fn version(&self) -> Option<Version> {
        None
    }

    /// Checks that size and modification time are those at the time of opening. An object may lose
    /// its name meanwhile, also to another object.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`] when they differ.
    fn unchanged(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// The version of an object: of two sources with the same one the bytes are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    object: (u64, u64),
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Version {
    /// The version of an object, by the number of its storage and its own in that, its size in bytes,
    /// and the times of its last write and of the last change of its facts: seconds since 1970 and
    /// nanoseconds.
    pub const fn new(
        object: (u64, u64),
        size: u64,
        modified: (i64, u32),
        changed: (i64, u32),
    ) -> Self {
        Self {
            object,
            size,
            modified,
            changed,
        }
    }

    /// Its parts in order, big-endian, from which a record tells it again.
    pub fn to_bytes(self) -> Vec<u8> {
        let Self {
            object: (storage, number),
            size,
            modified,
            changed,
        } = self;
        let numbers = [storage, number, size].into_iter();
        let times = [modified, changed]
            .into_iter()
            .flat_map(|(seconds, nanos)| {
                [seconds.to_be_bytes(), u64::from(nanos).to_be_bytes()].concat()
            });
        numbers.flat_map(u64::to_be_bytes).chain(times).collect()
    }
}

/// The number of an aligned group of 1 MiB of a file, and its BLAKE3 chaining value.
pub type GroupValue = (u64, [u8; 32]);

/// An object open for writing.
///
/// Dropping a sink without `finish` leaves a partial object that a later restart can continue; it
/// never appears under the final name.
pub trait Sink: Send + Sync + 'static {
    /// Writes all of `data` at `offset`.
    fn write_at(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Records that exactly `held` is written, so that a later restart may continue from it even
    /// after a crash of this process; with `durable`, even after a crash of the machine. Without,
    /// some or none of them may be held then.
    ///
    /// Called before a restart marker names those bytes, and before a partial object is left. When
    /// nothing is held, the sink keeps no bytes once it is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another upload to the same name is the one kept for a restart, which
    /// would then continue behind its bytes. If bytes cannot be made `durable`, this call and all
    /// later ones on the sink fail. [`ErrorKind::Incomplete`] if a restart cannot continue with some
    /// of them: the others are recorded.
    fn checkpoint(&self, held: &RangeSet, durable: bool)
    -> impl Future<Output = Result<()>> + Send;

    /// The ranges that this sink already holds from an earlier attempt. Those that a crash of the
    /// machine may have changed are among them once [`will_check`](Self::will_check) was called.
    fn held(&self) -> RangeSet;

    /// The values of the groups in `held` that are [noted](Self::note_groups), in order, also those
    /// that an earlier attempt recorded; `None` if the sink records none.
    ///
    /// # Errors
    /// The record cannot be read.
    fn groups(
        &self,
        held: &RangeSet,
    ) -> impl Future<Output = Result<Option<Vec<GroupValue>>>> + Send {
        let _ = held;
        async { Ok(None) }
    }

    /// Has [`checkpoint`](Self::checkpoint) record the values of groups once it names all bytes of
    /// them, so that a later attempt need not read these again.
    fn note_groups(&self, values: Vec<GroupValue>) {
        drop(values);
    }

    /// The order of writes that this object accepts.
    fn order(&self) -> WriteModel {
        WriteModel::Random
    }

    /// Reads `len` written bytes at `offset`; fewer at the end of the object.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if the object cannot be read while open for writing.
    fn read_back(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes>> + Send {
        let _ = (offset, len);
        async { Err(Error::new(ErrorKind::Unsupported, "read back")) }
    }

    /// The BLAKE3 values of `len` written bytes at `offset`, at most 1 MiB, from a storage that hashes
    /// them and does not hand them out: in the form on the wire of `digest_tree::Known`.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) in a backend whose bytes are [read](Self::read_back);
    /// [`Incomplete`](ErrorKind::Incomplete) where fewer are written.
    fn hash_back(&self, offset: u64, len: usize) -> impl Future<Output = Result<Vec<u8>>> + Send {
        let _ = (offset, len);
        async { Err(Error::new(ErrorKind::Unsupported, "hash")) }
    }

    /// Ranges that hold data, written through any sink of this upload, if the backend knows them:
    /// all others were not written. It may name more than was written, never less.
    ///
    /// The owner of a shared upload checks the reports of others with it.
    fn data(&self) -> impl Future<Output = Result<Option<RangeSet>>> + Send {
        async { Ok(None) }
    }

    /// A token of at most [`MAX_TOKEN`](crate::dsi::MAX_TOKEN) bytes with which
    /// [`Dsi::join`](crate::Dsi::join) opens this upload elsewhere, until this sink ends.
    ///
    /// This sink stays the owner: it alone holds the lock, records and publishes. With `kept` others
    /// write outside of these ranges alone: the values of [groups](Self::groups) in them stay recorded,
    /// and those that the owner [notes](Self::note_groups) of other bytes are. Without it all values are
    /// forgotten, and none are recorded.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) unless
    /// [`shares_uploads`](crate::Capabilities::shares_uploads), or for this object.
    fn share(&self, kept: Option<&RangeSet>) -> impl Future<Output = Result<Vec<u8>>> + Send {
        let _ = kept;
        async { Err(Error::new(ErrorKind::Unsupported, "share")) }
    }

    /// Announces, before the first write, that [`finish`](Self::finish) will check a digest: a
    /// backend that cannot read the upload again hashes the bytes as they pass. It no longer names
    /// bytes of an earlier attempt in [`held`](Self::held) with which it could not check the digest
    /// before it replaces an object. A backend that keeps bytes which only a digest of the whole
    /// object proves names them from then on, and publishes the object with a digest only.
    fn will_check(&self, algorithm: ChecksumAlgorithm) {
        let _ = algorithm;
    }

    /// Completes the object and publishes it under its name.
    ///
    /// # Errors
    /// [`Denied`](ErrorKind::Denied) on a sink that joined the upload of another;
    /// [`Incomplete`](ErrorKind::Incomplete), and nothing is kept, without a digest of an object that
    /// has to have one.
    ///
    /// When it fails, the ranges of the last `checkpoint` are kept for a restart, except after
    /// [`ErrorKind::Mismatch`]: wrong bytes are not kept.
    fn finish(self, done: Finish) -> impl Future<Output = Result<Stat>> + Send;

    /// Whether [`take_pipe`](Self::take_pipe) works on this object.
    fn takes_pipes(&self) -> bool {
        false
    }

    /// Writes `len` bytes out of `pipe` at `offset`, inside the kernel if possible.
    ///
    /// Writes all `len` bytes or fails. After an error, or if the future is dropped, an unknown
    /// part of them is left in the pipe, which stays open until the write has ended.
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

/// The properties of a complete object, checked or set by [`Sink::finish`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Finish {
    /// Length of a whole object; `None` keeps the present length (ESTO, APPE). An update that is
    /// longer keeps its length as well.
    pub size: Option<u64>,
    /// Modification time to set: seconds since 1970 and nanoseconds.
    pub modified: Option<(i64, u32)>,
    /// Algorithm and digest that the object must have to be published.
    pub checksum: Option<(ChecksumAlgorithm, String)>,
    /// Permission bits to set; `None` keeps those of a replaced object, or uses the default.
    pub mode: Option<u32>,
    /// The written ranges, if the caller tracked them: when they do not cover `size`, the object is
    /// refused as [`ErrorKind::Incomplete`].
    pub held: Option<RangeSet>,
    /// Publishes the object only if nothing has its name at that moment, and fails with
    /// [`ErrorKind::Exists`] otherwise, and keeps nothing for a restart then. For a backend with
    /// [`exclusive`], and no update, append or write in place.
    ///
    /// [`exclusive`]: crate::Capabilities::exclusive
    pub exclusive: bool,
}

impl Finish {
    /// Completes a whole object of `size` bytes.
    pub fn whole(size: u64) -> Self {
        Self {
            size: Some(size),
            ..Self::default()
        }
    }

    /// Completes an object with its present length.
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

    /// Publishes the object only if nothing has its name at that moment.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Adapts the properties to an update of an object of `kept` bytes: unwritten bytes stay.
    #[must_use]
    pub fn keeping(mut self, kept: u64) -> Self {
        self.size = self.size.map(|size| size.max(kept));
        if let Some(held) = &mut self.held {
            held.extend(Range64::new(0, kept));
        }
        self
    }

    /// Sets the written ranges, which must cover the size.
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

    /// The position of the next batch, for [`seek`](Self::seek) in another listing of the
    /// directory; `None` if the backend has no positions.
    fn position(&self) -> Option<u64> {
        None
    }

    /// Continues at the position of another listing of the same directory.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) in a backend without a [`position`](Self::position).
    fn seek(&mut self, position: u64) -> impl Future<Output = Result<()>> + Send {
        let _ = position;
        async { Err(Error::new(ErrorKind::Unsupported, "list")) }
    }
}

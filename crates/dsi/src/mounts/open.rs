//! Open objects of a mounted storage: their errors tell the path as the user knows it.

use std::collections::HashSet;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};

use super::told;
use crate::capability::{ChecksumAlgorithm, WriteModel};
use crate::erased::BoxListing;
use crate::error::{Error, ErrorKind, Result};
use crate::file::{Finish, GroupValue, Listing, Sink, Source, Version};
use crate::types::{DsiPath, Stat};

/// A source or a sink, and its path in the tree.
#[derive(Debug)]
pub struct Placed<T> {
    object: T,
    path: DsiPath,
}

impl<T> Placed<T> {
    pub(super) fn new(object: T, path: &DsiPath) -> Self {
        let path = path.clone();
        Self { object, path }
    }
}

impl<S: Source> Source for Placed<S> {
    fn size(&self) -> u64 {
        self.object.size()
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut> {
        told(self.object.read_at(offset, into).await, &self.path)
    }

    fn lends(&self) -> bool {
        self.object.lends()
    }

    async fn lend(&self, offset: u64, len: u64) -> Result<Bytes> {
        told(self.object.lend(offset, len).await, &self.path)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.object.descriptor()
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        told(self.object.data().await, &self.path)
    }

    fn version(&self) -> Option<Version> {
        self.object.version()
    }

    async fn unchanged(&self) -> Result<()> {
        told(self.object.unchanged().await, &self.path)
    }
}

impl<S: Sink> Sink for Placed<S> {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        told(self.object.write_at(offset, data).await, &self.path)
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        told(self.object.checkpoint(held, durable).await, &self.path)
    }

    fn held(&self) -> RangeSet {
        self.object.held()
    }

    async fn groups(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        told(self.object.groups(held).await, &self.path)
    }

    fn note_groups(&self, values: Vec<GroupValue>) {
        self.object.note_groups(values);
    }

    fn order(&self) -> WriteModel {
        self.object.order()
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes> {
        told(self.object.read_back(offset, len).await, &self.path)
    }

    async fn hash_back(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        told(self.object.hash_back(offset, len).await, &self.path)
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        told(self.object.data().await, &self.path)
    }

    async fn share(&self, kept: Option<&RangeSet>) -> Result<Vec<u8>> {
        told(self.object.share(kept).await, &self.path)
    }

    fn will_check(&self, algorithm: ChecksumAlgorithm) {
        self.object.will_check(algorithm);
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        told(self.object.finish(done).await, &self.path)
    }

    fn takes_pipes(&self) -> bool {
        self.object.takes_pipes()
    }

    async fn take_pipe(&self, pipe: Arc<OwnedFd>, offset: u64, len: usize) -> Result<()> {
        told(self.object.take_pipe(pipe, offset, len).await, &self.path)
    }
}

/// The entries of a directory: first the mount points in it, then those of the storage.
pub struct MountedListing {
    /// The mount points, until they are told.
    own: Vec<Stat>,
    /// Their names, which hide entries of the storage.
    hidden: HashSet<Vec<u8>>,
    below: Option<BoxListing>,
    path: DsiPath,
}

impl MountedListing {
    pub(super) fn new(own: Vec<Stat>, below: Option<BoxListing>, path: &DsiPath) -> Self {
        Self {
            hidden: own.iter().map(|stat| stat.name.clone()).collect(),
            own,
            below,
            path: path.clone(),
        }
    }
}

impl Listing for MountedListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        if !self.own.is_empty() {
            return Ok(std::mem::take(&mut self.own));
        }
        let Some(below) = &mut self.below else {
            return Ok(Vec::new());
        };
        loop {
            let mut entries = told(below.next().await, &self.path)?;
            let was_empty = entries.is_empty();
            entries.retain(|entry| !self.hidden.contains(&entry.name));
            // Only the end is empty.
            if was_empty || !entries.is_empty() {
                return Ok(entries);
            }
        }
    }

    /// That of the storage, in directories without mount points.
    fn position(&self) -> Option<u64> {
        let below = self.below.as_ref().filter(|_| self.hidden.is_empty())?;
        below.position()
    }

    async fn seek(&mut self, position: u64) -> Result<()> {
        match &mut self.below {
            Some(below) if self.hidden.is_empty() => told(below.seek(position).await, &self.path),
            _ => Err(Error::new(ErrorKind::Unsupported, "list").at(&self.path)),
        }
    }
}

impl fmt::Debug for MountedListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountedListing")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

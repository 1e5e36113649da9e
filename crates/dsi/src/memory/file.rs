//! The open objects of the backend in memory.

use std::sync::{Arc, OnceLock, Weak};

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};

use super::body::{Over, Shared, len, now};
use super::share::Share;
use super::{Memory, Node, Partial, lock};
use crate::error::{Error, ErrorKind, Result};
use crate::file::{Finish, Listing, Sink, Source};
use crate::types::{DsiPath, Kind, Stat};

/// Entries in one batch of a listing.
const BATCH: usize = 256;

/// A file of [`Memory`] open for reading.
#[derive(Debug)]
pub struct MemorySource {
    pub(super) path: DsiPath,
    pub(super) body: Shared,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
}

impl Source for MemorySource {
    fn size(&self) -> u64 {
        self.size
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        let body = lock(&self.body);
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(body.bytes.len());
        let rest = body.bytes.get(start..).unwrap_or_default();
        let room = into.capacity() - into.len();
        into.extend_from_slice(rest.get(..room).unwrap_or(rest));
        Ok(into)
    }

    async fn unchanged(&self) -> Result<()> {
        let body = lock(&self.body);
        if len(&body.bytes) != self.size || body.modified != self.modified {
            return Err(Error::new(ErrorKind::Changed, "read").at(&self.path));
        }
        Ok(())
    }
}

/// A file of [`Memory`] open for writing.
#[derive(Debug)]
pub struct MemorySink {
    pub(super) memory: Memory,
    pub(super) path: DsiPath,
    pub(super) body: Shared,
    pub(super) held: RangeSet,
    pub(super) way: Way,
    /// The user who opened it.
    pub(super) user: String,
    /// Set once the upload is shared.
    pub(super) share: OnceLock<Arc<Share>>,
}

#[derive(Debug)]
pub(super) enum Way {
    /// Published by `finish`; an update has the file that it replaces.
    Whole(Option<Over>),
    /// The file itself.
    InPlace,
    /// The upload of another sink.
    Joined(Weak<Share>),
}

impl MemorySink {
    /// The bytes to write to; those of a joined upload only while its owner lives.
    fn body(&self) -> Result<Shared> {
        match &self.way {
            Way::Whole(_) | Way::InPlace => Ok(Arc::clone(&self.body)),
            Way::Joined(share) => match share.upgrade() {
                Some(share) => Ok(Arc::clone(&share.body)),
                None => Err(Error::new(ErrorKind::Changed, "write").at(&self.path)),
            },
        }
    }
}

impl Drop for MemorySink {
    fn drop(&mut self) {
        if let Way::InPlace = self.way {
            let mut body = lock(&self.body);
            body.writers -= 1;
            body.alone = false;
        }
    }
}

impl Sink for MemorySink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        let end = offset
            .checked_add(len(&data))
            .filter(|end| *end <= self.memory.limit);
        let span = (usize::try_from(offset), end.map(usize::try_from));
        let (Ok(start), Some(Ok(end))) = span else {
            return Err(Error::new(ErrorKind::NoSpace, "write").at(&self.path));
        };
        let body = self.body()?;
        let mut body = lock(&body);
        if body.bytes.len() < end {
            body.bytes.resize(end, 0);
        }
        if let Some(room) = body.bytes.get_mut(start..end) {
            room.copy_from_slice(&data);
        }
        body.modified = now();
        Ok(())
    }

    async fn checkpoint(&self, held: &RangeSet, _durable: bool) -> Result<()> {
        let over = match &self.way {
            Way::Whole(over) => over,
            Way::InPlace => return Ok(()),
            Way::Joined(_) => return self.body().map(drop),
        };
        let partials = &mut self.memory.tree().partials;
        // The map has one reference to it, a writer another.
        if partials.get(&self.path).is_some_and(|partial| {
            !Arc::ptr_eq(&partial.body, &self.body) && Arc::strong_count(&partial.body) > 1
        }) {
            return Err(Error::new(ErrorKind::Busy, "record").at(&self.path));
        }
        let partial = Partial {
            body: Arc::clone(&self.body),
            held: held.clone(),
            over: over.clone(),
        };
        partials.insert(self.path.clone(), partial);
        Ok(())
    }

    fn held(&self) -> RangeSet {
        self.held.clone()
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes> {
        let body = self.body()?;
        let body = lock(&body);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = body.bytes.get(from..).unwrap_or_default();
        Ok(Bytes::copy_from_slice(rest.get(..len).unwrap_or(rest)))
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        let body = self.body()?;
        let data = RangeSet::up_to(len(&lock(&body).bytes));
        Ok(Some(data))
    }

    async fn share(&self, _: Option<&RangeSet>) -> Result<Vec<u8>> {
        if let Way::Joined(_) = self.way {
            return Err(Error::new(ErrorKind::Unsupported, "share").at(&self.path));
        }
        let mut tree = self.memory.tree();
        let add = || {
            let (path, user) = (self.path.clone(), self.user.clone());
            tree.shares.add(Arc::clone(&self.body), path, user)
        };
        Ok(self.share.get_or_init(add).token())
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        let mut tree = self.memory.tree();
        let changed = || Err(Error::new(ErrorKind::Changed, "finish").at(&self.path));
        match &self.way {
            Way::InPlace if !tree.is_at(&self.path, &self.body) => return changed(),
            Way::Whole(Some(over))
                if !tree.is_at(&self.path, &over.body) || !over.is_unchanged() =>
            {
                return changed();
            }
            Way::Joined(_) => return Err(Error::new(ErrorKind::Denied, "finish").at(&self.path)),
            Way::Whole(Some(_)) | Way::InPlace if done.exclusive => {
                return Err(Error::new(ErrorKind::Unsupported, "finish").at(&self.path));
            }
            Way::Whole(_) | Way::InPlace => {}
        }
        let mut body = lock(&self.body);
        // An update keeps unwritten bytes.
        let kept = match &self.way {
            Way::Whole(Some(over)) => over.size,
            Way::Whole(None) | Way::InPlace | Way::Joined(_) => 0,
        };
        let done = done.keeping(kept);
        if let Some(size) = done.size {
            let covered = match (&done.held, Range64::new(0, size)) {
                (Some(held), Some(whole)) => held.covers(whole),
                _ => true,
            };
            if !covered || len(&body.bytes) < size {
                return Err(Error::new(ErrorKind::Incomplete, "finish").at(&self.path));
            }
            body.bytes
                .truncate(usize::try_from(size).unwrap_or(usize::MAX));
        }
        body.modified = done.modified.unwrap_or_else(now);
        let stat = body.stat(&self.path);
        drop(body);
        if let Way::Whole(_) = self.way {
            let published = tree.publish(&self.path, Arc::clone(&self.body), done.exclusive);
            let is_taken = |error: &Error| done.exclusive && error.kind() == ErrorKind::Exists;
            if published.as_ref().is_err_and(|error| !is_taken(error)) {
                return published.map(|()| stat);
            }
            // The partial file of another writer stays.
            if tree
                .partials
                .get(&self.path)
                .is_some_and(|partial| Arc::ptr_eq(&partial.body, &self.body))
            {
                tree.partials.remove(&self.path);
            }
            published?;
        }
        Ok(stat)
    }
}

/// A directory of [`Memory`] being listed.
#[derive(Debug)]
pub struct MemoryListing {
    pub(super) memory: Memory,
    pub(super) entries: Vec<DsiPath>,
}

impl Listing for MemoryListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        let from = self.entries.len().saturating_sub(BATCH);
        let tree = self.memory.tree();
        let batch = self
            .entries
            .drain(from..)
            .filter_map(|path| match tree.nodes.get(&path)? {
                Node::Directory => Some(Stat::new(path.name(), Kind::Directory)),
                Node::File(body) => Some(lock(body).stat(&path)),
            });
        Ok(batch.collect())
    }
}

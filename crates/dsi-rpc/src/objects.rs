//! `RemoteSource`, `RemoteSink` and `RemoteListing`: open objects of a peer.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use digest_tree::groups_in;
use gridftp_dsi::{
    ChecksumAlgorithm, DsiPath, Error, ErrorKind, Finish, GroupValue, Listing, Result, Sink,
    Source, Stat, WriteModel,
};
use tonic::Streaming;

use crate::BLOCK;
use crate::content::Content;
use crate::convert::{MAX_RANGES, stat, write_model};
use crate::failure::error;
use crate::groups::{Noted, asked, take_page};
use crate::handle::{Handle, LONG, SHORT};
use crate::peers::Peers;
use crate::proto;

/// Most ranges with data of a file.
const MAX_DATA: usize = 1 << 20;

/// The set of a message, or an error.
fn ranges(list: Option<&proto::RangeList>, op: &'static str, path: &DsiPath) -> Result<RangeSet> {
    let Some(list) = list else {
        return Ok(RangeSet::new());
    };
    let bad = || {
        let why = "the peer sent ranges out of order";
        Error::new(ErrorKind::Io, op).at(path).because(why)
    };
    list.to_set().ok_or_else(bad)
}

/// The ranges of an answer.
pub(crate) fn held(list: &proto::RangeList, path: &DsiPath) -> Result<RangeSet> {
    ranges(Some(list), "look for partial file", path)
}

/// The ranges that hold data, if the peer knows them.
async fn data<P: Peers>(content: &Content<P>) -> Result<Option<RangeSet>> {
    if content.file.is_some() {
        return Ok(None);
    }
    let (handle, op) = (&content.handle, "find data");
    let mut data = RangeSet::new();
    loop {
        let request = proto::DataRequest {
            handle: handle.number,
            offset: data.end(),
        };
        let asking = handle.call(
            op,
            SHORT,
            |mut client| async move { client.data(request).await },
        );
        let reply = asking.await?;
        let Some(page) = reply.data else {
            return Ok(None);
        };
        let page = ranges(Some(&page), op, content.path())?;
        if !reply.more {
            data.extend(&page);
            return Ok(Some(data));
        }
        if page.end() <= data.end() || data.len() > MAX_DATA {
            let why = "the peer sent ranges without end";
            return Err(Error::new(ErrorKind::Io, op)
                .at(content.path())
                .because(why));
        }
        data.extend(&page);
    }
}

/// A file of a peer open for reading.
#[derive(Debug)]
pub struct RemoteSource<P: Peers> {
    content: Content<P>,
    size: u64,
}

impl<P: Peers> RemoteSource<P> {
    pub(crate) async fn new((handle, opened): (Handle<P>, proto::Opened)) -> Result<Self> {
        let content = Content::new(handle, &opened).await?;
        let size = content.file.as_ref().map(|file| file.opened_size());
        let size = size.unwrap_or(opened.size);
        Ok(Self { content, size })
    }
}

impl<P: Peers> Source for RemoteSource<P> {
    fn size(&self) -> u64 {
        self.size
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut> {
        self.content.read(offset, into).await
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.content.file.as_ref().map(|file| file.descriptor())
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        data(&self.content).await
    }

    async fn unchanged(&self) -> Result<()> {
        if let Some(file) = &self.content.file {
            return file.unchanged();
        }
        let handle = self.content.handle.number;
        let asking = self
            .content
            .handle
            .call("read", SHORT, |mut client| async move {
                client.unchanged(proto::Handle { handle }).await
            });
        asking.await.map(drop)
    }
}

/// A file of a peer open for writing.
#[derive(Debug)]
pub struct RemoteSink<P: Peers> {
    content: Content<P>,
    held: RangeSet,
    order: WriteModel,
    /// The digest that `finish` will check.
    check: Mutex<Check>,
    /// The values of groups for the next record; `None` if the peer records none.
    noted: Option<Noted>,
}

/// The announcement of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    None,
    /// To be sent with the first write.
    Wanted(ChecksumAlgorithm),
    Sent,
}

impl<P: Peers> RemoteSink<P> {
    pub(crate) async fn new((handle, opened): (Handle<P>, proto::Opened)) -> Result<Self> {
        let content = Content::new(handle, &opened).await?;
        Ok(Self {
            held: ranges(opened.held.as_ref(), "open", content.path())?,
            order: write_model(opened.order),
            check: Mutex::new(Check::None),
            // Through a descriptor the peer does not see the writes that change a group.
            noted: (opened.records && content.file.is_none()).then(Noted::default),
            content,
        })
    }

    /// The announcement that is still to be sent.
    fn take_check(&self) -> String {
        let mut check = self.check.lock().unwrap_or_else(PoisonError::into_inner);
        let Check::Wanted(algorithm) = *check else {
            return String::new();
        };
        *check = Check::Sent;
        algorithm.name().to_owned()
    }

    fn error(&self, op: &'static str, kind: ErrorKind) -> Error {
        Error::new(kind, op).at(self.content.path())
    }

    /// The recorded values of the groups with these numbers, as many as fit a reply.
    async fn recorded(&self, numbers: &RangeSet) -> Result<Vec<GroupValue>> {
        let op = "read values of groups";
        let request = proto::GroupsRequest {
            handle: self.content.handle.number,
            numbers: Some(numbers.into()),
        };
        let asking = self
            .content
            .handle
            .call(op, SHORT, |mut client| async move {
                client.groups(request).await
            });
        let told = asked(asking.await?.groups, numbers);
        told.map_err(|why| self.error(op, ErrorKind::Malformed).because(why))
    }

    /// Records the ranges, and these values of groups.
    async fn record(
        &self,
        held: &RangeSet,
        durable: bool,
        groups: Vec<proto::GroupValue>,
    ) -> Result<()> {
        let request = proto::CheckpointRequest {
            handle: self.content.handle.number,
            held: Some(held.into()),
            durable,
            groups,
        };
        let recording = self
            .content
            .handle
            .call("record", SHORT, |mut client| async move {
                client.checkpoint(request).await
            });
        recording.await.map(drop)
    }

    /// Gives a file with a descriptor its size, if all of it was written.
    async fn settle(&self, done: &Finish) -> Result<()> {
        let (Some(file), Some(size)) = (&self.content.file, done.size) else {
            return Ok(());
        };
        let whole = Range64::new(0, size);
        let has_gaps = |held: &RangeSet| whole.is_some_and(|whole| !held.gaps(whole).is_empty());
        if file.size()? < size || done.held.as_ref().is_some_and(has_gaps) {
            return Err(self.error("finish", ErrorKind::Incomplete));
        }
        file.truncate(size).await
    }
}

impl<P: Peers> Sink for RemoteSink<P> {
    async fn write_at(&self, offset: u64, mut data: Bytes) -> Result<()> {
        let len = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let end = offset.checked_add(len);
        if end.and_then(|end| i64::try_from(end).ok()).is_none() {
            return Err(self.error("write", ErrorKind::TooLarge));
        }
        if let Some(file) = &self.content.file {
            return file.write(offset, data).await;
        }
        if data.len() > BLOCK && matches!(self.order, WriteModel::Parts(_)) {
            // A part is written whole.
            return Err(self.error("write", ErrorKind::Unsupported));
        }
        if let Some(noted) = &self.noted {
            noted.forget(offset, data.len()).await;
        }
        let mut at = offset;
        while !data.is_empty() {
            let block = data.split_to(data.len().min(BLOCK));
            let len = u64::try_from(block.len()).unwrap_or(u64::MAX);
            self.content
                .write_block(at, block, self.take_check())
                .await?;
            at += len;
        }
        Ok(())
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        if let Some(file) = &self.content.file {
            if durable {
                file.sync().await?;
            }
            if !self.content.handle.resumes() {
                return Ok(());
            }
        }
        let record = |groups| self.record(held, durable, groups);
        match &self.noted {
            Some(noted) => noted.record(record).await,
            None => record(Vec::new()).await,
        }
    }

    fn held(&self) -> RangeSet {
        let check = *self.check.lock().unwrap_or_else(PoisonError::into_inner);
        match self.order {
            // Of bytes that are not read again, the peer may have no digest.
            WriteModel::Random => self.held.clone(),
            _ if check == Check::None => self.held.clone(),
            _ => RangeSet::new(),
        }
    }

    async fn groups(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        let Some(noted) = &self.noted else {
            return Ok(None);
        };
        let mut rest = groups_in(held);
        // Before the calls: a record may hand them to the peer meanwhile.
        let (newer, mut found) = (noted.among(&rest), BTreeMap::new());
        while !rest.is_empty() {
            let page = take_page(&mut rest);
            found.extend(self.recorded(&page).await?);
        }
        found.extend(newer);
        Ok(Some(found.into_iter().collect()))
    }

    fn note_groups(&self, values: Vec<GroupValue>) {
        if let Some(noted) = &self.noted {
            noted.add(values);
        }
    }

    fn order(&self) -> WriteModel {
        self.order
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes> {
        self.content.read_all(offset, len).await
    }

    async fn hash_back(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        if self.noted.is_none() {
            return Err(self.error("hash", ErrorKind::Unsupported));
        }
        let request = proto::HashRequest {
            handle: self.content.handle.number,
            offset,
            length: u32::try_from(len).unwrap_or(u32::MAX),
        };
        let hashing = self
            .content
            .handle
            .call("hash", SHORT, |mut client| async move {
                client.hash(request).await
            });
        Ok(hashing.await?.known)
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        data(&self.content).await
    }

    async fn share(&self, kept: Option<&RangeSet>) -> Result<Vec<u8>> {
        // The values of the ranges left out are forgotten.
        let kept: Option<RangeSet> = kept.map(|kept| kept.iter().take(MAX_RANGES).collect());
        if let Some(noted) = &self.noted {
            noted.keep_to(kept.as_ref().unwrap_or(&RangeSet::new()));
        }
        let request = proto::ShareRequest {
            handle: self.content.handle.number,
            kept: kept.as_ref().map(proto::RangeList::from),
        };
        let sharing = self
            .content
            .handle
            .call("share", SHORT, |mut client| async move {
                client.share(request).await
            });
        Ok(sharing.await?.token)
    }

    fn will_check(&self, algorithm: ChecksumAlgorithm) {
        *self.check.lock().unwrap_or_else(PoisonError::into_inner) = Check::Wanted(algorithm);
    }

    async fn finish(mut self, done: Finish) -> Result<Stat> {
        self.settle(&done).await?;
        let checksum = done.checksum.map(|(algorithm, digest)| proto::Digest {
            algorithm: algorithm.name().to_owned(),
            digest,
            bytes: 0,
        });
        let request = proto::FinishRequest {
            handle: self.content.handle.number,
            modified: done.modified.map(proto::Time::from),
            mode: done.mode,
            checksum,
            size: done.size,
            held: done.held.as_ref().map(proto::RangeList::from),
            exclusive: done.exclusive,
        };
        let finished = self
            .content
            .handle
            .call("finish", LONG, |mut client| async move {
                client.finish(request).await
            });
        // Without an answer the handle is closed when it is dropped.
        let facts = finished.await?;
        self.content.handle.was_closed();
        Ok(stat(facts, self.content.path().name()))
    }
}

/// A directory of a peer being listed.
#[derive(Debug)]
pub struct RemoteListing {
    first: Option<proto::Entries>,
    entries: Streaming<proto::Entries>,
    path: DsiPath,
}

impl RemoteListing {
    pub(crate) fn new(
        (first, entries): (Option<proto::Entries>, Streaming<proto::Entries>),
        path: &DsiPath,
    ) -> Self {
        let path = path.clone();
        Self {
            first,
            entries,
            path,
        }
    }

    async fn receive(&mut self) -> Result<Option<proto::Entries>> {
        let batch = tokio::time::timeout(SHORT, self.entries.message()).await;
        let late = |_| {
            let error = Error::new(ErrorKind::Io, "list").at(&self.path);
            error.because("no answer in time")
        };
        let batch = batch.map_err(late)?;
        batch.map_err(|status| error(&status, "list").at(&self.path))
    }
}

impl Listing for RemoteListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        loop {
            let batch = match self.first.take() {
                Some(first) => Some(first),
                None => self.receive().await?,
            };
            let Some(batch) = batch else {
                return Ok(Vec::new());
            };
            let entries = batch.entries.into_iter().filter_map(|mut facts| {
                let name = std::mem::take(&mut facts.name);
                // A name that leads elsewhere is no entry.
                self.path.child(&name)?;
                Some(stat(facts, &name))
            });
            let entries: Vec<Stat> = entries.collect();
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
    }
}

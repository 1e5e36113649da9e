//! `Served`: the server of a storage, for one connection.

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::BytesMut;
use digest_tree::{Piece, Tree};
use futures_util::stream::try_unfold;
use gridftp_dsi::{
    BoxListing, BoxSink, ChecksumAlgorithm, Dsi, DsiPath, DynDsi, Error, ErrorKind, Finish,
    Listing as _, Meta, Progress, Sink as _, Source as _, Staging, User,
};
use tokio_util::task::TaskTracker;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::BLOCK;
use crate::convert::{attribute, create};
use crate::failure::status;
use crate::groups::{bytes_of, list, values};
use crate::proto::storage_server::Storage;
use crate::proto::{
    AttributeList, Block, CheckpointRequest, ChecksumRequest, CreateRequest, DataReply,
    DataRequest, DescribeRequest, Description, Digest, Done, Entries, Facts, FinishRequest,
    GroupList, GroupsRequest, Handle, HashRequest, Hashed, JoinRequest, OpenRequest, Opened,
    PartialList, Place, RangeList, ReadRequest, RenameRequest, SetAttributeRequest, SetMetaRequest,
    ShareRequest, Space, StageRequest, Staged, SymlinkRequest, Token, TruncateRequest,
    WriteRequest,
};
use crate::table::{Open, Opening, Table, closed};

/// Interval of the byte counts of a checksum.
const COUNT: Duration = Duration::from_secs(1);

/// Most ranges in a reply about data.
const PAGE: usize = if cfg!(test) { 4 } else { crate::MAX_RANGES };

/// Longest wait for a file from an archive.
const STAGING: Duration = Duration::from_secs(24 * 3600);

/// Serves a storage to the peer of one connection, whose open files end with this value.
#[derive(Debug)]
pub struct Served {
    dsi: Arc<dyn DynDsi>,
    open: Table,
    has_bytes: bool,
}

impl Served {
    /// Serves every call.
    pub fn new(dsi: Arc<dyn DynDsi>) -> Self {
        let open = Table::default();
        Self {
            dsi,
            open,
            has_bytes: true,
        }
    }

    /// Counts the open files, and the listings and checksums in progress, as tasks of `uses`.
    #[must_use]
    pub fn counted_by(mut self, uses: TaskTracker) -> Self {
        self.open.uses = uses;
        self
    }

    /// Serves no call that moves bytes of files.
    #[must_use]
    pub fn without_bytes(mut self) -> Self {
        self.has_bytes = false;
        self
    }

    fn must_have_bytes(&self) -> Answer<()> {
        match self.has_bytes {
            true => Ok(()),
            false => {
                let error = Error::new(ErrorKind::Unsupported, "move bytes");
                Err(status(
                    &error.because("only control crosses this connection"),
                ))
            }
        }
    }
}

/// Gives a handle its file, open for writing.
async fn opened(opening: Opening<'_>, sink: BoxSink) -> Response<Opened> {
    let (held, order) = (RangeList::from(&sink.held()), sink.order().into());
    let records = matches!(sink.groups(&RangeSet::new()).await, Ok(Some(_)));
    opening.fill(Open::Sink(sink));
    Response::new(Opened {
        in_calls: true,
        size: 0,
        held: Some(held),
        order: Some(order),
        records,
    })
}

/// A result with the status of the failure.
type Answer<T> = Result<T, Status>;

fn told(error: Error) -> Status {
    status(&error)
}

fn malformed(field: &str) -> Status {
    Status::invalid_argument(format!("field {field} is missing or out of range"))
}

fn done(result: gridftp_dsi::Result<()>) -> Answer<Response<Done>> {
    result.map_err(told)?;
    Ok(Response::new(Done {}))
}

/// User and path of a request.
fn at(place: Option<Place>) -> Answer<(User, DsiPath)> {
    let place = place.ok_or_else(|| malformed("place"))?;
    let user = place.user.and_then(crate::proto::User::into_user);
    Ok((user.ok_or_else(|| malformed("user"))?, path(&place.path)?))
}

fn path(bytes: &[u8]) -> Answer<DsiPath> {
    DsiPath::new(bytes).ok_or_else(|| malformed("path"))
}

fn set(list: Option<RangeList>) -> Answer<RangeSet> {
    let set = list.unwrap_or_default().to_set();
    set.ok_or_else(|| malformed("ranges"))
}

fn algorithm(name: &str) -> Answer<ChecksumAlgorithm> {
    let unknown = |error| told(Error::new(ErrorKind::Unsupported, "checksum").because(error));
    name.parse().map_err(unknown)
}

#[tonic::async_trait]
impl Storage for Served {
    type ListStream = BoxStream<Entries>;
    type ChecksumStream = BoxStream<Digest>;

    async fn describe(&self, _: Request<DescribeRequest>) -> Answer<Response<Description>> {
        let mut description = Description::from(&self.dsi.capabilities());
        description.identity = self.dsi.identity().unwrap_or_default();
        Ok(Response::new(description))
    }

    async fn stat(&self, request: Request<Place>) -> Answer<Response<Facts>> {
        let (user, path) = at(Some(request.into_inner()))?;
        let stat = self.dsi.stat(&user, &path).await.map_err(told)?;
        Ok(Response::new((&stat).into()))
    }

    async fn list(&self, request: Request<Place>) -> Answer<Response<BoxStream<Entries>>> {
        let (user, path) = at(Some(request.into_inner()))?;
        let listing = self.dsi.list(&user, &path).await.map_err(told)?;
        let listed = (listing, self.open.uses.token());
        let entries = try_unfold(listed, |mut listed: (BoxListing, _)| async move {
            let batch = listed.0.next().await.map_err(told)?;
            let entries = batch.iter().map(Facts::from).collect::<Vec<_>>();
            Ok((!entries.is_empty()).then_some((Entries { entries }, listed)))
        });
        Ok(Response::new(Box::pin(entries)))
    }

    async fn open(&self, request: Request<OpenRequest>) -> Answer<Response<Opened>> {
        let request = request.into_inner();
        let (user, path) = at(request.place)?;
        let opening = self.open.reserve(request.handle).map_err(told)?;
        let source = self.dsi.read(&user, &path).await.map_err(told)?;
        let size = source.size();
        opening.fill(Open::Source(source));
        Ok(Response::new(Opened {
            in_calls: true,
            size,
            held: None,
            order: None,
            records: false,
        }))
    }

    async fn create(&self, request: Request<CreateRequest>) -> Answer<Response<Opened>> {
        let request = request.into_inner();
        let how = create(request.way(), request.size);
        let (user, path) = at(request.place)?;
        let opening = self.open.reserve(request.handle).map_err(told)?;
        let sink = self.dsi.write(&user, &path, how).await.map_err(told)?;
        Ok(opened(opening, sink).await)
    }

    async fn join(&self, request: Request<JoinRequest>) -> Answer<Response<Opened>> {
        let request = request.into_inner();
        let (user, path) = at(request.place)?;
        let opening = self.open.reserve(request.handle).map_err(told)?;
        let joined = self.dsi.join(&user, &path, &request.token).await;
        Ok(opened(opening, joined.map_err(told)?).await)
    }

    async fn finish(&self, request: Request<FinishRequest>) -> Answer<Response<Facts>> {
        let request = request.into_inner();
        // Closed in any case.
        let Some(Open::Sink(sink)) = self.open.close(request.handle).await else {
            return Err(told(closed()));
        };
        let mut done = request.size.map_or_else(Finish::as_is, Finish::whole);
        done.modified = request.modified.map(crate::proto::Time::pair);
        done.mode = request.mode;
        done.exclusive = request.exclusive;
        done.held = request.held.map(|held| set(Some(held))).transpose()?;
        if let Some(wanted) = request.checksum {
            done.checksum = Some((algorithm(&wanted.algorithm)?, wanted.digest));
        }
        let stat = sink.finish(done).await.map_err(told)?;
        Ok(Response::new((&stat).into()))
    }

    async fn close(&self, request: Request<Handle>) -> Answer<Response<Done>> {
        // An upload has ended when this is answered.
        drop(self.open.close(request.into_inner().handle).await);
        Ok(Response::new(Done {}))
    }

    async fn make_dir(&self, request: Request<Place>) -> Answer<Response<Done>> {
        let (user, path) = at(Some(request.into_inner()))?;
        done(self.dsi.make_dir(&user, &path).await)
    }

    async fn remove_dir(&self, request: Request<Place>) -> Answer<Response<Done>> {
        let (user, path) = at(Some(request.into_inner()))?;
        done(self.dsi.remove_dir(&user, &path).await)
    }

    async fn remove(&self, request: Request<Place>) -> Answer<Response<Done>> {
        let (user, path) = at(Some(request.into_inner()))?;
        done(self.dsi.remove(&user, &path).await)
    }

    async fn remove_tree(&self, request: Request<Place>) -> Answer<Response<Done>> {
        let (user, path) = at(Some(request.into_inner()))?;
        done(self.dsi.remove_tree(&user, &path).await)
    }

    async fn rename(&self, request: Request<RenameRequest>) -> Answer<Response<Done>> {
        let request = request.into_inner();
        let ((user, from), to) = (at(request.from)?, path(&request.to)?);
        done(self.dsi.rename(&user, &from, &to).await)
    }

    async fn set_meta(&self, request: Request<SetMetaRequest>) -> Answer<Response<Done>> {
        let request = request.into_inner();
        let (user, path) = at(request.place)?;
        let mut meta = Meta::new();
        meta.modified = request.modified.map(crate::proto::Time::pair);
        (meta.mode, meta.group) = (request.mode, request.group);
        done(self.dsi.set_meta(&user, &path, meta).await)
    }

    async fn checksum(
        &self,
        request: Request<ChecksumRequest>,
    ) -> Answer<Response<BoxStream<Digest>>> {
        let request = request.into_inner();
        let ((user, path), algorithm) = (at(request.place)?, algorithm(&request.algorithm)?);
        let (dsi, progress) = (Arc::clone(&self.dsi), Progress::new());
        let counted = progress.clone();
        let (offset, length) = (request.offset, request.length);
        let hashing = Box::pin(self.open.uses.track_future(async move {
            let hashed = dsi.checksum(&user, &path, algorithm, offset, length, &counted);
            hashed.await.map_err(told)
        }));
        let digests = try_unfold(Some(hashing), move |hashing| {
            let progress = progress.clone();
            async move {
                let Some(mut hashing) = hashing else {
                    return Ok(None);
                };
                let ended = tokio::time::timeout(COUNT, &mut hashing).await;
                let (ended, next) = match ended {
                    Ok(digest) => (digest?, None),
                    Err(_) => (String::new(), Some(hashing)),
                };
                let digest = Digest {
                    algorithm: String::new(),
                    digest: ended,
                    bytes: progress.get(),
                };
                Ok(Some((digest, next)))
            }
        });
        Ok(Response::new(Box::pin(digests)))
    }

    async fn symlink(&self, request: Request<SymlinkRequest>) -> Answer<Response<Done>> {
        let request = request.into_inner();
        let (user, link) = at(request.link)?;
        done(self.dsi.symlink(&user, &request.target, &link).await)
    }

    async fn truncate(&self, request: Request<TruncateRequest>) -> Answer<Response<Done>> {
        let request = request.into_inner();
        let (user, path) = at(request.place)?;
        done(self.dsi.truncate(&user, &path, request.length).await)
    }

    async fn stage(&self, request: Request<StageRequest>) -> Answer<Response<Staged>> {
        let request = request.into_inner();
        let (user, path) = at(request.place)?;
        let within = Duration::from_millis(request.within_ms).min(STAGING);
        let staged = self.dsi.stage(&user, &path, &request.task, within).await;
        let here = staged.map_err(told)? == Staging::Here;
        Ok(Response::new(Staged { here }))
    }

    async fn attributes(&self, request: Request<Place>) -> Answer<Response<AttributeList>> {
        let (user, path) = at(Some(request.into_inner()))?;
        let all = self.dsi.attributes(&user, &path).await.map_err(told)?;
        let attributes = all.into_iter().map(Into::into).collect();
        Ok(Response::new(AttributeList { attributes }))
    }

    async fn set_attribute(&self, request: Request<SetAttributeRequest>) -> Answer<Response<Done>> {
        let request = request.into_inner();
        let (user, path) = at(request.place)?;
        let attribute = request.attribute.and_then(attribute);
        let attribute = attribute.ok_or_else(|| malformed("attribute"))?;
        done(self.dsi.set_attribute(&user, &path, attribute).await)
    }

    async fn free(&self, request: Request<Place>) -> Answer<Response<Space>> {
        let (user, path) = at(Some(request.into_inner()))?;
        let bytes = self.dsi.free_space(&user, &path).await.map_err(told)?;
        Ok(Response::new(Space { bytes }))
    }

    async fn held(&self, request: Request<Place>) -> Answer<Response<RangeList>> {
        let (user, path) = at(Some(request.into_inner()))?;
        let held = self.dsi.held(&user, &path).await.map_err(told)?;
        Ok(Response::new((&held).into()))
    }

    async fn partials(&self, request: Request<Place>) -> Answer<Response<PartialList>> {
        let (user, path) = at(Some(request.into_inner()))?;
        let (found, more) = self.dsi.partials(&user, &path).await.map_err(told)?;
        let partials = found.into_iter().map(Into::into).collect();
        Ok(Response::new(PartialList { partials, more }))
    }

    async fn drop_held(&self, request: Request<Place>) -> Answer<Response<Done>> {
        let (user, path) = at(Some(request.into_inner()))?;
        done(self.dsi.drop_held(&user, &path).await)
    }

    async fn checkpoint(&self, request: Request<CheckpointRequest>) -> Answer<Response<Done>> {
        let request = request.into_inner();
        let held = set(request.held)?;
        let values = values(request.groups).map_err(Status::invalid_argument)?;
        let sink = self.open.sink(request.handle).await.map_err(told)?;
        sink.note_groups(values);
        done(sink.checkpoint(&held, request.durable).await)
    }

    async fn groups(&self, request: Request<GroupsRequest>) -> Answer<Response<GroupList>> {
        let request = request.into_inner();
        let held = bytes_of(&set(request.numbers)?).ok_or_else(|| malformed("numbers"))?;
        let sink = self.open.sink(request.handle).await.map_err(told)?;
        let found = sink.groups(&held).await.map_err(told)?;
        let unsupported = || told(Error::new(ErrorKind::Unsupported, "read values of groups"));
        let groups = list(&found.ok_or_else(unsupported)?);
        Ok(Response::new(GroupList { groups }))
    }

    async fn hash(&self, request: Request<HashRequest>) -> Answer<Response<Hashed>> {
        let request = request.into_inner();
        let length = usize::try_from(request.length).unwrap_or(usize::MAX);
        if length > BLOCK {
            return Err(malformed("length"));
        }
        let sink = self.open.sink(request.handle).await.map_err(told)?;
        let read = sink.read_back(request.offset, length).await.map_err(told)?;
        if read.len() != length {
            return Err(told(Error::new(ErrorKind::Incomplete, "hash")));
        }
        let mut part = Tree::of_part();
        part.insert(Piece::of(request.offset, &read));
        let known = part.take_known().to_bytes();
        Ok(Response::new(Hashed { known }))
    }

    async fn share(&self, request: Request<ShareRequest>) -> Answer<Response<Token>> {
        let request = request.into_inner();
        let kept = request.kept.map(|kept| set(Some(kept))).transpose()?;
        let sink = self.open.sink(request.handle).await.map_err(told)?;
        let token = sink.share(kept.as_ref()).await.map_err(told)?;
        Ok(Response::new(Token { token }))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Answer<Response<Block>> {
        self.must_have_bytes()?;
        let request = request.into_inner();
        let (offset, length) = (request.offset, request.length);
        let length = usize::try_from(length).unwrap_or(BLOCK).min(BLOCK);
        let bytes = match &*self.open.file(request.handle).await.map_err(told)? {
            Open::Source(source) => {
                let into = BytesMut::with_capacity(length);
                let read = source.read_at(offset, into).await.map_err(told)?;
                let read = read.freeze();
                read.slice(..read.len().min(length))
            }
            Open::Sink(sink) => sink.read_back(offset, length).await.map_err(told)?,
        };
        Ok(Response::new(Block { bytes }))
    }

    async fn write(&self, request: Request<WriteRequest>) -> Answer<Response<Done>> {
        self.must_have_bytes()?;
        let request = request.into_inner();
        let sink = self.open.sink(request.handle).await.map_err(told)?;
        if !request.will_check.is_empty() {
            sink.will_check(algorithm(&request.will_check)?);
        }
        done(sink.write_at(request.offset, request.bytes).await)
    }

    async fn data(&self, request: Request<DataRequest>) -> Answer<Response<DataReply>> {
        let request = request.into_inner();
        let file = self.open.file(request.handle).await;
        let data = match &*file.map_err(told)? {
            Open::Source(source) => source.data().await,
            Open::Sink(sink) => sink.data().await,
        };
        let Some(data) = data.map_err(told)? else {
            return Ok(Response::new(DataReply::default()));
        };
        let mut ranges = data.iter().filter(|range| range.end() > request.offset);
        let page: RangeSet = ranges.by_ref().take(PAGE).collect();
        Ok(Response::new(DataReply {
            data: Some(RangeList::from(&page)),
            more: ranges.next().is_some(),
        }))
    }

    async fn unchanged(&self, request: Request<Handle>) -> Answer<Response<Done>> {
        let file = self.open.file(request.into_inner().handle).await;
        match &*file.map_err(told)? {
            Open::Source(source) => done(source.unchanged().await),
            Open::Sink(_) => done(Err(Error::new(ErrorKind::Unsupported, "read"))),
        }
    }
}

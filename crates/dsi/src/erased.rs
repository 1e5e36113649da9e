//! `DynDsi`: the boxed twin of `Dsi`, for a backend chosen at run time.

use std::fmt;
use std::future::Future;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};

use crate::dsi::Dsi;
use crate::error::Result;
use crate::file::{Finish, Listing, Sink, Source};
use crate::types::{
    Capabilities, ChecksumAlgorithm, Create, DsiPath, Meta, Progress, Stat, User, WriteModel,
};

/// A boxed future that borrows for `'a`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The boxed future of a backend's operation.
pub type BoxResult<'a, T> = BoxFuture<'a, Result<T>>;

/// Any [`Dsi`] behind a pointer; `Arc<dyn DynDsi>` is itself a [`Dsi`].
///
/// Every method calls its namesake without `_dyn`, at the cost of one allocation.
#[expect(missing_docs, reason = "each method is its namesake in `Dsi`")]
pub trait DynDsi: Send + Sync + 'static {
    fn capabilities_dyn(&self) -> Capabilities;
    fn stat_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, Stat>;
    fn list_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxListing>;
    fn read_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxSource>;
    fn write_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        how: Create,
    ) -> BoxResult<'a, BoxSink>;
    fn held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, RangeSet>;
    fn drop_held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn make_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn remove_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn remove_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn remove_tree_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()>;
    fn rename_dyn<'a>(
        &'a self,
        user: &'a User,
        from: &'a DsiPath,
        to: &'a DsiPath,
    ) -> BoxResult<'a, ()>;
    fn symlink_dyn<'a>(
        &'a self,
        user: &'a User,
        target: &'a [u8],
        link: &'a DsiPath,
    ) -> BoxResult<'a, ()>;
    fn set_meta_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        meta: Meta,
    ) -> BoxResult<'a, ()>;
    fn truncate_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        length: u64,
    ) -> BoxResult<'a, ()>;
    fn checksum_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &'a Progress,
    ) -> BoxResult<'a, String>;
}

impl<D: Dsi> DynDsi for D {
    fn capabilities_dyn(&self) -> Capabilities {
        self.capabilities()
    }

    fn stat_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, Stat> {
        Box::pin(self.stat(user, path))
    }

    fn list_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxListing> {
        Box::pin(async move { Ok(BoxListing(Box::new(self.list(user, path).await?))) })
    }

    fn read_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, BoxSource> {
        Box::pin(async move { Ok(BoxSource(Box::new(self.read(user, path).await?))) })
    }

    fn write_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        how: Create,
    ) -> BoxResult<'a, BoxSink> {
        Box::pin(async move { Ok(BoxSink(Box::new(self.write(user, path, how).await?))) })
    }

    fn held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, RangeSet> {
        Box::pin(self.held(user, path))
    }

    fn drop_held_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.drop_held(user, path))
    }

    fn make_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.make_dir(user, path))
    }

    fn remove_dir_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.remove_dir(user, path))
    }

    fn remove_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.remove(user, path))
    }

    fn remove_tree_dyn<'a>(&'a self, user: &'a User, path: &'a DsiPath) -> BoxResult<'a, ()> {
        Box::pin(self.remove_tree(user, path))
    }

    fn rename_dyn<'a>(
        &'a self,
        user: &'a User,
        from: &'a DsiPath,
        to: &'a DsiPath,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.rename(user, from, to))
    }

    fn symlink_dyn<'a>(
        &'a self,
        user: &'a User,
        target: &'a [u8],
        link: &'a DsiPath,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.symlink(user, target, link))
    }

    fn set_meta_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        meta: Meta,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.set_meta(user, path, meta))
    }

    fn truncate_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        length: u64,
    ) -> BoxResult<'a, ()> {
        Box::pin(self.truncate(user, path, length))
    }

    fn checksum_dyn<'a>(
        &'a self,
        user: &'a User,
        path: &'a DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &'a Progress,
    ) -> BoxResult<'a, String> {
        Box::pin(self.checksum(user, path, algorithm, offset, length, progress))
    }
}

impl Dsi for Arc<dyn DynDsi> {
    type Source = BoxSource;
    type Sink = BoxSink;
    type Listing = BoxListing;

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities_dyn()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        (**self).stat_dyn(user, path).await
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<BoxListing> {
        (**self).list_dyn(user, path).await
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<BoxSource> {
        (**self).read_dyn(user, path).await
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<BoxSink> {
        (**self).write_dyn(user, path, how).await
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        (**self).held_dyn(user, path).await
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).drop_held_dyn(user, path).await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).make_dir_dyn(user, path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).remove_dir_dyn(user, path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).remove_dyn(user, path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        (**self).remove_tree_dyn(user, path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        (**self).rename_dyn(user, from, to).await
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        (**self).symlink_dyn(user, target, link).await
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        (**self).set_meta_dyn(user, path, meta).await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        (**self).truncate_dyn(user, path, length).await
    }

    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        (**self)
            .checksum_dyn(user, path, algorithm, offset, length, progress)
            .await
    }
}

/// Any [`Source`] in a box.
pub struct BoxSource(Box<dyn DynSource>);

/// Any [`Sink`] in a box.
pub struct BoxSink(Box<dyn DynSink>);

/// Any [`Listing`] in a box.
pub struct BoxListing(Box<dyn DynListing>);

trait DynSource: Send + Sync {
    fn size_dyn(&self) -> u64;
    fn read_at_dyn(&self, offset: u64, into: BytesMut) -> BoxResult<'_, BytesMut>;
    fn descriptor_dyn(&self) -> Option<BorrowedFd<'_>>;
    fn data_dyn(&self) -> BoxResult<'_, Option<RangeSet>>;
    fn unchanged_dyn(&self) -> BoxResult<'_, ()>;
}

impl<S: Source> DynSource for S {
    fn size_dyn(&self) -> u64 {
        self.size()
    }

    fn read_at_dyn(&self, offset: u64, into: BytesMut) -> BoxResult<'_, BytesMut> {
        Box::pin(self.read_at(offset, into))
    }

    fn descriptor_dyn(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor()
    }

    fn data_dyn(&self) -> BoxResult<'_, Option<RangeSet>> {
        Box::pin(self.data())
    }

    fn unchanged_dyn(&self) -> BoxResult<'_, ()> {
        Box::pin(self.unchanged())
    }
}

impl BoxSource {
    /// Boxes `source`.
    pub fn new(source: impl Source) -> Self {
        Self(Box::new(source))
    }
}

impl Source for BoxSource {
    fn size(&self) -> u64 {
        self.0.size_dyn()
    }

    fn read_at(
        &self,
        offset: u64,
        into: BytesMut,
    ) -> impl Future<Output = Result<BytesMut>> + Send {
        self.0.read_at_dyn(offset, into)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor_dyn()
    }

    fn data(&self) -> impl Future<Output = Result<Option<RangeSet>>> + Send {
        self.0.data_dyn()
    }

    fn unchanged(&self) -> impl Future<Output = Result<()>> + Send {
        self.0.unchanged_dyn()
    }
}

trait DynSink: Send + Sync {
    fn write_at_dyn(&self, offset: u64, data: Bytes) -> BoxResult<'_, ()>;
    fn checkpoint_dyn<'a>(&'a self, held: &'a RangeSet, durable: bool) -> BoxResult<'a, ()>;
    fn held_dyn(&self) -> RangeSet;
    fn order_dyn(&self) -> WriteModel;
    fn read_back_dyn(&self, offset: u64, len: usize) -> BoxResult<'_, Bytes>;
    fn finish_dyn(self: Box<Self>, done: Finish) -> BoxResult<'static, Stat>;
    fn takes_pipes_dyn(&self) -> bool;
    fn take_pipe_dyn(&self, pipe: Arc<OwnedFd>, offset: u64, len: usize) -> BoxResult<'_, ()>;
}

impl<S: Sink> DynSink for S {
    fn write_at_dyn(&self, offset: u64, data: Bytes) -> BoxResult<'_, ()> {
        Box::pin(self.write_at(offset, data))
    }

    fn checkpoint_dyn<'a>(&'a self, held: &'a RangeSet, durable: bool) -> BoxResult<'a, ()> {
        Box::pin(self.checkpoint(held, durable))
    }

    fn held_dyn(&self) -> RangeSet {
        self.held()
    }

    fn order_dyn(&self) -> WriteModel {
        self.order()
    }

    fn read_back_dyn(&self, offset: u64, len: usize) -> BoxResult<'_, Bytes> {
        Box::pin(self.read_back(offset, len))
    }

    fn finish_dyn(self: Box<Self>, done: Finish) -> BoxResult<'static, Stat> {
        Box::pin(async move { (*self).finish(done).await })
    }

    fn takes_pipes_dyn(&self) -> bool {
        self.takes_pipes()
    }

    fn take_pipe_dyn(&self, pipe: Arc<OwnedFd>, offset: u64, len: usize) -> BoxResult<'_, ()> {
        Box::pin(self.take_pipe(pipe, offset, len))
    }
}

impl BoxSink {
    /// Boxes `sink`.
    pub fn new(sink: impl Sink) -> Self {
        Self(Box::new(sink))
    }
}

impl Sink for BoxSink {
    fn write_at(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<()>> + Send {
        self.0.write_at_dyn(offset, data)
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        self.0.checkpoint_dyn(held, durable).await
    }

    fn held(&self) -> RangeSet {
        self.0.held_dyn()
    }

    fn order(&self) -> WriteModel {
        self.0.order_dyn()
    }

    fn read_back(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes>> + Send {
        self.0.read_back_dyn(offset, len)
    }

    fn finish(self, done: Finish) -> impl Future<Output = Result<Stat>> + Send {
        self.0.finish_dyn(done)
    }

    fn takes_pipes(&self) -> bool {
        self.0.takes_pipes_dyn()
    }

    fn take_pipe(
        &self,
        pipe: Arc<OwnedFd>,
        offset: u64,
        len: usize,
    ) -> impl Future<Output = Result<()>> + Send {
        self.0.take_pipe_dyn(pipe, offset, len)
    }
}

trait DynListing: Send {
    fn next_dyn(&mut self) -> BoxResult<'_, Vec<Stat>>;
    fn position_dyn(&self) -> Option<u64>;
    fn seek_dyn(&mut self, position: u64) -> BoxResult<'_, ()>;
}

impl<L: Listing> DynListing for L {
    fn next_dyn(&mut self) -> BoxResult<'_, Vec<Stat>> {
        Box::pin(self.next())
    }

    fn position_dyn(&self) -> Option<u64> {
        self.position()
    }

    fn seek_dyn(&mut self, position: u64) -> BoxResult<'_, ()> {
        Box::pin(self.seek(position))
    }
}

impl BoxListing {
    /// Boxes `listing`.
    pub fn new(listing: impl Listing) -> Self {
        Self(Box::new(listing))
    }
}

impl Listing for BoxListing {
    fn next(&mut self) -> impl Future<Output = Result<Vec<Stat>>> + Send {
        self.0.next_dyn()
    }

    fn position(&self) -> Option<u64> {
        self.0.position_dyn()
    }

    fn seek(&mut self, position: u64) -> impl Future<Output = Result<()>> + Send {
        self.0.seek_dyn(position)
    }
}

impl fmt::Debug for dyn DynDsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynDsi({})", self.capabilities_dyn().name)
    }
}

impl fmt::Debug for BoxSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxSource")
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BoxSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxSink")
            .field("order", &self.order())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BoxListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxListing").finish_non_exhaustive()
    }
}

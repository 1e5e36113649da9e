//! `BoxSource`, `BoxSink` and `BoxListing`: the boxed twins of open objects.

use std::fmt;
use std::future::Future;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};

use super::BoxResult;
use crate::capability::{ChecksumAlgorithm, WriteModel};
use crate::error::Result;
use crate::file::{Finish, GroupValue, Listing, Sink, Source, Version};
use crate::types::Stat;

/// Any [`Source`] in a box.
pub struct BoxSource(Box<dyn DynSource>);

/// Any [`Sink`] in a box.
pub struct BoxSink(Box<dyn DynSink>);

/// Any [`Listing`] in a box.
pub struct BoxListing(Box<dyn DynListing>);

trait DynSource: Send + Sync {
    fn size_dyn(&self) -> u64;
    fn read_at_dyn(&self, offset: u64, into: BytesMut) -> BoxResult<'_, BytesMut>;
    fn lends_dyn(&self) -> bool;
    fn lend_dyn(&self, offset: u64, len: u64) -> BoxResult<'_, Bytes>;
    fn descriptor_dyn(&self) -> Option<BorrowedFd<'_>>;
    fn data_dyn(&self) -> BoxResult<'_, Option<RangeSet>>;
    fn version_dyn(&self) -> Option<Version>;
    fn unchanged_dyn(&self) -> BoxResult<'_, ()>;
}

impl<S: Source> DynSource for S {
    fn size_dyn(&self) -> u64 {
        self.size()
    }

    fn read_at_dyn(&self, offset: u64, into: BytesMut) -> BoxResult<'_, BytesMut> {
        Box::pin(self.read_at(offset, into))
    }

    fn lends_dyn(&self) -> bool {
        self.lends()
    }

    fn lend_dyn(&self, offset: u64, len: u64) -> BoxResult<'_, Bytes> {
        Box::pin(self.lend(offset, len))
    }

    fn descriptor_dyn(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor()
    }

    fn data_dyn(&self) -> BoxResult<'_, Option<RangeSet>> {
        Box::pin(self.data())
    }

    fn version_dyn(&self) -> Option<Version> {
        self.version()
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

    fn lends(&self) -> bool {
        self.0.lends_dyn()
    }

    fn lend(&self, offset: u64, len: u64) -> impl Future<Output = Result<Bytes>> + Send {
        self.0.lend_dyn(offset, len)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor_dyn()
    }

    fn data(&self) -> impl Future<Output = Result<Option<RangeSet>>> + Send {
        self.0.data_dyn()
    }

    fn version(&self) -> Option<Version> {
        self.0.version_dyn()
    }

    fn unchanged(&self) -> impl Future<Output = Result<()>> + Send {
        self.0.unchanged_dyn()
    }
}

trait DynSink: Send + Sync {
    fn write_at_dyn(&self, offset: u64, data: Bytes) -> BoxResult<'_, ()>;
    fn checkpoint_dyn<'a>(&'a self, held: &'a RangeSet, durable: bool) -> BoxResult<'a, ()>;
    fn held_dyn(&self) -> RangeSet;
    fn groups_dyn<'a>(&'a self, held: &'a RangeSet) -> BoxResult<'a, Option<Vec<GroupValue>>>;
    fn note_groups_dyn(&self, values: Vec<GroupValue>);
    fn order_dyn(&self) -> WriteModel;
    fn read_back_dyn(&self, offset: u64, len: usize) -> BoxResult<'_, Bytes>;
    fn hash_back_dyn(&self, offset: u64, len: usize) -> BoxResult<'_, Vec<u8>>;
    fn data_dyn(&self) -> BoxResult<'_, Option<RangeSet>>;
    fn share_dyn<'a>(&'a self, kept: Option<&'a RangeSet>) -> BoxResult<'a, Vec<u8>>;
    fn will_check_dyn(&self, algorithm: ChecksumAlgorithm);
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

    fn groups_dyn<'a>(&'a self, held: &'a RangeSet) -> BoxResult<'a, Option<Vec<GroupValue>>> {
        Box::pin(self.groups(held))
    }

    fn note_groups_dyn(&self, values: Vec<GroupValue>) {
        self.note_groups(values);
    }

    fn order_dyn(&self) -> WriteModel {
        self.order()
    }

    fn read_back_dyn(&self, offset: u64, len: usize) -> BoxResult<'_, Bytes> {
        Box::pin(self.read_back(offset, len))
    }

    fn hash_back_dyn(&self, offset: u64, len: usize) -> BoxResult<'_, Vec<u8>> {
        Box::pin(self.hash_back(offset, len))
    }

    fn data_dyn(&self) -> BoxResult<'_, Option<RangeSet>> {
        Box::pin(self.data())
    }

    fn share_dyn<'a>(&'a self, kept: Option<&'a RangeSet>) -> BoxResult<'a, Vec<u8>> {
        Box::pin(self.share(kept))
    }

    fn will_check_dyn(&self, algorithm: ChecksumAlgorithm) {
        self.will_check(algorithm);
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

    async fn groups(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        self.0.groups_dyn(held).await
    }

    fn note_groups(&self, values: Vec<GroupValue>) {
        self.0.note_groups_dyn(values);
    }

    fn order(&self) -> WriteModel {
        self.0.order_dyn()
    }

    fn read_back(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes>> + Send {
        self.0.read_back_dyn(offset, len)
    }

    fn hash_back(&self, offset: u64, len: usize) -> impl Future<Output = Result<Vec<u8>>> + Send {
        self.0.hash_back_dyn(offset, len)
    }

    fn data(&self) -> impl Future<Output = Result<Option<RangeSet>>> + Send {
        self.0.data_dyn()
    }

    async fn share(&self, kept: Option<&RangeSet>) -> Result<Vec<u8>> {
        self.0.share_dyn(kept).await
    }

    fn will_check(&self, algorithm: ChecksumAlgorithm) {
        self.0.will_check_dyn(algorithm);
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

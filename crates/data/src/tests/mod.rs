//! Test doubles: files in memory and on disk, and channels over loopback TCP.
#![expect(clippy::cast_possible_truncation, reason = "test files are small")]

mod account;
mod extended;
mod flushing;
mod held_back;
mod hostile;
mod lent;
mod listeners;
mod listing;
mod parts;
mod repair;
mod splice;
mod stream;
mod striped;
mod tagged;
mod trailed;
mod widening;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use digest_tree::{Piece, Tree};
use ftp_wire::command::{Mode, Type};
use gridftp_dsi::{
    Error as StorageError, ErrorKind as StorageKind, Finish, GroupValue, Sink, Source, Stat,
    WriteModel,
};
use tokio::net::TcpStream;
use xio_core::{DynStack, Pool, Target};
use xio_tcp::Tcp;

use crate::{
    DataChannel, Options, Peers, ReceivePlan, Received, Result, SendPlan, Sent, Stage, Watch,
};

/// Pseudo-random bytes, so that a misplaced block is noticed.
pub(super) fn bytes(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    })
    .flatten()
    .take(len)
    .collect()
}

/// A file in memory, without a descriptor.
#[derive(Debug)]
pub(super) struct Memory(pub(super) Vec<u8>);

impl Source for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut, StorageError> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let room = into.capacity() - into.len();
        into.extend_from_slice(&rest[..rest.len().min(room)]);
        Ok(into)
    }
}

/// A file on disk, with a descriptor.
#[derive(Debug)]
pub(super) struct Disk(File);

impl Disk {
    pub(super) fn new(content: &[u8]) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(content, 0).unwrap();
        Self(file)
    }

    pub(super) fn over(file: File) -> Self {
        Self(file)
    }

    /// A file of zeros that takes no space.
    pub(super) fn zeros(len: u64) -> Self {
        let disk = Self::new(&[]);
        disk.cut(len);
        disk
    }

    pub(super) fn cut(&self, len: u64) {
        self.0.set_len(len).unwrap();
    }
}

impl Source for Disk {
    fn size(&self) -> u64 {
        self.0.metadata().unwrap().len()
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut, StorageError> {
        let mut buf = vec![0; into.capacity() - into.len()];
        let n = self.0.read_at(&mut buf, offset).unwrap();
        into.extend_from_slice(&buf[..n]);
        Ok(into)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// A sink in memory, which may be slow, require order, or fail.
#[derive(Debug, Default)]
pub(super) struct Kept {
    data: Mutex<Vec<u8>>,
    /// Fails writes from this offset on.
    pub(super) full_at: Option<u64>,
    pub(super) sequential: bool,
    /// Takes whole parts of this many bytes, and a shorter last one.
    pub(super) part: Option<u64>,
    /// Bytes of an earlier attempt.
    pub(super) earlier: RangeSet,
    /// Times each write yields first.
    pub(super) slow: u32,
    /// Never ends a write.
    pub(super) hangs: bool,
    /// Bytes being read back.
    reading: AtomicUsize,
    /// Most of them at a time.
    pub(super) most_read: AtomicUsize,
    /// All bytes read back.
    pub(super) all_read: AtomicUsize,
    /// Values of groups, where it records such.
    pub(super) groups: Option<Vec<GroupValue>>,
    /// Bytes behind the values of hashed bytes, where it hashes them by itself.
    pub(super) hashes: Option<&'static [u8]>,
}

impl Kept {
    pub(super) fn data(&self) -> Vec<u8> {
        self.data.lock().unwrap().clone()
    }
}

impl Sink for Kept {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), StorageError> {
        for _ in 0..self.slow {
            tokio::task::yield_now().await;
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        let end = offset + data.len() as u64;
        if self.full_at.is_some_and(|full| end > full) {
            return Err(StorageError::new(StorageKind::NoSpace, "write"));
        }
        let mut all = self.data.lock().unwrap();
        if let Some(part) = self.part {
            assert_eq!(offset % part, 0, "not the start of a part");
            let last = all.len() as u64 <= end;
            assert!(data.len() as u64 == part || last, "{offset}: a short part");
        }
        if self.sequential {
            assert_eq!(offset, all.len() as u64, "written out of order");
        }
        if all.len() < end as usize {
            all.resize(end as usize, 0);
        }
        all[offset as usize..end as usize].copy_from_slice(&data);
        Ok(())
    }

    async fn checkpoint(&self, _: &RangeSet, _: bool) -> Result<(), StorageError> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        self.earlier.clone()
    }

    async fn groups(&self, _: &RangeSet) -> Result<Option<Vec<GroupValue>>, StorageError> {
        Ok(self.groups.clone())
    }

    fn order(&self) -> WriteModel {
        match self.part {
            Some(part) => WriteModel::Parts(part),
            None if self.sequential => WriteModel::Sequential,
            None => WriteModel::Random,
        }
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes, StorageError> {
        let reading = self.reading.fetch_add(len, Ordering::Relaxed) + len;
        self.most_read.fetch_max(reading, Ordering::Relaxed);
        for _ in 0..self.slow {
            tokio::task::yield_now().await;
        }
        self.reading.fetch_sub(len, Ordering::Relaxed);
        self.all_read.fetch_add(len, Ordering::Relaxed);
        let from = offset as usize;
        Ok(Bytes::copy_from_slice(&self.data()[from..from + len]))
    }

    async fn hash_back(&self, offset: u64, len: usize) -> Result<Vec<u8>, StorageError> {
        let Some(wrong) = self.hashes else {
            return Err(StorageError::new(StorageKind::Unsupported, "hash"));
        };
        let (mut part, from) = (Tree::of_part(), offset as usize);
        part.insert(Piece::of(offset, &self.data()[from..from + len]));
        Ok([part.take_known().to_bytes(), wrong.to_vec()].concat())
    }

    async fn finish(self, _: Finish) -> Result<Stat, StorageError> {
        Err(StorageError::new(StorageKind::Unsupported, "finish"))
    }
}

pub(super) fn tcp() -> DynStack {
    DynStack::new(Tcp::default(), "tcp")
}

pub(super) fn here() -> Target {
    Target::host("127.0.0.1", 0)
}

/// A channel with small blocks, so that small files have many, and long deadlines.
pub(super) fn channel() -> DataChannel {
    with_pool(Pool::new(64 << 10, 16))
}

pub(super) fn with_pool(pool: Pool) -> DataChannel {
    let options = Options {
        open_within: Duration::from_secs(20),
        stall: Duration::from_secs(40),
        ..Options::default()
    };
    DataChannel::new(options, pool)
}

/// A receiving channel, and a sending one that will connect to it.
pub(super) async fn pair() -> (DataChannel, DataChannel) {
    let (mut to, mut from) = (channel(), channel());
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    from.connect_to(tcp(), vec![address]);
    (from, to)
}

/// A receiving channel, and bare connections to it.
pub(super) async fn bare(connections: usize) -> (DataChannel, Vec<TcpStream>) {
    let mut to = channel();
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..connections {
        streams.push(TcpStream::connect(address).await.unwrap());
    }
    (to, streams)
}

pub(super) fn whole(mode: Mode, len: u64) -> SendPlan {
    SendPlan::new(mode, Type::Image, RangeSet::up_to(len))
}

pub(super) fn incoming(mode: Mode) -> ReceivePlan {
    ReceivePlan::new(mode, Type::Image)
}

/// Moves one file from one channel to the other.
pub(super) async fn move_file<S: Source>(
    from: &mut DataChannel,
    to: &mut DataChannel,
    source: &S,
    plan: &SendPlan,
    sink: &Kept,
) -> (Sent, Received) {
    let (sending, receiving) = (Watch::new(), Watch::new());
    let taken = incoming(plan.mode);
    tokio::try_join!(
        from.send(source, plan, &sending),
        to.receive(sink, &taken, &receiving)
    )
    .unwrap()
}

/// A slow storage that drops its bytes; the offsets and lengths of the writes.
#[derive(Default)]
pub(super) struct Writes(pub(super) Mutex<Vec<(u64, usize)>>);

impl Sink for Writes {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), StorageError> {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.0.lock().unwrap().push((offset, data.len()));
        Ok(())
    }

    async fn checkpoint(&self, _: &RangeSet, _: bool) -> Result<(), StorageError> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    async fn finish(self, _: Finish) -> Result<Stat, StorageError> {
        Err(StorageError::new(StorageKind::Unsupported, "finish"))
    }
}

#[test]
fn transfer_futures_are_send_and_small() {
    fn sendable<T: Send>(_: &T) {}
    fn is_sync<T: Send + Sync>() {}
    is_sync::<Watch>();
    let (source, sink, watch) = (Memory(Vec::new()), Kept::default(), Watch::new());
    let (send, receive) = (whole(Mode::Extended, 0), incoming(Mode::Extended));
    let mut one = channel();
    sendable(&one.send(&source, &send, &watch));
    sendable(&one.receive(&sink, &receive, &watch));
    let size = size_of_val(&one.send(&source, &send, &watch));
    assert!(size < 4096, "a waiting sender takes {size} bytes");
    let size = size_of_val(&one.receive(&sink, &receive, &watch));
    assert!(size < 4096, "a waiting receiver takes {size} bytes");
}

//! Large payload goes through a pipe where storage takes one, and arrives the same.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::ErrorKind;

/// A file that takes pipes, up to a size.
struct Piped {
    file: File,
    full_at: u64,
    /// Bytes that came by pipe.
    piped: AtomicU64,
}

impl Piped {
    fn new() -> Self {
        Self {
            file: tempfile::tempfile().unwrap(),
            full_at: u64::MAX,
            piped: AtomicU64::new(0),
        }
    }

    fn put(&self, offset: u64, data: &[u8]) -> Result<(), StorageError> {
        if offset + data.len() as u64 > self.full_at {
            return Err(StorageError::new(StorageKind::NoSpace, "write"));
        }
        self.file.write_all_at(data, offset).unwrap();
        Ok(())
    }

    fn content(&self) -> Vec<u8> {
        let mut all = vec![0; self.file.metadata().unwrap().len() as usize];
        self.file.read_exact_at(&mut all, 0).unwrap();
        all
    }
}

impl Sink for Piped {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), StorageError> {
        self.put(offset, &data)
    }

    async fn checkpoint(&self, _: &RangeSet, _: bool) -> Result<(), StorageError> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    fn takes_pipes(&self) -> bool {
        true
    }

    fn take_pipe(
        &self,
        pipe: BorrowedFd<'_>,
        mut offset: u64,
        len: usize,
    ) -> Result<(), StorageError> {
        let mut data = vec![0; len];
        let mut got = 0;
        while got < len {
            got += rustix::io::read(pipe, &mut data[got..]).unwrap();
        }
        self.put(offset, &data)?;
        offset += len as u64;
        assert!(offset <= self.full_at);
        self.piped.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn finish(self, _: Finish) -> Result<Stat, StorageError> {
        Err(StorageError::new(StorageKind::Unsupported, "finish"))
    }
}

const SIZE: usize = 9_000_001;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_modes_bring_large_files_through_pipes() {
    let content = bytes(SIZE);
    let source = Disk::new(&content);
    for (mode, streams, base) in [
        (Mode::Stream, 1, 0),
        (Mode::Extended, 1, 0),
        (Mode::Extended, 4, 12_345),
    ] {
        let (mut from, mut to) = pair().await;
        let sink = Piped::new();
        let plan = whole(mode, SIZE as u64).parallelism(streams);
        let taken = incoming(mode).base(base);
        let (sending, receiving) = (Watch::new(), Watch::new());
        let (_, got) = tokio::try_join!(
            from.send(&source, &plan, &sending),
            to.receive(&sink, &taken, &receiving)
        )
        .unwrap();
        assert_eq!(got.ranges, RangeSet::up_to(SIZE as u64));
        assert_eq!(got.bytes, SIZE as u64);
        assert!(
            sink.content()[base as usize..] == content,
            "{mode:?} by {streams}"
        );
        let piped = sink.piped.load(Ordering::Relaxed);
        assert!(
            piped > SIZE as u64 / 2,
            "{mode:?}: only {piped} bytes by pipe"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_that_is_full_in_mid_pipe_is_to_blame_and_claims_nothing_more() {
    let source = Disk::new(&bytes(SIZE));
    for mode in [Mode::Stream, Mode::Extended] {
        let (mut from, mut to) = pair().await;
        let sink = Piped {
            full_at: 5_000_000,
            ..Piped::new()
        };
        let plan = whole(mode, SIZE as u64);
        let taken = incoming(mode);
        let (sending, receiving) = (Watch::new(), Watch::new());
        let (_, got) = tokio::join!(
            from.send(&source, &plan, &sending),
            to.receive(&sink, &taken, &receiving)
        );
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Storage);
        assert!(receiving.received().end() <= 5_000_000);
        assert_eq!(receiving.received().total(), receiving.bytes());
    }
}

#[tokio::test]
async fn a_runtime_of_one_thread_does_without() {
    let content = bytes(SIZE);
    let (mut from, mut to) = pair().await;
    let (source, sink) = (Memory(content.clone()), Piped::new());
    let (sending, receiving) = (Watch::new(), Watch::new());
    let plan = whole(Mode::Stream, SIZE as u64);
    let taken = incoming(Mode::Stream);
    tokio::try_join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &taken, &receiving)
    )
    .unwrap();
    assert!(sink.content() == content);
    assert_eq!(sink.piped.load(Ordering::Relaxed), 0);
}

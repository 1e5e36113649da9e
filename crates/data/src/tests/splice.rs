//! Large payload goes through a pipe if the storage takes one, and arrives unchanged.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mode_e::Header;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::{Descriptors, ErrorKind, Wait};

/// A file that takes pipes up to a size.
struct Piped {
    file: File,
    full_at: u64,
    /// Bytes received by pipe.
    piped: AtomicU64,
    /// Times each pipe yields first.
    slow: u32,
    /// Never ends the write of a pipe.
    hangs: bool,
    /// The pipe of the write that hangs, as work on another thread keeps it.
    held: Mutex<Option<Arc<OwnedFd>>>,
}

impl Piped {
    fn new() -> Self {
        Self {
            file: tempfile::tempfile().unwrap(),
            full_at: u64::MAX,
            piped: AtomicU64::new(0),
            slow: 0,
            hangs: false,
            held: Mutex::default(),
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

    async fn take_pipe(
        &self,
        pipe: Arc<OwnedFd>,
        mut offset: u64,
        len: usize,
    ) -> Result<(), StorageError> {
        for _ in 0..self.slow {
            tokio::task::yield_now().await;
        }
        if self.hangs {
            *self.held.lock().unwrap() = Some(pipe);
            return std::future::pending().await;
        }
        let waiting = rustix::io::ioctl_fionread(&pipe).unwrap();
        assert_eq!(waiting, len as u64, "the pipe holds something else");
        let mut data = vec![0; len];
        let mut got = 0;
        while got < len {
            got += rustix::io::read(&pipe, &mut data[got..]).unwrap();
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
async fn both_modes_move_large_files_through_pipes() {
    let content = bytes(SIZE);
    let source = Disk::new(&content);
    for (mode, streams, base, slow) in [
        (Mode::Stream, 1, 0, 0),
        (Mode::Extended, 1, 0, 0),
        (Mode::Extended, 4, 12_345, 0),
        (Mode::Stream, 1, 0, 3),
        (Mode::Extended, 4, 0, 3),
    ] {
        let (mut from, mut to) = pair().await;
        let sink = Piped {
            slow,
            ..Piped::new()
        };
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
async fn storage_that_is_full_in_mid_pipe_is_at_fault_and_claims_nothing_more() {
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

/// A receiving channel, and a connection that sends `content` of a block of `announced` bytes.
async fn cut_block(announced: u64, content: &[u8]) -> (DataChannel, TcpStream) {
    let (to, mut streams) = bare(1).await;
    let mut stream = streams.pop().unwrap();
    let header = Header::data(0, announced).to_bytes();
    stream.write_all(&header).await.unwrap();
    stream.write_all(content).await.unwrap();
    (to, stream)
}

#[tokio::test(start_paused = true)]
async fn storage_that_hangs_in_mid_pipe_is_reported_and_nothing_is_claimed() {
    let (mut to, _open) = cut_block(1 << 20, &bytes(10_000)).await;
    let sink = Piped {
        hangs: true,
        ..Piped::new()
    };
    let (plan, watch) = (incoming(Mode::Extended), Watch::new());
    let receiving = to.receive(&sink, &plan, &watch);
    let ended = tokio::time::timeout(Duration::from_secs(3600), receiving).await;
    let error = ended.expect("no deadline holds").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Storage), "{error}");
    assert!(watch.received().is_empty() && watch.bytes() == 0);
}

#[tokio::test]
async fn a_peer_that_ends_in_mid_payload_leaves_a_partial_file() {
    let content = bytes(10_000);
    let (mut to, mut stream) = cut_block(1 << 20, &content).await;
    stream.shutdown().await.unwrap();
    let sink = Piped {
        slow: 1,
        ..Piped::new()
    };
    let (plan, watch) = (incoming(Mode::Extended), Watch::new());
    let error = to.receive(&sink, &plan, &watch).await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Storage, "{error}");
    let got = usize::try_from(watch.received().total()).unwrap();
    assert!(got > 0 && watch.bytes() == got as u64);
    assert!(sink.content()[..got] == content[..got]);
}

#[tokio::test]
async fn one_thread_is_enough() {
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
    assert!(sink.piped.load(Ordering::Relaxed) > SIZE as u64 / 2);
}

/// The write of a dropped transfer keeps its pipe open.
#[tokio::test]
async fn a_pipe_counts_as_long_as_storage_keeps_it() {
    let (mut from, to) = pair().await;
    let all = Descriptors::new(100);
    let mut to = to.with_descriptors(all.clone());
    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
    from.connect_to(tcp(), vec![address]);
    let source = Disk::new(&bytes(SIZE));
    let sink = Piped {
        hangs: true,
        ..Piped::new()
    };
    let (plan, taken) = (whole(Mode::Stream, SIZE as u64), incoming(Mode::Stream));
    let (sending, receiving) = (Watch::new(), Watch::new());
    tokio::select! {
        _ = from.send(&source, &plan, &sending) => panic!("it is not received"),
        _ = to.receive(&sink, &taken, &receiving) => panic!("it is not written"),
        () = async {
            while sink.held.lock().unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    drop(to);
    assert_eq!(all.take(99).unwrap_err().kind(), ErrorKind::Full);
    all.take(98).unwrap();
    sink.held.lock().unwrap().take();
    all.take(100).unwrap();
}

//! Storage that does not answer leaves threads for other operations.

use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use gridftp_dsi::{
    ChecksumAlgorithm, Create, Dsi as _, DsiPath, Finish, Progress, Sink as _, User,
};
use gridftp_dsi_posix::{FileSink, Posix};
use rustix::fs::{FileType, Mode, OFlags};

/// A FIFO without a reader blocks a process that opens it for writing.
#[tokio::test]
async fn a_fifo_without_a_reader_blocks_only_its_own_writer() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let whole = Create::Whole { size: None };
    let opening = tokio::spawn({
        let fifo = fifo.clone();
        async move { FileSink::create(&fifo, whole, false).await }
    });
    // The runtime has this thread only: if opening blocked it, nothing below would run.
    tokio::task::yield_now().await;
    let file = dir.path().join("file");
    FileSink::create(&file, whole, false).await.unwrap();
    assert!(!opening.is_finished());
    let _reader = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(&fifo)
        .unwrap();
    let opened = tokio::time::timeout(Duration::from_secs(60), opening).await;
    opened.unwrap().unwrap().unwrap();
}

/// Size of a hole whose digest does not end during the test.
const ENDLESS: u64 = 1 << 43;

/// Digests use one thread a core, and a small one gets its turn among large ones.
#[test]
fn digests_without_end_stop_neither_calls_nor_other_digests() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(cores + 4)
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let large = std::fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(ENDLESS).unwrap();
    std::fs::write(dir.path().join("small"), "123456789").unwrap();
    let posix = Posix::open(dir.path()).unwrap();
    let user = User::new("ann", DsiPath::root(), true);
    let digest = |name: &str, progress: Progress| {
        let (posix, user) = (posix.clone(), user.clone());
        let path = DsiPath::new(format!("/{name}").as_bytes()).unwrap();
        let algorithm = ChecksumAlgorithm::Adler32;
        async move {
            posix
                .checksum(&user, &path, algorithm, 0, None, &progress)
                .await
        }
    };
    let progress = Progress::new();
    let mut endless: Vec<_> = (0..2 * cores + 8)
        .map(|_| runtime.spawn(digest("large", progress.clone())))
        .collect();
    // The same for uploads with a digest to check.
    for _ in 0..cores + 8 {
        let large = dir.path().join("large");
        endless.push(runtime.spawn(async move {
            let sink = FileSink::create(&large, Create::InPlace { truncate: false }, false).await?;
            let done = Finish::as_is().with_checksum(ChecksumAlgorithm::Adler32, "0");
            sink.finish(done).await.map(|_| String::new())
        }));
    }
    let patience = Duration::from_secs(60);
    runtime.block_on(async {
        while progress.get() == 0 {
            tokio::task::yield_now().await;
        }
        let (from, to) = (DsiPath::new(b"/small"), DsiPath::new(b"/moved"));
        let renamed = posix.rename(&user, from.as_ref().unwrap(), to.as_ref().unwrap());
        let renamed = tokio::time::timeout(patience, renamed).await;
        renamed.expect("calls have their own threads").unwrap();
        let small = tokio::time::timeout(patience, digest("moved", Progress::new())).await;
        let small = small.expect("digests take turns").unwrap();
        assert_eq!(small, "091e01de");
        // Dropped operations hash no more.
        for digest in endless {
            digest.abort();
            assert!(digest.await.unwrap_err().is_cancelled());
        }
        let still = async {
            let mut before = u64::MAX;
            while before != progress.get() {
                before = progress.get();
                digest("moved", Progress::new()).await.unwrap();
            }
        };
        tokio::time::timeout(patience, still).await.unwrap();
    });
    runtime.shutdown_timeout(patience);
}

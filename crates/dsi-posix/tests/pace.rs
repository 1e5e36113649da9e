//! Storage that does not answer takes no thread from those who ask for something else.

use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use gridftp_dsi::Create;
use gridftp_dsi_posix::FileSink;
use rustix::fs::{FileType, Mode, OFlags};

/// A FIFO without a reader keeps whoever opens it for writing.
#[tokio::test]
async fn a_fifo_that_nobody_reads_keeps_only_its_own_writer() {
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
    // The runtime has this thread alone: had the opening kept it, nothing below would happen.
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

//! The example in Python: the conformance suite, and a crash in the middle of transfers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a helper of a test fails like the test, and a skipped test says so"
)]

mod support;

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Create, Dsi, DsiPath, ErrorKind, Finish, Sink, Source, User};
use gridftp_dsi_process::Process;
use support::Example;

fn storage_of(example: &Example) -> Process {
    gridftp_dsi_process::open(&example.socket()).unwrap()
}

fn ann() -> User {
    User::new("ann", DsiPath::root(), true)
}

fn path(text: &str) -> DsiPath {
    DsiPath::new(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_keeps_the_contract() {
    let Some(example) = Example::start() else {
        return;
    };
    let report = xio_testkit::dsi_suite::run(&storage_of(&example)).await;
    for case in [
        "bytes_may_be_written_in_any_order",
        "two_writers_never_mix",
        "times_are_kept_to_the_nanosecond",
        "unusual_names_are_kept",
        "a_wrong_digest_is_not_published",
    ] {
        assert!(report.passed.contains(&case), "{case}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_fails_the_transfers_of_the_process_alone() {
    let Some(mut example) = Example::start() else {
        return;
    };
    let (storage, ann, whole) = (storage_of(&example), ann(), Create::Whole { size: None });
    let sink = storage.write(&ann, &path("/old"), whole).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"old")).await.unwrap();
    sink.finish(Finish::whole(3)).await.unwrap();
    let source = storage.read(&ann, &path("/old")).await.unwrap();
    let sink = storage.write(&ann, &path("/new"), whole).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"new")).await.unwrap();
    example.kill();
    // The end of the connection may be known already.
    let failed = sink.finish(Finish::whole(3)).await.unwrap_err();
    let kinds = [ErrorKind::Io, ErrorKind::Unavailable];
    assert!(kinds.contains(&failed.kind()), "{failed}");
    let failed = storage.stat(&ann, &path("/old")).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    // The descriptor of an open file outlives the process.
    let read = source.read_at(0, BytesMut::with_capacity(9)).await.unwrap();
    assert_eq!(read, b"old"[..]);
    example.restart();
    let gone = storage.stat(&ann, &path("/new")).await.unwrap_err();
    assert_eq!(
        gone.kind(),
        ErrorKind::NotFound,
        "a part has the final name"
    );
    assert_eq!(storage.stat(&ann, &path("/old")).await.unwrap().size, 3);
}

#[test]
fn a_socket_without_a_process_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let error = gridftp_dsi_process::open(&dir.path().join("none")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("none: No such file"), "{why}");
}

#[tokio::test]
async fn handles_of_files_without_a_descriptor_are_closed() {
    let Some(example) = Example::start() else {
        return;
    };
    let storage = storage_of(&example);
    std::fs::write(example.dir().join("tree/f"), "content").unwrap();
    let descriptors = example.dir().join("socket.fd");
    let aside = example.dir().join("aside");
    let files = || {
        let open = format!("/proc/{}/fd", example.child.id());
        let open = std::fs::read_dir(open).unwrap().flatten();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.ends_with("tree/f")).count()
    };
    std::fs::rename(&descriptors, &aside).unwrap();
    for _ in 0..5 {
        let refused = storage.read(&ann(), &path("/f")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
    }
    let begun = std::time::Instant::now();
    while files() > 0 {
        assert!(
            begun.elapsed().as_secs() < 60,
            "{} handles are left",
            files()
        );
        tokio::task::yield_now().await;
    }
    std::fs::rename(&aside, &descriptors).unwrap();
    storage.read(&ann(), &path("/f")).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_says_nothing_stops_no_other() {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    let Some(example) = Example::start() else {
        return;
    };
    let storage = storage_of(&example);
    std::fs::write(example.dir().join("tree/f"), "content").unwrap();
    let descriptors = example.dir().join("socket.fd");
    let _silent = UnixStream::connect(&descriptors).unwrap();
    // One is gone before its answer.
    let mut gone = UnixStream::connect(&descriptors).unwrap();
    gone.write_all(&[0; 8]).unwrap();
    drop(gone);
    let reading = async { storage.read(&ann(), &path("/f")).await };
    let read = tokio::time::timeout(std::time::Duration::from_secs(20), reading).await;
    assert_eq!(
        read.expect("it waits for the silent peer").unwrap().size(),
        7
    );
}

//! A store that refuses, forgets and lies: the result is right, and no part is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{Create, Dsi as _, DsiPath, ErrorKind, Finish, Result, Sink as _, Stat, User};
use gridftp_dsi_object::{ObjectSink, Objects};
use support::{Fault, Op, Service};

const WHOLE: Create = Create::Whole { size: None };

fn user() -> User {
    User::new("ann", DsiPath::root(), true)
}

fn file() -> DsiPath {
    DsiPath::new(b"/file").unwrap()
}

fn content() -> Vec<u8> {
    (0..2500_u32)
        .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
        .collect()
}

async fn write(sink: &ObjectSink, content: &[u8]) -> Result<()> {
    for (part, at) in content.chunks(1000).zip((0..).step_by(1000)) {
        sink.write_at(at, Bytes::copy_from_slice(part)).await?;
    }
    Ok(())
}

async fn upload(store: &Objects, content: &[u8]) -> Result<Stat> {
    let sink = store.write(&user(), &file(), WHOLE).await?;
    write(&sink, content).await?;
    sink.finish(Finish::whole(content.len() as u64)).await
}

/// Uploads with these failures, and expects the object, no part and no journal.
async fn succeeds(faults: &[(Op, Fault)]) -> Service {
    let service = Service::start(faults).await;
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    let store = service.store(&index);
    upload(&store, &content()).await.unwrap();
    {
        let state = service.state.lock().unwrap();
        assert!(
            state.objects["file"] == content(),
            "{faults:?}: the object differs"
        );
        assert!(state.uploads.is_empty(), "{faults:?}: parts are left");
        assert!(state.faults.is_empty(), "{:?} did not happen", state.faults);
    }
    assert_eq!(index.read_dir().unwrap().count(), 0, "a journal is left");
    service
}

#[tokio::test]
async fn slow_down_is_repeated() {
    for op in [Op::Begin, Op::Part, Op::Complete, Op::List] {
        let twice = [(op, Fault::SlowDown), (op, Fault::SlowDown)];
        succeeds(&twice).await;
    }
    let service = Service::start(&[(Op::Put, Fault::SlowDown)]).await;
    let dir = tempfile::tempdir().unwrap();
    upload(&service.store(&dir.path().join("index")), b"small")
        .await
        .unwrap();
    assert_eq!(service.state.lock().unwrap().objects["file"], b"small");
}

#[tokio::test]
async fn a_lost_part_is_uploaded_again() {
    for fault in [Fault::Lost, Fault::ReplyLost] {
        let service = succeeds(&[(Op::Part, fault), (Op::Part, fault)]).await;
        assert_eq!(service.count(Op::Part), 5);
    }
}

#[tokio::test]
async fn a_busy_store_that_answers_200_is_asked_again() {
    for code in ["InternalError", "SlowDown"] {
        let service = succeeds(&[(Op::Complete, Fault::Body(code))]).await;
        assert_eq!(service.count(Op::Complete), 2);
    }
}

#[tokio::test]
async fn a_completion_whose_reply_was_lost_counts() {
    succeeds(&[(Op::Complete, Fault::ReplyLost)]).await;
}

#[tokio::test]
async fn an_error_behind_status_200_leaves_no_parts() {
    let service = Service::start(&[(Op::Complete, Fault::Body("AccessDenied"))]).await;
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    let store = service.store(&index);
    upload(&store, &content()).await.unwrap_err();
    {
        let state = service.state.lock().unwrap();
        assert!(state.objects.is_empty(), "an object was published");
        assert!(state.uploads.is_empty(), "parts are left");
    }
    assert_eq!(index.read_dir().unwrap().count(), 0, "a journal is left");
    upload(&store, &content()).await.unwrap();
}

#[tokio::test]
async fn a_failed_completion_that_cannot_be_ended_is_kept_for_a_restart() {
    let refused = Fault::Body("AccessDenied");
    let service = Service::start(&[(Op::Complete, refused), (Op::Abort, Fault::Denied)]).await;
    let dir = tempfile::tempdir().unwrap();
    let store = service.store(&dir.path().join("index"));
    let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
    write(&sink, &content()).await.unwrap();
    let held = RangeSet::up_to(2000);
    sink.checkpoint(&held, true).await.unwrap();
    sink.finish(Finish::whole(2500)).await.unwrap_err();
    assert_eq!(store.held(&user(), &file()).await.unwrap(), held);
    assert_eq!(store.expire(Duration::ZERO).await.unwrap(), 1);
    assert!(
        service.state.lock().unwrap().uploads.is_empty(),
        "parts are left"
    );
}

#[tokio::test]
async fn an_upload_that_the_store_has_ended_begins_anew() {
    let service = Service::start(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let store = service.store(&dir.path().join("index"));
    let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
    write(&sink, &content()).await.unwrap();
    let held: RangeSet = Range64::new(0, 2000).into_iter().collect();
    sink.checkpoint(&held, true).await.unwrap();
    drop(sink);
    // As a rule of the bucket does after some days.
    service.state.lock().unwrap().uploads.clear();
    let resume = Create::Resume { size: None };
    let sink = store.write(&user(), &file(), resume).await.unwrap();
    assert_eq!(sink.held(), held);
    let late = sink.write_at(2000, Bytes::from_static(b"end")).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Changed);
    drop(sink);
    let sink = store.write(&user(), &file(), resume).await.unwrap();
    assert!(sink.held().is_empty());
    write(&sink, &content()).await.unwrap();
    sink.finish(Finish::whole(2500)).await.unwrap();
    assert!(service.state.lock().unwrap().objects["file"] == content());
}

#[tokio::test]
async fn more_parts_than_the_store_takes_are_refused_with_the_remedy() {
    let service = Service::start(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let store = service.store(&dir.path().join("index"));
    let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
    let part = || Bytes::from(vec![7; 1000]);
    sink.write_at(9_999_000, part()).await.unwrap();
    let error = sink.write_at(10_000_000, part()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        why.contains("10000 parts") && why.contains("length"),
        "{why}"
    );
    assert_eq!(service.count(Op::Part), 1);
    // A known length makes the parts large enough.
    let size = Some(1 << 40);
    let sink = store
        .write(&user(), &file(), Create::Whole { size })
        .await
        .unwrap();
    let gridftp_dsi::WriteModel::Parts(part) = sink.order() else {
        panic!("{:?}", sink.order());
    };
    assert!((1_u64 << 40).div_ceil(part) <= 9000, "{part}");
}

#[tokio::test]
async fn parts_of_a_crashed_process_are_swept() {
    let service = Service::start(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    // The runtime of another process ends in the middle.
    let (store, sink) = {
        let store = service.store(&index);
        let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
        write(&sink, &content()).await.unwrap();
        (store, sink)
    };
    assert_eq!(service.state.lock().unwrap().uploads.len(), 1);
    std::thread::spawn(move || drop(sink)).join().unwrap();
    assert_eq!(store.expire(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(store.expire(Duration::ZERO).await.unwrap(), 1);
    assert!(
        service.state.lock().unwrap().uploads.is_empty(),
        "parts are left"
    );
    assert_eq!(index.read_dir().unwrap().count(), 0);
}

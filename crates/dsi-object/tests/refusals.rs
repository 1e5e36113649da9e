//! A store that refuses, forgets and lies: the result is right, and no part is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    ChecksumAlgorithm, Create, Dsi as _, DsiPath, ErrorKind, Finish, Result, Sink as _,
    Source as _, Stat, User,
};
use gridftp_dsi_object::{Config, ObjectSink, Objects};
use support::{Fault, Op, Service};
use tempfile::TempDir;

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

/// A service with these failures, and a store over it with an index in a folder of its own.
async fn start(faults: &[(Op, Fault)]) -> (Service, Objects, TempDir) {
    start_with(faults, |_| ()).await
}

/// The same, of a store that soon gives up repeating a request.
async fn impatient(faults: &[(Op, Fault)]) -> (Service, Objects, TempDir) {
    start_with(faults, |config| config.retry = Duration::from_millis(50)).await
}

async fn start_with(
    faults: &[(Op, Fault)],
    change: impl FnOnce(&mut Config),
) -> (Service, Objects, TempDir) {
    let service = Service::start(faults).await;
    let dir = tempfile::tempdir().unwrap();
    let store = service.store(&dir.path().join("index"), change);
    (service, store, dir)
}

/// Number of journals in the index.
fn journals(dir: &TempDir) -> usize {
    dir.path().join("index").read_dir().unwrap().count()
}

/// Uploads with these failures, and expects the object, no part and no journal.
async fn succeeds(faults: &[(Op, Fault)]) -> Service {
    let (service, store, dir) = start(faults).await;
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
    assert_eq!(journals(&dir), 0, "a journal is left");
    service
}

#[tokio::test]
async fn slow_down_is_repeated() {
    for op in [Op::Begin, Op::Part, Op::Complete, Op::List] {
        let twice = [(op, Fault::SlowDown), (op, Fault::SlowDown)];
        succeeds(&twice).await;
    }
    let (service, store, _dir) = start(&[(Op::Put, Fault::SlowDown)]).await;
    upload(&store, b"small").await.unwrap();
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
    let (service, store, dir) = start(&[(Op::Complete, Fault::Body("AccessDenied"))]).await;
    upload(&store, &content()).await.unwrap_err();
    {
        let state = service.state.lock().unwrap();
        assert!(state.objects.is_empty(), "an object was published");
        assert!(state.uploads.is_empty(), "parts are left");
    }
    assert_eq!(journals(&dir), 0, "a journal is left");
    upload(&store, &content()).await.unwrap();
}

#[tokio::test]
async fn a_failed_completion_that_cannot_be_ended_is_kept_for_a_restart() {
    let refused = Fault::Body("AccessDenied");
    let (service, store, _dir) =
        start(&[(Op::Complete, refused), (Op::Abort, Fault::Denied)]).await;
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
    let (service, store, _dir) = start(&[]).await;
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
    let (service, store, _dir) = start(&[]).await;
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
    let (service, store, dir) = start(&[]).await;
    // The runtime of another process ends in the middle.
    let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
    write(&sink, &content()).await.unwrap();
    assert_eq!(service.state.lock().unwrap().uploads.len(), 1);
    std::thread::spawn(move || drop(sink)).join().unwrap();
    assert_eq!(store.expire(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(store.expire(Duration::ZERO).await.unwrap(), 1);
    assert!(
        service.state.lock().unwrap().uploads.is_empty(),
        "parts are left"
    );
    assert_eq!(journals(&dir), 0);
}

#[tokio::test]
async fn parts_that_the_store_takes_behind_the_end_of_their_upload_are_removed() {
    let faults = [(Op::Abort, Fault::LateParts)];
    let (service, store, dir) = start_with(&faults, |config| config.late = Duration::ZERO).await;
    let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
    write(&sink, &content()).await.unwrap();
    drop(sink);
    let removed = async {
        // The journal goes last.
        while journals(&dir) > 0 {
            tokio::task::yield_now().await;
        }
    };
    let removed = tokio::time::timeout(Duration::from_secs(60), removed).await;
    removed.expect("a journal is left");
    assert_eq!(service.count(Op::Abort), 2);
    assert!(
        service.state.lock().unwrap().uploads.is_empty(),
        "parts are left"
    );
}

/// Sends a file of announced length.
async fn announced(store: &Objects, how: Create) -> Result<ObjectSink> {
    let sink = store.write(&user(), &file(), how).await?;
    let held = sink.held();
    for (part, at) in content().chunks(1000).zip((0..).step_by(1000)) {
        if !held.contains(at) {
            sink.write_at(at, Bytes::copy_from_slice(part)).await?;
        }
    }
    Ok(sink)
}

#[tokio::test]
async fn a_store_that_does_not_answer_the_completion_costs_no_parts() {
    let slow = [(Op::Complete, Fault::SlowDown); 8];
    let (service, store, _dir) = impatient(&slow).await;
    // An older object of the same length is not taken for the new one.
    service.state.lock().unwrap().put("file", vec![0; 2500]);
    let size = Some(2500);
    let sink = announced(&store, Create::Whole { size }).await.unwrap();
    let failed = sink.finish(Finish::whole(2500)).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
    assert!(service.count(Op::Complete) > 1, "it was not repeated");
    {
        let mut state = service.state.lock().unwrap();
        assert_eq!(state.uploads.len(), 1, "the parts are gone");
        state.faults.clear();
        state.requests.clear();
    }
    let held = store.held(&user(), &file()).await.unwrap();
    assert_eq!(held, RangeSet::up_to(2500));
    let sink = announced(&store, Create::Resume { size }).await.unwrap();
    sink.finish(Finish::whole(2500)).await.unwrap();
    assert_eq!(service.count(Op::Part), 0, "a part was sent again");
    assert!(service.state.lock().unwrap().objects["file"] == content());
}

#[tokio::test]
async fn a_completion_whose_reply_was_lost_counts_with_tags_that_are_no_digests() {
    for before in [None, Some(vec![0; 2500])] {
        let (service, store, _dir) = start(&[(Op::Complete, Fault::ReplyLost)]).await;
        {
            let mut state = service.state.lock().unwrap();
            state.is_opaque = true;
            if let Some(before) = before {
                state.put("file", before);
            }
        }
        upload(&store, &content()).await.unwrap();
        assert!(service.state.lock().unwrap().objects["file"] == content());
    }
}

#[tokio::test]
async fn a_checkpoint_names_no_byte_that_the_store_does_not_have() {
    let (service, store, _dir) = start(&[]).await;
    let held = RangeSet::up_to(500);
    let half = Bytes::from(vec![7; 500]);
    // A restart cannot continue within a part.
    let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
    sink.write_at(0, half.clone()).await.unwrap();
    let refused = sink.checkpoint(&held, true).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incomplete);
    drop(sink);
    assert!(store.held(&user(), &file()).await.unwrap().is_empty());
    // The short last part of a known length is one.
    let how = Create::Whole { size: Some(500) };
    let sink = store.write(&user(), &file(), how).await.unwrap();
    sink.write_at(0, half.clone()).await.unwrap();
    sink.checkpoint(&held, true).await.unwrap();
    assert_eq!(service.count(Op::Part), 1);
    drop(sink);
    assert_eq!(store.held(&user(), &file()).await.unwrap(), held);
    let how = Create::Resume { size: Some(500) };
    let sink = store.write(&user(), &file(), how).await.unwrap();
    sink.finish(Finish::whole(500)).await.unwrap();
    assert!(service.state.lock().unwrap().objects["file"] == half);
}

/// Uploads in parts with a digest that is compared with the published object.
async fn upload_with_digest(store: &Objects, digest: &str) -> Result<Stat> {
    let sink = store.write(&user(), &file(), WHOLE).await?;
    write(&sink, &content()).await?;
    let done = Finish::whole(2500).with_checksum(ChecksumAlgorithm::Md5, digest.to_owned());
    sink.finish(done).await
}

#[tokio::test]
async fn a_digest_that_differs_removes_the_uploaded_object_alone() {
    let wrong = "0".repeat(32);
    for (fault, kind) in [
        (None, ErrorKind::Mismatch),
        (Some(Op::Complete), ErrorKind::Changed),
        (Some(Op::Get), ErrorKind::Mismatch),
    ] {
        let faults: Vec<_> = fault.map(|op| (op, Fault::Replaced)).into_iter().collect();
        let (service, store, _dir) = start(&faults).await;
        let failed = upload_with_digest(&store, &wrong).await.unwrap_err();
        assert_eq!(failed.kind(), kind, "{fault:?}: {failed}");
        let state = service.state.lock().unwrap();
        let left = state.objects.get("file").map(Vec::as_slice);
        let expected = fault.map(|_| b"replaced".as_slice());
        assert_eq!(left, expected, "{fault:?}");
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_examined_is_not_replaced_unverified() {
    for fault in [Fault::Denied, Fault::SlowDown] {
        let (service, store, _dir) = impatient(&[]).await;
        service.state.lock().unwrap().put("file", b"old".to_vec());
        let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
        write(&sink, &content()).await.unwrap();
        service.state.lock().unwrap().faults = vec![(Op::Head, fault); 8];
        let done = Finish::whole(2500).with_checksum(ChecksumAlgorithm::Md5, "0".repeat(32));
        sink.finish(done).await.unwrap_err();
        assert_eq!(service.count(Op::Complete), 0);
        assert_eq!(service.state.lock().unwrap().objects["file"], b"old");
    }
}

#[tokio::test]
async fn an_object_that_is_there_already_leaves_no_parts_of_its_second_upload() {
    let (service, store, dir) = impatient(&[]).await;
    upload(&store, &content()).await.unwrap();
    service.state.lock().unwrap().faults = vec![(Op::Complete, Fault::SlowDown); 8];
    upload(&store, &content()).await.unwrap();
    let state = service.state.lock().unwrap();
    assert!(state.uploads.is_empty(), "parts are left");
    assert!(state.objects["file"] == content());
    assert_eq!(journals(&dir), 0, "a journal is left");
}

#[tokio::test]
async fn parts_whose_digest_would_come_too_late_for_the_old_object_are_not_held() {
    for has_old in [false, true] {
        let (service, store, _dir) = start(&[]).await;
        if has_old {
            service.state.lock().unwrap().put("file", b"old".to_vec());
        }
        let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
        write(&sink, &content()).await.unwrap();
        let held = RangeSet::up_to(2000);
        sink.checkpoint(&held, true).await.unwrap();
        drop(sink);
        let resume = Create::Resume { size: None };
        let sink = store.write(&user(), &file(), resume).await.unwrap();
        assert_eq!(sink.held(), held);
        sink.will_check(ChecksumAlgorithm::Md5);
        assert_eq!(sink.held().is_empty(), has_old);
        drop(sink);
        // An upload without a digest continues with them.
        assert_eq!(store.held(&user(), &file()).await.unwrap(), held);
    }
}

#[tokio::test]
async fn a_digest_that_is_given_up_ends_the_upload_over_an_old_object_at_once() {
    for has_old in [false, true] {
        let (service, store, _dir) = start(&[]).await;
        if has_old {
            service.state.lock().unwrap().put("file", b"old".to_vec());
        }
        let sink = store.write(&user(), &file(), WHOLE).await.unwrap();
        sink.will_check(ChecksumAlgorithm::Md5);
        write(&sink, &content()).await.unwrap();
        // Bytes that were hashed come again.
        let again = sink.write_at(0, Bytes::copy_from_slice(&content()[..1000]));
        let again = again.await;
        assert_eq!(again.is_err(), has_old, "{again:?}");
        if let Err(refused) = again {
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            assert_eq!(service.state.lock().unwrap().objects["file"], b"old");
        }
    }
}

#[tokio::test]
async fn a_rename_keeps_an_object_that_another_client_put_meanwhile() {
    let (service, store, _dir) = start(&[(Op::Copy, Fault::Replaced)]).await;
    upload(&store, b"old").await.unwrap();
    let to = DsiPath::new(b"/new").unwrap();
    let changed = store.rename(&user(), &file(), &to).await.unwrap_err();
    assert_eq!(changed.kind(), ErrorKind::Changed);
    {
        let state = service.state.lock().unwrap();
        assert_eq!(state.objects["file"], b"replaced");
        assert_eq!(state.objects["new"], b"old");
    }
    store.rename(&user(), &file(), &to).await.unwrap();
    let state = service.state.lock().unwrap();
    assert_eq!(state.objects["new"], b"replaced");
    assert!(!state.objects.contains_key("file"));
}

#[tokio::test]
async fn ranges_ahead_of_the_reader_are_requested_at_the_same_time() {
    const SIZE: usize = 32 << 20;
    let (service, store, _dir) = start(&[]).await;
    {
        let mut state = service.state.lock().unwrap();
        state.put("file", vec![7; SIZE]);
        // No request is answered before there are two.
        state.readers = Some(std::sync::Arc::new(tokio::sync::Barrier::new(2)));
    }
    let source = store.read(&user(), &file()).await.unwrap();
    let reading = async {
        let mut at = 0;
        while at < SIZE {
            let block = BytesMut::with_capacity(1 << 20);
            let read = source.read_at(at as u64, block).await.unwrap();
            assert!(!read.is_empty() && read.iter().all(|byte| *byte == 7));
            at += read.len();
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    read.expect("the ranges are requested one after the other");
    assert_eq!(service.count(Op::Get), 4);
}

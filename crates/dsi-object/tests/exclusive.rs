//! Exclusive uploads: the store itself refuses to replace an object.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use gridftp_dsi::{Create, Dsi as _, DsiPath, Error, ErrorKind, Finish, Sink as _, Stat, User};
use gridftp_dsi_object::{ObjectSink, Objects};
use support::{Fault, Op, Service};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

fn user() -> User {
    User::new("ann", DsiPath::root(), true)
}

fn file() -> DsiPath {
    DsiPath::new(b"/file").unwrap()
}

/// An upload of `len` bytes of this value, in parts above 1000.
async fn written(store: &Objects, len: usize, value: u8) -> ObjectSink {
    let how = Create::Whole { size: None };
    let sink = store.write(&user(), &file(), how).await.unwrap();
    for (part, at) in vec![value; len].chunks(1000).zip((0..).step_by(1000)) {
        let data = Bytes::copy_from_slice(part);
        sink.write_at(at, data).await.unwrap();
    }
    sink
}

async fn upload(store: &Objects, len: usize, value: u8) -> Result<Stat, Error> {
    let sink = written(store, len, value).await;
    sink.finish(Finish::whole(len as u64).exclusive()).await
}

async fn start(faults: &[(Op, Fault)]) -> (Service, Objects, tempfile::TempDir) {
    let service = Service::start(faults).await;
    let dir = tempfile::tempdir().unwrap();
    let store = service.store(&dir.path().join("index"), |_| ());
    (service, store, dir)
}

fn is_index_empty(dir: &tempfile::TempDir) -> bool {
    dir.path().join("index").read_dir().unwrap().count() == 0
}

#[tokio::test]
async fn an_object_that_appears_right_before_the_last_request_stays() {
    for (len, last) in [(10, Op::Put), (2500, Op::Complete)] {
        let (service, store, dir) = start(&[(last, Fault::Preceded)]).await;
        let error = upload(&store, len, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        let state = service.state.lock().unwrap();
        assert_eq!(state.objects["file"], b"first");
        assert!(state.uploads.is_empty(), "parts are left");
        assert!(is_index_empty(&dir), "a journal is left");
    }
}

#[tokio::test]
async fn uploads_that_replace_are_not_conditional() {
    for (len, last) in [(10, Op::Put), (2500, Op::Complete)] {
        let (service, store, _dir) = start(&[(last, Fault::Preceded)]).await;
        let sink = written(&store, len, 1).await;
        sink.finish(Finish::whole(len as u64)).await.unwrap();
        assert!(service.state.lock().unwrap().objects["file"] == vec![1; len]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_uploads_wins() {
    for len in [10, 2500] {
        one_wins(len, |number| number).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_uploads_of_the_same_bytes_wins() {
    for len in [10, 2500] {
        one_wins(len, |_| 7).await;
    }
}

/// Of many uploads of this length at a time, each of the bytes of its number, one succeeds.
async fn one_wins(len: usize, byte: fn(u8) -> u8) {
    const MANY: u8 = 8;
    let (service, store, dir) = start(&[]).await;
    let (store, all) = (Arc::new(store), Arc::new(Barrier::new(MANY.into())));
    let mut uploads = JoinSet::new();
    for value in (0..MANY).map(byte) {
        let (store, all) = (Arc::clone(&store), Arc::clone(&all));
        uploads.spawn(async move {
            let sink = written(&store, len, value).await;
            all.wait().await;
            let done = Finish::whole(len as u64).exclusive();
            (value, sink.finish(done).await)
        });
    }
    let (won, lost): (Vec<_>, Vec<_>) = uploads
        .join_all()
        .await
        .into_iter()
        .partition(|(_, done)| done.is_ok());
    assert_eq!(won.len(), 1);
    for (_, done) in lost {
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Exists);
    }
    let state = service.state.lock().unwrap();
    assert!(state.objects["file"] == vec![won[0].0; len]);
    assert!(state.uploads.is_empty(), "parts are left");
    assert!(is_index_empty(&dir), "a journal is left");
}

/// The store has executed the request, and refuses its repetition for its own object.
#[tokio::test]
async fn a_last_request_whose_reply_was_lost_counts() {
    for (len, last) in [(10, Op::Put), (2500, Op::Complete)] {
        for fault in [Fault::ReplyLost, Fault::Executed] {
            for is_opaque in [false, true] {
                let (service, store, dir) = start(&[(last, fault)]).await;
                service.state.lock().unwrap().is_opaque = is_opaque;
                let done = upload(&store, len, 1).await;
                done.unwrap_or_else(|error| panic!("{last:?} {fault:?} {is_opaque}: {error:?}"));
                let state = service.state.lock().unwrap();
                assert!(state.objects["file"] == vec![1; len]);
                assert!(
                    state.uploads.is_empty() && is_index_empty(&dir),
                    "parts are left"
                );
            }
        }
    }
}

/// The first attempt is lost or refused before it is executed, and another client is faster than the
/// second one.
#[tokio::test]
async fn an_object_of_another_client_between_two_attempts_stays() {
    for (len, last) in [(10, Op::Put), (2500, Op::Complete)] {
        let (service, store, dir) =
            start(&[(last, Fault::SlowDown), (last, Fault::Preceded)]).await;
        let error = upload(&store, len, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        let state = service.state.lock().unwrap();
        assert_eq!(state.objects["file"], b"first");
        assert!(
            state.uploads.is_empty() && is_index_empty(&dir),
            "parts are left"
        );
    }
}

fn reason(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

#[tokio::test]
async fn an_outcome_that_the_store_does_not_tell_is_told_to_be_unknown() {
    // The store has the object, and does not show it.
    let faults = [(Op::Put, Fault::Executed), (Op::Head, Fault::Denied)];
    let (service, store, _dir) = start(&faults[..1]).await;
    let sink = written(&store, 10, 1).await;
    service.state.lock().unwrap().faults.push(faults[1]);
    let error = sink.finish(Finish::whole(10).exclusive()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(reason(&error).contains("look at it"), "{}", reason(&error));
    assert!(service.state.lock().unwrap().objects["file"] == vec![1; 10]);
    // The store drops the mark.
    let (service, store, _dir) = start(&faults[..1]).await;
    service.state.lock().unwrap().is_forgetful = true;
    let error = upload(&store, 10, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
    assert!(
        reason(&error).contains("earlier attempt"),
        "{}",
        reason(&error)
    );
    // An object of another length, or one that the first attempt meets, is of another client.
    let repeated = [(Op::Put, Fault::SlowDown), (Op::Put, Fault::Preceded)];
    for (len, faults) in [(10, &repeated[..]), (b"first".len(), &repeated[1..])] {
        let (service, store, _dir) = start(faults).await;
        service.state.lock().unwrap().is_forgetful = true;
        let error = upload(&store, len, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
        let why = reason(&error);
        assert!(!why.contains("earlier attempt"), "{why}");
    }
}

/// The store has completed one upload, and then refuses the other of the same bytes.
#[tokio::test]
async fn the_same_bytes_of_another_upload_are_not_taken_for_this_one() {
    for (len, last) in [(10, Op::Put), (2500, Op::Complete)] {
        let (service, store, dir) = start(&[]).await;
        let (first, second) = (written(&store, len, 1).await, written(&store, len, 1).await);
        let done = || Finish::whole(len as u64).exclusive();
        first.finish(done()).await.unwrap();
        // Not seen before, as if it appeared right before the last request.
        if last == Op::Complete {
            service
                .state
                .lock()
                .unwrap()
                .faults
                .push((Op::Head, Fault::Denied));
        }
        let error = second.finish(done()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exists, "{last:?}: {error}");
        let state = service.state.lock().unwrap();
        assert!(
            state.uploads.is_empty() && is_index_empty(&dir),
            "parts are left"
        );
    }
}

/// Such a store is looked at before.
#[tokio::test]
async fn a_store_without_conditions_keeps_the_object_that_it_has() {
    let (service, store, dir) = start(&[]).await;
    service.state.lock().unwrap().is_unconditional = true;
    let sink = written(&store, 2500, 1).await;
    service.state.lock().unwrap().put("file", b"first".to_vec());
    let done = sink.finish(Finish::whole(2500).exclusive()).await;
    assert_eq!(done.unwrap_err().kind(), ErrorKind::Exists);
    let state = service.state.lock().unwrap();
    assert_eq!(state.objects["file"], b"first");
    assert!(
        state.uploads.is_empty() && is_index_empty(&dir),
        "parts are left"
    );
}

/// Completions that replace nothing have a client of their own.
#[tokio::test]
async fn all_requests_are_signed_with_the_same_credentials_which_no_condition_asks_for() {
    let service = Service::start(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let store = service.store(&dir.path().join("index"), |config| {
        let file = dir.path().join("issued");
        service.issue_credentials(&file);
        config.credentials = Some(file);
    });
    upload(&store, 2500, 1).await.unwrap();
    let state = service.state.lock().unwrap();
    let (asked, signed): (Vec<_>, Vec<_>) = state
        .signed
        .iter()
        .partition(|(op, ..)| *op == Op::Credentials);
    assert_eq!(asked, [&(Op::Credentials, String::new(), false)]);
    assert!(signed.iter().all(|(_, key, _)| key == "key1"), "{signed:?}");
    for (op, _, is_new) in signed {
        assert_eq!(*is_new, *op == Op::Complete, "{op:?}");
    }
}

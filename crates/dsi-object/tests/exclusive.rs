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
    const MANY: u8 = 8;
    for len in [10, 2500] {
        let (service, store, dir) = start(&[]).await;
        let (store, all) = (Arc::new(store), Arc::new(Barrier::new(MANY.into())));
        let mut uploads = JoinSet::new();
        for value in 0..MANY {
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
}

/// The store has completed the upload, and refuses its repetition for its own object.
#[tokio::test]
async fn a_completion_whose_reply_was_lost_counts() {
    let (service, store, dir) = start(&[(Op::Complete, Fault::ReplyLost)]).await;
    upload(&store, 2500, 1).await.unwrap();
    assert_eq!(service.count(Op::Complete), 2);
    assert!(service.state.lock().unwrap().objects["file"] == vec![1; 2500]);
    assert!(is_index_empty(&dir), "a journal is left");
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

//! Values of groups that cross a connection: recorded, asked for in pages, and refused.

use byte_ranges::Range64;
use digest_tree::{GROUP, Known, Piece, Tree, Value};
use futures_util::FutureExt as _;
use gridftp_dsi::GroupValue;
use tonic::Code;

use super::*;
use crate::convert::MAX_RANGES;
use crate::groups::{MAX_GROUPS, Noted, asked, list, values};
use crate::proto;

/// More groups than two messages have.
const COUNT: u64 = 2 * MAX_GROUPS as u64 + 2;

fn value_of(number: u64) -> GroupValue {
    (number, [u8::try_from(number).unwrap() + 1; 32])
}

fn all() -> (RangeSet, Vec<GroupValue>) {
    let held = RangeSet::up_to(COUNT * GROUP);
    (held, (0..COUNT).map(value_of).collect())
}

/// A tree of files behind calls, and an upload that holds all groups in it.
async fn upload(dir: &tempfile::TempDir) -> (Remote<Arc<Local>>, impl Sink) {
    let (remote, _) = remote(Posix::open(dir.path()).unwrap(), 1).await;
    let resume = Create::Resume { size: None };
    let sink = remote.write(&ann(), &path("/file"), resume).await.unwrap();
    let last = COUNT * GROUP - 1;
    sink.write_at(last, Bytes::from_static(b"x")).await.unwrap();
    (remote, sink)
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_recorded_and_asked_for_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let (remote, sink) = upload(&dir).await;
    let (held, values) = all();
    assert_eq!(sink.groups(&held).await.unwrap().unwrap(), []);
    sink.note_groups(values.clone());
    // No message has all of them.
    for _ in 0..3 {
        assert_eq!(sink.groups(&held).await.unwrap().unwrap(), values);
        sink.checkpoint(&held, false).await.unwrap();
    }
    drop(sink);
    let (ann, file, resume) = (ann(), path("/file"), Create::Resume { size: None });
    let sink = remote.write(&ann, &file, resume).await.unwrap();
    assert_eq!(sink.held(), held);
    assert_eq!(sink.groups(&held).await.unwrap().unwrap(), values);
    let parts = [
        Range64::new(1, 3 * GROUP),
        Range64::new(8 * GROUP, 9 * GROUP),
    ];
    let parts: RangeSet = parts.into_iter().flatten().collect();
    let found = sink.groups(&parts).await.unwrap().unwrap();
    assert_eq!(found, [1, 2, 8].map(value_of));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_failed_record_wait_for_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (_remote, sink) = upload(&dir).await;
    let (held, values) = all();
    sink.note_groups(values[..2].to_vec());
    let many = (0..=MAX_RANGES as u64).filter_map(|n| Range64::from_len(2 * n, 1));
    let refused = sink.checkpoint(&many.collect(), false).await;
    refused.unwrap_err();
    sink.checkpoint(&held, false).await.unwrap();
    drop(sink);
    let posix = Posix::open(dir.path()).unwrap();
    let (ann, file, resume) = (ann(), path("/file"), Create::Resume { size: None });
    let begun = std::time::Instant::now();
    let sink = loop {
        // The lock of the dropped sink ends with its close.
        match posix.write(&ann, &file, resume).await {
            Ok(sink) if sink.held() == held => break sink,
            done => assert!(begun.elapsed().as_secs() < 60, "{done:?}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(sink.groups(&held).await.unwrap().unwrap(), values[..2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_changed_bytes_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let (_remote, sink) = upload(&dir).await;
    let (held, values) = all();
    sink.note_groups(values[..1].to_vec());
    sink.checkpoint(&held, false).await.unwrap();
    sink.note_groups(values[2..4].to_vec());
    // A byte of group 2, and the last one of group 0, which the peer has recorded.
    for at in [2 * GROUP, GROUP - 1] {
        sink.write_at(at, Bytes::from_static(b"y")).await.unwrap();
    }
    assert_eq!(sink.groups(&held).await.unwrap().unwrap(), values[3..4]);
    sink.checkpoint(&held, false).await.unwrap();
    assert_eq!(sink.groups(&held).await.unwrap().unwrap(), values[3..4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_upload_keeps_the_values_of_the_ranges_that_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (_remote, sink) = upload(&dir).await;
    let (held, values) = all();
    sink.note_groups(values[..4].to_vec());
    sink.checkpoint(&held, false).await.unwrap();
    sink.note_groups(values[4..].to_vec());
    let kept = [
        Range64::new(0, 2 * GROUP),
        Range64::new(5 * GROUP, 7 * GROUP - 1),
    ];
    let kept: RangeSet = kept.into_iter().flatten().collect();
    sink.share(Some(&kept)).await.unwrap();
    let found = sink.groups(&held).await.unwrap().unwrap();
    assert_eq!(found, [0, 1, 5].map(value_of));
    // Those of bytes that others write are recorded.
    sink.note_groups(values[8..9].to_vec());
    sink.checkpoint(&held, false).await.unwrap();
    let found = sink.groups(&held).await.unwrap().unwrap();
    assert_eq!(found, [0, 1, 5, 8].map(value_of));
    sink.share(None).await.unwrap();
    assert_eq!(sink.groups(&held).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn a_storage_that_records_no_values_has_none() {
    let (remote, _) = remote(Memory::new(), 1).await;
    let (ann, file, whole) = (ann(), path("/file"), Create::Whole { size: None });
    let sink = remote.write(&ann, &file, whole).await.unwrap();
    let (held, values) = all();
    assert_eq!(sink.groups(&held).await.unwrap(), None);
    assert_eq!(sink.groups(&RangeSet::new()).await.unwrap(), None);
    sink.note_groups(values);
    sink.checkpoint(&RangeSet::new(), false).await.unwrap();
    let unsupported = sink.hash_back(0, 1).await.unwrap_err();
    assert_eq!(unsupported.kind(), ErrorKind::Unsupported);
}

/// The bytes of an upload are hashed where no bytes cross.
#[tokio::test(flavor = "multi_thread")]
async fn written_bytes_are_hashed_by_the_peer() {
    let dir = tempfile::tempdir().unwrap();
    let dsi: Arc<dyn DynDsi> = Arc::new(Posix::open(dir.path()).unwrap());
    let served = Served::new(Arc::clone(&dsi)).without_bytes();
    let remote = over(vec![connect("0", served).await]);
    let (ann, file, resume) = (ann(), path("/file"), Create::Resume { size: None });
    let sink = remote.write(&ann, &file, resume).await.unwrap();
    let token = sink.share(Some(&RangeSet::new())).await.unwrap();
    let joined = dsi.join(&ann, &file, &token).await.unwrap();
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let bytes = Bytes::from(content.clone());
    joined.write_at(0, bytes).await.unwrap();
    joined
        .checkpoint(&RangeSet::up_to(content.len() as u64), false)
        .await
        .unwrap();
    let (mut tree, mut whole) = (Tree::new(), Tree::new());
    whole.insert(Piece::of(0, &content));
    let bounds = [0, 5, 1 << 20, (1 << 20) + 100_001, content.len()];
    for pair in bounds.windows(2) {
        let offset = u64::try_from(pair[0]).unwrap();
        let known = sink.hash_back(offset, pair[1] - pair[0]).await.unwrap();
        // Little but the values crosses.
        assert!(known.len() < 4096, "{} bytes", known.len());
        tree.insert_known(Known::from_bytes(&known).unwrap());
    }
    let size = content.len() as u64;
    assert_eq!(tree.digest(size).unwrap(), whole.digest(size).unwrap());
    let fewer = sink.hash_back(size - 1, 2).await.unwrap_err();
    assert_eq!(fewer.kind(), ErrorKind::Incomplete);
    sink.hash_back(0, crate::BLOCK + 1).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_values_and_too_many_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (remote, local) = remote(Posix::open(dir.path()).unwrap(), 1).await;
    let mut client = local.peers.lock().unwrap()[0].0.client();
    let create = proto::CreateRequest {
        place: Some(place(&ann(), &path("/file"))),
        way: proto::Way::Resume.into(),
        size: None,
        handle: 1,
    };
    let opened = client.create(create).await.unwrap().into_inner();
    assert!(opened.records);
    let wrong = |length: usize| proto::GroupValue {
        number: 0,
        value: vec![1; length],
    };
    let many = vec![wrong(32); MAX_GROUPS + 1];
    for (groups, why) in [
        (vec![wrong(31)], "of 31 bytes, not 32"),
        (vec![wrong(33)], "of 33 bytes, not 32"),
        (many, "of at most 4"),
    ] {
        let request = proto::CheckpointRequest {
            handle: 1,
            held: Some((&RangeSet::up_to(1)).into()),
            durable: false,
            groups,
        };
        let refused = client.checkpoint(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(why), "{refused}");
    }
    let end = u64::MAX / GROUP;
    for numbers in [
        Range64::new(0, MAX_GROUPS as u64 + 1),
        Range64::new(end, end + 1),
    ] {
        let numbers: RangeSet = numbers.into_iter().collect();
        let request = proto::GroupsRequest {
            handle: 1,
            numbers: Some((&numbers).into()),
        };
        let refused = client.groups(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    drop(remote);
}

#[tokio::test]
async fn a_write_of_noted_bytes_waits_for_their_record() {
    let (noted, end) = (Noted::default(), Notify::new());
    noted.add([0, 1].map(value_of).to_vec());
    let mut recording = Box::pin(noted.record(|values| {
        assert_eq!(values.len(), 2);
        end.notified().map(Ok::<_, ()>)
    }));
    assert!((&mut recording).now_or_never().is_none());
    let mut forgetting = Box::pin(noted.forget(GROUP - 1, 1));
    assert!((&mut forgetting).now_or_never().is_none());
    // Of bytes that are not noted.
    noted.forget(2 * GROUP, 1).await;
    end.notify_one();
    recording.await.unwrap();
    forgetting.await;
    let unrecorded = noted.record(|values| std::future::ready(Err(values.len())));
    assert_eq!(unrecorded.await, Err(0));
}

#[test]
fn a_reply_has_values_of_the_groups_that_were_asked_for() {
    let numbers: RangeSet = Range64::new(2, 6).into_iter().collect();
    let of = |values: &[u64]| {
        asked(
            list(&values.iter().map(|n| value_of(*n)).collect::<Vec<_>>()),
            &numbers,
        )
    };
    assert_eq!(of(&[2, 3, 5]).unwrap(), [2, 3, 5].map(value_of));
    assert_eq!(of(&[]).unwrap(), []);
    for wrong in [&[1][..], &[6], &[3, 2], &[2, 2]] {
        of(wrong).unwrap_err();
    }
    let long: Value = [1; 32];
    let value = [&long[..], &[1]].concat();
    values(vec![proto::GroupValue { number: 2, value }]).unwrap_err();
}

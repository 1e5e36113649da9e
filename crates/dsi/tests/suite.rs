//! The backend in memory, and its boxed twin, through the conformance suite.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{
    Create, Dsi, DsiPath, DynDsi, ErrorKind, Finish, Memory, Mount, Mounts, Sink, User,
};
use xio_testkit::{Chaos, ChaosOptions, dsi_suite};

#[tokio::test]
async fn memory_keeps_the_contract() {
    let report = dsi_suite::run(&Memory::new()).await;
    assert!(report.passed.len() > 25, "{report:?}");
}

#[tokio::test]
async fn the_boxed_twin_is_no_different() {
    let boxed: Arc<dyn DynDsi> = Arc::new(Memory::new());
    let twice: Arc<dyn DynDsi> = Arc::new(boxed);
    let report = dsi_suite::run(&twice).await;
    assert!(report.passed.len() > 25, "{report:?}");
}

#[tokio::test]
async fn of_two_uploads_to_one_name_one_can_be_continued() {
    let (memory, user) = (Memory::new(), User::new("u", DsiPath::root(), true));
    let path = DsiPath::new(b"/file").unwrap();
    let open = || memory.write(&user, &path, Create::Whole { size: None });
    let (first, second) = (open().await.unwrap(), open().await.unwrap());
    first.checkpoint(&RangeSet::new(), false).await.unwrap();
    let refused = second.checkpoint(&RangeSet::new(), false).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    drop(first);
    second.checkpoint(&RangeSet::new(), false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slow_short_and_shuffled_operations_keep_the_contract() {
    for seed in 1..4 {
        let mut options = ChaosOptions::default();
        options.seed = seed;
        options.delay = Duration::from_millis(5);
        (options.short, options.shuffle) = (true, true);
        let report = dsi_suite::run(&Chaos::new(Memory::new(), options)).await;
        assert!(report.passed.len() > 25, "{seed}: {report:?}");
    }
}

/// Stores a file whole; the error of the first step that fails.
async fn store(dsi: &impl Dsi, path: &DsiPath, bytes: &Bytes) -> gridftp_dsi::Result<()> {
    let user = User::new("u", DsiPath::root(), true);
    let sink = dsi.write(&user, path, Create::Whole { size: None }).await?;
    let half = bytes.len() / 2;
    sink.write_at(half as u64, bytes.slice(half..)).await?;
    sink.write_at(0, bytes.slice(..half)).await?;
    sink.finish(Finish::whole(bytes.len() as u64)).await?;
    Ok(())
}

#[tokio::test]
async fn a_failed_operation_has_changed_nothing() {
    let (memory, path) = (Memory::new(), DsiPath::new(b"/f").unwrap());
    let mut options = ChaosOptions::default();
    (options.seed, options.fail) = (7, 20);
    let chaos = Chaos::new(memory.clone(), options);
    let user = User::new("u", DsiPath::root(), true);
    let (mut stored, mut failed) = (0, 0);
    for round in 1_u8..100 {
        let bytes = Bytes::from(vec![round; usize::from(round)]);
        let before = memory.stat(&user, &path).await.map(|stat| stat.size).ok();
        match store(&chaos, &path, &bytes).await {
            Ok(()) => stored += 1,
            Err(_) => {
                failed += 1;
                let after = memory.stat(&user, &path).await.map(|stat| stat.size).ok();
                assert_eq!(before, after, "round {round}");
            }
        }
    }
    assert!(
        stored > 10 && failed > 10,
        "{stored} stored, {failed} failed"
    );
}

#[tokio::test]
async fn a_crash_ends_open_uploads_unpublished() {
    let (memory, path) = (Memory::new(), DsiPath::new(b"/f").unwrap());
    let mut options = ChaosOptions::default();
    options.crash = Some(3);
    let chaos = Chaos::new(memory.clone(), options);
    let bytes = Bytes::from_static(b"content");
    let failed = store(&chaos, &path, &bytes).await.unwrap_err();
    assert_eq!((failed.kind(), failed.op()), (ErrorKind::Io, "finish"));
    let user = User::new("u", DsiPath::root(), true);
    assert!(chaos.stat(&user, &path).await.is_err());
    assert!(memory.stat(&user, &path).await.is_err());
    chaos.restart();
    assert!(store(&memory, &path, &bytes).await.is_ok());
    assert_eq!(chaos.stat(&user, &path).await.unwrap().size, 7);
}

#[tokio::test]
async fn a_read_only_storage_keeps_its_part_of_the_contract() {
    let memory = Memory::new();
    let user = User::new("u", DsiPath::root(), true);
    let dir = DsiPath::new(b"/dir").unwrap();
    memory.make_dir(&user, &dir).await.unwrap();
    let mut files = BTreeMap::new();
    for (name, size) in [("/a", 0), ("/dir/b", 10_000)] {
        let path = DsiPath::new(name.as_bytes()).unwrap();
        store(&memory, &path, &Bytes::from(vec![7; size]))
            .await
            .unwrap();
        files.insert(path, vec![7; size]);
    }
    let mount = Mount::new(DsiPath::root(), Arc::new(memory)).read_only();
    let tree = Mounts::new([mount]).unwrap();
    dsi_suite::run_read_only(&tree, &files).await;
}

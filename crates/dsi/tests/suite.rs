//! The backend in memory, and its boxed twin, through the conformance suite.

use std::sync::Arc;

use byte_ranges::RangeSet;
use gridftp_dsi::{Create, Dsi, DsiPath, DynDsi, ErrorKind, Memory, Sink, User};
use xio_testkit::dsi_suite;

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

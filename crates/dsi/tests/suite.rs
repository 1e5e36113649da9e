//! The backend in memory, and its boxed twin, through the conformance suite.

use std::sync::Arc;

use gridftp_dsi::{DynDsi, Memory};
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

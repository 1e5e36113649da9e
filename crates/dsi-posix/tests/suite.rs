//! The directory tree through the conformance suite.

use gridftp_dsi_posix::Posix;
use xio_testkit::dsi_suite;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posix_keeps_the_contract() {
    // On a memory file system if there is one, since the suite syncs often.
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    for sync in [false, true] {
        let root = dir.path().join(format!("sync-{sync}"));
        std::fs::create_dir(&root).unwrap();
        let report = dsi_suite::run(&Posix::open(&root).unwrap().with_sync(sync)).await;
        assert!(report.passed.len() > 30, "{report:?}");
        assert_eq!(
            report.skipped,
            [
                "discarded_uploads_can_be_shared",
                "discarded_bytes_are_counted"
            ]
        );
    }
}

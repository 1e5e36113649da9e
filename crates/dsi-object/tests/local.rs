//! The storage suite over a directory of this machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gridftp_dsi_object::{Config, Objects};

#[tokio::test]
async fn a_local_directory_is_a_store() {
    // On a memory file system if there is one, since every part is synced.
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mut config = Config::new(
        format!("file://{}", root.display()),
        dir.path().join("index"),
    );
    config.part = Some(64 << 10);
    let store = Objects::open(&config).unwrap();
    let report = xio_testkit::dsi_suite::run(&store).await;
    assert!(report.passed.len() > 20, "{report:?}");
}

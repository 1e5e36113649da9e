//! How long `finish` is expected to take, and what is left when nobody waits for it.

use gridftp_dsi::ChecksumAlgorithm;

use super::*;

#[tokio::test]
async fn a_small_file_waits_elsewhere_for_the_end_of_a_large_one() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("file");
    for (size, pace) in [(0, Pace::Brief), (1 << 30, Pace::Long)] {
        File::create(&name).unwrap().set_len(size).unwrap();
        let how = Create::Whole { size: None };
        let sink = FileSink::create(&name, how, false).await.unwrap();
        sink.write_at(0, Bytes::from_static(b"new")).await.unwrap();
        let done = Finish::whole(3);
        assert_eq!(sink.inner.pace_of_finish(&done), pace, "{size} bytes");
        sink.finish(done).await.unwrap();
        assert_eq!(std::fs::read(&name).unwrap(), b"new");
    }
}

/// A program that is told to stop ends soon, and has to leave nothing behind.
#[tokio::test]
async fn a_file_that_nobody_waits_for_goes_while_it_is_hashed() {
    /// Takes longer to hash than the test waits.
    const SIZE: u64 = 1 << 33;
    const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);
    let dir = tempfile::tempdir().unwrap();
    let how = Create::Whole { size: None };
    let name = dir.path().join("file");
    let sink = FileSink::create(&name, how, false).await.unwrap();
    // The first small block waits in memory for a second one.
    for at in [0, SIZE - 3] {
        let piece = Bytes::from_static(b"abc");
        sink.write_at(at, piece).await.unwrap();
    }
    let mut done = Finish::whole(SIZE);
    done.checksum = Some((ChecksumAlgorithm::Sha512, String::new()));
    let begun = std::time::Instant::now();
    let hashing = async {
        while !crate::hop::is_hashing() {
            assert!(begun.elapsed() < LIMIT, "no digest is computed by turns");
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = sink.finish(done) => panic!("it ends too early"),
        () = hashing => {}
    }
    while std::fs::read_dir(dir.path()).unwrap().count() > 0 {
        assert!(begun.elapsed() < LIMIT, "it is still there");
        std::thread::yield_now();
    }
}

//! How long `finish` is expected to take.

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

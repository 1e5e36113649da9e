//! Interrupted uploads, files that change, huge files, and the partial files left behind.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    ChecksumAlgorithm, Create, Dsi, ErrorKind, Finish, Progress, Sink, Source, WriteModel,
};
use gridftp_dsi_posix::{FileSink, FileSource, Posix};
use support::{RESUME, Tree, UPDATE, WHOLE, path};

fn set(start: u64, end: u64) -> RangeSet {
    Range64::new(start, end).into_iter().collect()
}

#[tokio::test]
async fn no_partial_file_is_left_after_publishing_or_without_a_record() {
    let tree = Tree::new();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    assert_eq!(tree.everything(), [".file.gridftp-part"]);
    sink.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    drop(sink);
    assert!(tree.everything().is_empty());
    let sink = tree.open("/file", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    sink.checkpoint(&set(0, 1), true).await.unwrap();
    assert_eq!(
        tree.everything(),
        [".file.gridftp-held", ".file.gridftp-part"]
    );
    sink.finish(Finish::whole(1)).await.unwrap();
    assert_eq!(tree.everything(), ["file"]);
}

/// Its bytes were found to be missing.
#[tokio::test]
async fn a_record_that_cannot_be_emptied_is_removed_with_its_partial_file() {
    let tree = Tree::new();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    sink.checkpoint(&set(0, 1), false).await.unwrap();
    let obstacle = tree.real(".file.gridftp-next");
    std::fs::create_dir(&obstacle).unwrap();
    sink.checkpoint(&RangeSet::new(), false).await.unwrap_err();
    std::fs::remove_dir(obstacle).unwrap();
    drop(sink);
    assert!(tree.everything().is_empty());
}

#[tokio::test]
async fn a_record_without_its_own_partial_claims_nothing() {
    let tree = Tree::new();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from(vec![b'a'; 100_000]))
        .await
        .unwrap();
    sink.checkpoint(&set(0, 100_000), false).await.unwrap();
    drop(sink);
    // The bytes of another file under the same hidden name.
    let swapped = tree.real(".swapped");
    std::fs::write(&swapped, vec![b'b'; 100_000]).unwrap();
    std::fs::rename(&swapped, tree.real(".file.gridftp-part")).unwrap();
    assert!(tree.open("/file", RESUME).await.unwrap().held().is_empty());
    // And fewer bytes than recorded.
    let sink = tree.open("/file", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from(vec![b'a'; 100_000]))
        .await
        .unwrap();
    sink.checkpoint(&set(0, 100_000), false).await.unwrap();
    drop(sink);
    let part = std::fs::OpenOptions::new()
        .write(true)
        .open(tree.real(".file.gridftp-part"))
        .unwrap();
    part.set_len(10).unwrap();
    assert_eq!(tree.open("/file", RESUME).await.unwrap().held(), set(0, 10));
}

#[tokio::test]
async fn partials_expire_by_age_but_never_under_a_writer() {
    let tree = Tree::new();
    std::fs::create_dir_all(tree.real("a/b")).unwrap();
    for name in ["/a/b/old", "/young"] {
        let sink = tree.open(name, WHOLE).await.unwrap();
        sink.write_at(0, Bytes::from_static(b"x")).await.unwrap();
        sink.checkpoint(&set(0, 1), false).await.unwrap();
    }
    tree.age("a/b/.old.gridftp-part");
    let live = tree.open("/live", WHOLE).await.unwrap();
    live.checkpoint(&RangeSet::new(), false).await.unwrap();
    tree.age(".live.gridftp-part");
    tree.age("a/b/.old.gridftp-held");
    let gone = tree.posix.expire(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(gone, 1);
    assert_eq!(std::fs::read_dir(tree.real("a/b")).unwrap().count(), 0);
    assert_eq!(tree.open("/young", RESUME).await.unwrap().held(), set(0, 1));
    live.finish(Finish::whole(0)).await.unwrap();
    assert!(tree.real("live").exists());
}

#[tokio::test]
async fn removing_the_directory_under_an_upload_fails_the_upload() {
    let tree = Tree::new();
    std::fs::create_dir(tree.real("dir")).unwrap();
    let sink = tree.open("/dir/file", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    tree.posix
        .remove_tree(&tree.user, &path("/dir"))
        .await
        .unwrap();
    let kind = sink.finish(Finish::whole(1)).await.unwrap_err().kind();
    assert!(
        matches!(kind, ErrorKind::Changed | ErrorKind::NotFound),
        "{kind:?}"
    );
    assert!(tree.everything().is_empty());
}

#[tokio::test]
async fn a_directory_that_took_the_name_meanwhile_stays() {
    let tree = Tree::new();
    let sink = tree.open("/name", WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    sink.checkpoint(&set(0, 1), false).await.unwrap();
    std::fs::create_dir(tree.real("name")).unwrap();
    assert_eq!(
        sink.finish(Finish::whole(1)).await.unwrap_err().kind(),
        ErrorKind::IsDirectory
    );
    std::fs::remove_dir(tree.real("name")).unwrap();
    assert_eq!(tree.open("/name", RESUME).await.unwrap().held(), set(0, 1));
}

#[tokio::test]
async fn modes_follow_the_replaced_file_and_the_umask() {
    let tree = Tree::new();
    std::fs::write(tree.real("private"), "x").unwrap();
    std::fs::set_permissions(tree.real("private"), std::fs::Permissions::from_mode(0o400)).unwrap();
    let sink = tree.open("/private", WHOLE).await.unwrap();
    let part = std::fs::metadata(tree.real(".private.gridftp-part")).unwrap();
    assert_eq!(
        part.mode() & 0o077,
        0,
        "others could read a private file while it arrives"
    );
    sink.finish(Finish::whole(0)).await.unwrap();
    assert_eq!(
        std::fs::metadata(tree.real("private")).unwrap().mode() & 0o7777,
        0o400
    );
    std::fs::write(tree.real("plain"), "x").unwrap();
    tree.put("/new", b"x").await.unwrap();
    let mode = |name: &str| std::fs::metadata(tree.real(name)).unwrap().mode();
    assert_eq!(
        mode("new"),
        mode("plain"),
        "another mode than any program's files get"
    );
}

#[tokio::test]
async fn sparse_files_over_4_gib_stay_sparse() {
    const TOP: u64 = (5 << 30) + 12_345;
    let tree = Tree::new();
    let sink = tree.open("/sparse", WHOLE).await.unwrap();
    sink.write_at(1 << 20, Bytes::from(vec![1; 65_536]))
        .await
        .unwrap();
    sink.write_at(TOP - 3, Bytes::from_static(b"end"))
        .await
        .unwrap();
    sink.finish(Finish::whole(TOP)).await.unwrap();
    assert!(
        std::fs::metadata(tree.real("sparse")).unwrap().blocks() * 512 < 1 << 20,
        "holes were filled"
    );
    let source = tree.posix.read(&tree.user, &path("/sparse")).await.unwrap();
    assert_eq!(source.size(), TOP);
    assert_eq!(
        source
            .read_at(TOP - 3, BytesMut::with_capacity(9))
            .await
            .unwrap(),
        b"end".as_slice()
    );
    let data = source.data().await.unwrap().unwrap();
    assert!(data.covers(Range64::new(1 << 20, (1 << 20) + 65_536).unwrap()));
    assert!(data.covers(Range64::new(TOP - 3, TOP).unwrap()));
    assert!(data.total() < 1 << 20 && data.end() == TOP);
    // A copy is sparse too.
    let sink = tree.open("/sparse", UPDATE).await.unwrap();
    assert_eq!(sink.held(), set(0, TOP));
    sink.finish(Finish::whole(TOP)).await.unwrap();
    assert!(
        std::fs::metadata(tree.real("sparse")).unwrap().blocks() * 512 < 1 << 20,
        "holes were filled"
    );
    assert_eq!(
        tree.posix
            .read(&tree.user, &path("/sparse"))
            .await
            .unwrap()
            .data()
            .await
            .unwrap()
            .unwrap(),
        data
    );
}

/// The largest file that the file system supports.
#[tokio::test]
async fn files_of_a_pebibyte_and_more_take_the_space_of_their_data() {
    let tree = Tree::in_memory();
    for size in [1 << 50, i64::MAX.unsigned_abs()] {
        let file = std::fs::File::create(tree.real("huge")).unwrap();
        if let Err(error) = file.set_len(size) {
            eprintln!("SKIPPED: no file of {size} bytes here: {error}");
            continue;
        }
        std::os::unix::fs::FileExt::write_all_at(&file, b"end", size - 3).unwrap();
        let source = tree.posix.read(&tree.user, &path("/huge")).await.unwrap();
        assert_eq!(source.size(), size);
        let end = source
            .read_at(size - 3, BytesMut::with_capacity(9))
            .await
            .unwrap();
        assert_eq!(end, b"end".as_slice());
        // The kernel's memory file system forgets the last page of the largest file here.
        if size == 1 << 50 {
            let data = source.data().await.unwrap().unwrap();
            assert!(data.total() <= 1 << 20 && data.end() == size, "{data}");
            let sink = tree.open("/huge", UPDATE).await.unwrap();
            sink.write_at(5, Bytes::from_static(b"begin"))
                .await
                .unwrap();
            let done = sink.finish(Finish::whole(10)).await.unwrap();
            assert_eq!(done.size, size);
            let mut copy = std::fs::File::open(tree.real("huge")).unwrap();
            let mut end = [0; 3];
            copy.seek(SeekFrom::End(-3)).unwrap();
            copy.read_exact(&mut end).unwrap();
            assert_eq!(&end, b"end");
        }
        let sink = tree.open("/huge", Create::Append).await.unwrap();
        let beyond = sink
            .write_at(
                size,
                Bytes::from(vec![1; usize::try_from(1_u64 << 20).unwrap()]),
            )
            .await;
        assert_eq!(beyond.is_err(), size > 1 << 50, "{beyond:?}");
    }
}

#[tokio::test]
async fn an_upload_that_cannot_fit_is_refused_at_once() {
    let tree = Tree::new();
    let refused = tree
        .open(
            "/file",
            Create::Whole {
                size: Some(1 << 60),
            },
        )
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    assert!(tree.everything().is_empty());
}

#[tokio::test]
async fn local_files_are_written_at_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let sink = FileSink::create(&file, WHOLE, true).await.unwrap();
    assert_eq!(sink.order(), WriteModel::Random);
    sink.write_at(0, Bytes::from_static(b"local"))
        .await
        .unwrap();
    assert!(!file.exists());
    sink.finish(Finish::whole(5).with_checksum(ChecksumAlgorithm::Crc32c, "00000000"))
        .await
        .unwrap_err();
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "wrong bytes are left"
    );
    let sink = FileSink::create(&file, WHOLE, false).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"local"))
        .await
        .unwrap();
    sink.finish(Finish::whole(5)).await.unwrap();
    let source = FileSource::open(&file).await.unwrap();
    assert_eq!(
        source.read_at(0, BytesMut::with_capacity(9)).await.unwrap(),
        b"local".as_slice()
    );
    assert_eq!(
        FileSource::open(dir.path()).await.unwrap_err().kind(),
        ErrorKind::IsDirectory
    );
    // Links are followed anywhere: this is the user's own machine.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let sink = FileSink::create(&link, WHOLE, false).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"more")).await.unwrap();
    sink.finish(Finish::whole(4)).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"more");
    assert!(
        std::fs::symlink_metadata(&link)
            .unwrap()
            .file_type()
            .is_symlink()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_devices_and_fifos_are_written_directly() {
    let sink = FileSink::create("/dev/null".as_ref(), WHOLE, false)
        .await
        .unwrap();
    sink.write_at(1 << 40, Bytes::from_static(b"x"))
        .await
        .unwrap();
    sink.finish(Finish::whole((1 << 40) + 1)).await.unwrap();
    let sink = FileSink::create("/dev/full".as_ref(), WHOLE, false)
        .await
        .unwrap();
    let full = sink
        .write_at(0, Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::NoSpace);
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read(fifo).unwrap()
    });
    let sink = FileSink::create(&fifo, WHOLE, false).await.unwrap();
    assert_eq!(sink.order(), WriteModel::Sequential);
    sink.write_at(0, Bytes::from_static(b"in ")).await.unwrap();
    assert_eq!(
        sink.write_at(9, Bytes::from_static(b"x"))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Unsupported
    );
    sink.write_at(3, Bytes::from_static(b"order"))
        .await
        .unwrap();
    sink.finish(Finish::as_is()).await.unwrap();
    assert_eq!(reader.join().unwrap(), b"in order");
}

#[tokio::test]
async fn a_dropped_checksum_ends() {
    let tree = Tree::new();
    let file = std::fs::File::create(tree.real("huge")).unwrap();
    file.set_len(1 << 42).unwrap();
    let progress = Progress::new();
    let at = path("/huge");
    let sum = tree.posix.checksum(
        &tree.user,
        &at,
        ChecksumAlgorithm::Crc32c,
        0,
        None,
        &progress,
    );
    let mut sum = Box::pin(sum);
    // Begun, then dropped.
    while progress.get() == 0 {
        let polled =
            std::future::poll_fn(|cx| std::task::Poll::Ready(sum.as_mut().poll(cx).is_ready()))
                .await;
        assert!(!polled, "4 TiB hashed at once");
        tokio::task::yield_now().await;
    }
    drop(sum);
    let mut last = 0;
    while last != progress.get() {
        last = progress.get();
        // Another operation on the same threads runs in between.
        tree.posix
            .checksum(
                &tree.user,
                &at,
                ChecksumAlgorithm::Md5,
                0,
                Some(1 << 20),
                &Progress::new(),
            )
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_root_that_is_no_directory_is_reported() {
    let tree = Tree::new();
    let error = Posix::open(&tree.all.path().join("secret")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDirectory);
    assert!(error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn only_the_upload_that_can_be_continued_is_recorded() {
    let tree = Tree::new();
    let first = tree.open("/file", WHOLE).await.unwrap();
    let second = tree.open("/file", WHOLE).await.unwrap();
    for (sink, byte) in [(&first, b'1'), (&second, b'2')] {
        sink.write_at(0, Bytes::from(vec![byte; 100_000]))
            .await
            .unwrap();
    }
    first.checkpoint(&set(0, 100_000), false).await.unwrap();
    // Its client would get a marker, and then continue behind the bytes of the other upload.
    let refused = second.checkpoint(&set(0, 100_000), false).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    drop((first, second));
    let sink = tree.open("/file", RESUME).await.unwrap();
    sink.finish(Finish::whole(100_000)).await.unwrap();
    assert_eq!(tree.read("/file").await.unwrap(), vec![b'1'; 100_000]);
}

#[tokio::test]
async fn after_a_failed_sync_every_call_fails() {
    // A device that takes bytes and cannot sync them.
    let file = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let sink = FileSink::direct(file).unwrap();
    let block = Bytes::from(vec![b'x'; 100_000]);
    sink.write_at(0, block.clone()).await.unwrap();
    sink.checkpoint(&set(0, 100_000), true).await.unwrap_err();
    // The kernel reports lost bytes once; the next sync of the file succeeds.
    sink.checkpoint(&set(0, 100_000), false).await.unwrap_err();
    sink.write_at(100_000, block).await.unwrap_err();
    sink.finish(Finish::as_is()).await.unwrap_err();
}

#[tokio::test]
async fn set_user_and_set_group_bits_go_with_the_old_bytes() {
    let tree = Tree::new();
    std::fs::write(tree.real("tool"), "old").unwrap();
    std::fs::set_permissions(tree.real("tool"), std::fs::Permissions::from_mode(0o6755)).unwrap();
    tree.put("/tool", b"new").await.unwrap();
    let mode = std::fs::metadata(tree.real("tool")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

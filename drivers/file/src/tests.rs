//! The file driver against real files: flags, modes, offsets, refusals, reading by position.

use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_core::{Pool, Positional, Stream};

use super::*;

fn file(options: &str) -> File {
    File::new().with_options(options.parse().unwrap())
}

fn at(folder: &tempfile::TempDir, name: &str) -> (std::path::PathBuf, Target) {
    let path = folder.path().join(name);
    let target = Target::file(path.to_str().unwrap());
    (path, target)
}

async fn write(options: &str, target: &Target, bytes: &[u8]) {
    let mut handle = file(options).connect(target).await.unwrap();
    handle.write_all(bytes).await.unwrap();
    // Shutdown is idempotent.
    handle.shutdown().await.unwrap();
    handle.shutdown().await.unwrap();
}

async fn read(options: &str, target: &Target) -> Vec<u8> {
    let mut handle = file(options).connect(target).await.unwrap();
    let mut bytes = Vec::new();
    handle.read_to_end(&mut bytes).await.unwrap();
    // The end of the file is repeated.
    assert_eq!(handle.read(&mut [0]).await.unwrap(), 0);
    bytes
}

#[tokio::test]
async fn flags_mean_the_same_as_in_fopen() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = at(&folder, "a");
    for missing in ["flags=r", "flags=r+"] {
        let error = file(missing).connect(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(
            error.to_string().starts_with("file: connect: `file:/"),
            "{error}"
        );
    }
    write("flags=w", &target, b"0123456789").await;
    write("flags=r+", &target, b"ab").await;
    assert_eq!(read("", &target).await, b"ab23456789");
    write("flags=a", &target, b"end").await;
    write("flags=r+;offset=4", &target, b"xy").await;
    assert_eq!(read("offset=3", &target).await, b"3xy6789end");
    write("flags=w+", &target, b"new").await;
    assert_eq!(read("flags=a+", &target).await, b"new");
    assert_eq!(read("flags=a", &target).await, b"");
    for (flags, ends_together) in [("r", false), ("r+", false), ("a", true), ("w", true)] {
        let handle = file(&format!("flags={flags}")).connect(&target).await;
        assert_eq!(
            handle.unwrap().info().ends_together,
            ends_together,
            "{flags}"
        );
    }
    assert_eq!(read("offset=1G", &target).await, b"");
}

#[tokio::test]
async fn a_file_opened_for_one_direction_refuses_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = at(&folder, "a");
    write("flags=w", &target, b"x").await;
    let mut reader = file("").connect(&target).await.unwrap();
    // The write happens on another thread; the flush returns its result.
    let error = async {
        reader.write_all(b"y").await?;
        reader.flush().await
    };
    let error = error.await.unwrap_err();
    assert_eq!(Error::layer_of(&error).unwrap().layer(), "file");
    let mut writer = file("flags=a").connect(&target).await.unwrap();
    writer.read_u8().await.unwrap_err();
}

#[tokio::test]
async fn a_new_file_gets_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = at(&folder, "secret");
    write("flags=w;mode=0600", &target, b"x").await;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn targets_that_are_not_files_are_refused() {
    for (contact, part) in [
        ("dtn1:2811", "is not a file"),
        ("ftp://dtn1/x", "is not a file"),
        ("file:", "has no path"),
        ("file://dtn1/etc/passwd", "has a host"),
    ] {
        let error = File::default()
            .connect(&contact.parse().unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget, "{contact}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let itself = Target::file(folder.path().to_str().unwrap());
    assert!(file("flags=w").connect(&itself).await.is_err());
}

#[tokio::test]
async fn standard_streams_are_copies() {
    // Closing the copy must leave the program's own open.
    for _ in 0..2 {
        let out = File::default()
            .connect(&"stderr://".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(out.info().chain, ["file"]);
        drop(out);
    }
    io::stderr().as_fd().try_clone_to_owned().unwrap();
}

#[tokio::test]
async fn reading_by_position_leaves_the_stream_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = at(&folder, "a");
    write("flags=w", &target, b"0123456789").await;
    let mut handle = File::default().connect(&target).await.unwrap();
    let pool = Pool::new(4, 1);
    let mut word = [0; 2];
    handle.read_exact(&mut word).await.unwrap();
    let mut block = pool.get().await;
    block.extend(b"x");
    let block = handle.read_at(7, block, usize::MAX).await.unwrap();
    assert_eq!(&block[..], b"x789");
    drop(block);
    let block = handle.read_at(1, pool.get().await, 2).await.unwrap();
    assert_eq!(&block[..], b"12");
    drop(block);
    let block = handle.read_at(10, pool.get().await, 2).await.unwrap();
    assert!(block.is_empty());
    handle.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"23");
    assert!(handle.descriptor().is_some());
}

#[tokio::test]
async fn a_dropped_read_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = at(&folder, "a");
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    write("flags=w", &target, &bytes).await;
    let mut handle = File::default().connect(&target).await.unwrap();
    let mut arrived = Vec::new();
    let mut buf = [0; 999];
    loop {
        tokio::select! {
            biased;
            n = handle.read(&mut buf) => match n.unwrap() {
                0 => break,
                n => arrived.extend_from_slice(&buf[..n]),
            },
            // The read of a file is never ready at the first poll, so this drops it.
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(arrived == bytes);
}

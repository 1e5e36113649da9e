//! Descriptors of each kind, and their ends.

use std::io::{Read, Write};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

async fn open(pipe: &Pipe) -> Result<PipeHandle> {
    pipe.connect(&Target::file("any")).await
}

#[tokio::test]
async fn pipes_are_waited_for_and_end() {
    for blocking in [false, true] {
        let (input, mut feed) = io::pipe().unwrap();
        let (mut drain, output) = io::pipe().unwrap();
        let pipe = Pipe::of(input, output);
        let pipe = pipe.blocking(blocking);
        let mut handle = open(&pipe).await.unwrap();
        assert_eq!(matches!(handle.input, Input::Waiting(_)), !blocking);

        if !blocking {
            let waited = tokio::time::timeout(Duration::from_millis(1), handle.read_u8()).await;
            assert!(waited.is_err(), "nothing was written yet");
        }
        feed.write_all(b"in").unwrap();
        let mut two = [0; 2];
        handle.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"in");
        drop(feed);
        assert_eq!(handle.read(&mut two).await.unwrap(), 0);

        handle.write_all(b"out").await.unwrap();
        for _ in 0..3 {
            handle.shutdown().await.unwrap();
        }
        let mut text = String::new();
        drain.read_to_string(&mut text).unwrap();
        assert_eq!(text, "out");
        let error = handle.write_all(b"more").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "pipe: write: this end was shut down before"
        );
    }
}

#[tokio::test]
async fn a_full_pipe_holds_the_writer_and_loses_nothing() {
    let (input, _feed) = io::pipe().unwrap();
    let (mut drain, output) = io::pipe().unwrap();
    let mut handle = open(&Pipe::of(input, output)).await.unwrap();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        drain.read_to_end(&mut all).map(|_| all)
    });
    handle.write_all(&bytes).await.unwrap();
    handle.shutdown().await.unwrap();
    assert!(reader.join().unwrap().unwrap() == bytes);
}

#[tokio::test]
async fn the_flags_of_a_shared_pipe_stay_as_they_are() {
    let (input, feed) = io::pipe().unwrap();
    let (_drain, output) = io::pipe().unwrap();
    let shared = input.try_clone().unwrap();
    let _handle = open(&Pipe::of(input, output)).await.unwrap();
    let flags = rustix::fs::fcntl_getfl(&shared).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    drop(feed);
}

#[tokio::test]
async fn files_work_as_well_and_descriptors_open_once() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"whole").unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let pipe = Pipe::of(file, tempfile::tempfile().unwrap());
    let mut handle = open(&pipe).await.unwrap();
    let mut text = String::new();
    handle.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "whole");
    let error = open(&pipe).await.unwrap_err();
    assert!(error.to_string().ends_with("were opened before"), "{error}");
}

#[test]
fn a_peer_never_gets_it() {
    let mut registry = xio_core::Registry::new();
    registry.register(driver());
    registry.stack("pipe:blocking=yes").unwrap();
    assert!(registry.restrict(&["pipe"]).stack("pipe").is_err());
}

#[tokio::test]
async fn sockets_are_waited_for_and_end() {
    let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut handle = open(&Pipe::of(near.try_clone().unwrap(), near))
        .await
        .unwrap();
    assert!(matches!(handle.input, Input::Socket(_)));
    let waited = tokio::time::timeout(Duration::from_millis(1), handle.read_u8()).await;
    assert!(waited.is_err(), "nothing was written yet");
    far.write_all(b"in").unwrap();
    let mut two = [0; 2];
    handle.read_exact(&mut two).await.unwrap();
    assert_eq!(&two, b"in");

    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        far.read_to_end(&mut all).map(|_| (all, far))
    });
    handle.write_all(&bytes).await.unwrap();
    for _ in 0..3 {
        handle.shutdown().await.unwrap();
    }
    // The end is seen although the input is another descriptor of the same socket.
    let (all, mut far) = reader.join().unwrap().unwrap();
    assert!(all == bytes);
    far.write_all(b"x").unwrap();
    assert_eq!(handle.read_u8().await.unwrap(), b'x');
}

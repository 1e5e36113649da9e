//! Timeouts: an operation without progress ends, one with progress continues.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use xio_core::{Error, Incoming as _, Listener as _, Passive as _, Target, Transport as _};

fn target() -> Target {
    "mem:77".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_read_leaves_the_stream_usable() {
    let stack = crate::everything().stack("mem,timeout:read=30").unwrap();
    let mut listener = stack.listen(&target()).await.unwrap();
    let mut near = stack.connect(&target()).await.unwrap();
    let mut far = listener.accept().await.unwrap().open().await.unwrap();
    let began = Instant::now();
    let error = near.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(Error::layer_of(&error).unwrap().layer(), "timeout");
    assert_eq!(began.elapsed().as_secs(), 30);
    // The operation failed, not the stream.
    far.write_all(b"late").await.unwrap();
    let mut word = [0; 4];
    near.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"late");
    assert_eq!(
        near.read_u8().await.unwrap_err().kind(),
        ErrorKind::TimedOut
    );
}

#[tokio::test(start_paused = true)]
async fn timeouts_of_an_open_handle_can_change() {
    let stack = crate::everything()
        .stack("mem,timeout:all=30,count")
        .unwrap();
    let _listener = stack.listen(&target()).await.unwrap();
    let mut near = stack.connect(&target()).await.unwrap();
    near.set("timeout:read=5").unwrap();
    assert_eq!(near.get("timeout:read").unwrap(), "5");
    assert_eq!(near.get("timeout:all").unwrap(), "30");
    let began = Instant::now();
    near.read_u8().await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 5);
    let error = near.set("timeout:open=1").unwrap_err().to_string();
    assert!(error.contains("not are all, close, read, write"), "{error}");
    assert_eq!(near.get("timeout:write").unwrap(), "");
}

#[tokio::test(start_paused = true)]
async fn a_slow_peer_does_not_time_out() {
    let stack = crate::everything().stack("mem,timeout:read=30").unwrap();
    let mut listener = stack.listen(&target()).await.unwrap();
    let mut near = stack.connect(&target()).await.unwrap();
    let mut far = listener.accept().await.unwrap().open().await.unwrap();
    let began = Instant::now();
    let slow = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(29)).await;
            far.write_all(b"x").await.unwrap();
        }
        far.shutdown().await.unwrap();
    };
    let mut bytes = Vec::new();
    let ((), read) = tokio::join!(slow, near.read_to_end(&mut bytes));
    assert_eq!(read.unwrap(), 10);
    assert_eq!(began.elapsed().as_secs(), 290);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_and_repeated_read_times_out() {
    let stack = crate::everything().stack("mem,timeout:read=30").unwrap();
    let mut listener = stack.listen(&target()).await.unwrap();
    let mut near = stack.connect(&target()).await.unwrap();
    let far = listener.accept().await.unwrap().open().await.unwrap();
    let began = Instant::now();
    let error = loop {
        let waited = tokio::time::timeout(Duration::from_secs(1), near.read_u8()).await;
        if let Ok(done) = waited {
            break done.unwrap_err();
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(began.elapsed().as_secs(), 30);
    drop(far);
}

#[tokio::test(start_paused = true)]
async fn a_write_to_a_peer_that_does_not_read_times_out() {
    let stack = crate::everything()
        .stack("mem:capacity=100,timeout:write=7")
        .unwrap();
    let mut listener = stack.listen(&target()).await.unwrap();
    let mut near = stack.connect(&target()).await.unwrap();
    let far = listener.accept().await.unwrap().open().await.unwrap();
    let began = Instant::now();
    let error = near.write_all(&[0; 200]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(began.elapsed().as_secs(), 7);
    drop(far);
}

#[tokio::test(start_paused = true)]
async fn accept_has_a_timeout_of_its_own() {
    let stack = crate::everything()
        .stack("mem,timeout:all=5;accept=600")
        .unwrap();
    let mut listener = stack.listen(&target()).await.unwrap();
    let began = Instant::now();
    let error = listener.accept().await.unwrap_err();
    assert_eq!(error.kind(), xio_core::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), "timeout: accept: no progress in 600 s");
    assert_eq!(began.elapsed().as_secs(), 600);
    // The listener still accepts.
    let near = stack.connect(&target()).await.unwrap();
    listener.accept().await.unwrap().open().await.unwrap();
    drop(near);
}

#[tokio::test]
async fn tcp_connect_times_out() {
    // The queue fills: a listener with the smallest backlog that does not accept.
    let stack = crate::everything()
        .stack("tcp:backlog=0;connect_timeout=0.2")
        .unwrap();
    let listener = stack.listen(&crate::loopback()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let mut held = Vec::new();
    let error = loop {
        match stack.connect(&to).await {
            Ok(one) => held.push(one),
            Err(error) => break error,
        }
        assert!(held.len() < 1000, "the queue never filled");
    };
    assert_eq!(error.kind(), xio_core::ErrorKind::TimedOut);
    assert!(error.to_string().starts_with("tcp: connect: "), "{error}");
}

/// Without a shutdown packet the peers would wait for most of a minute.
#[test]
fn a_dropped_runtime_closes_its_udt_connections() {
    let mut theirs = tokio::runtime::Builder::new_current_thread();
    let theirs = theirs.enable_all().build().unwrap();
    let ours = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let udt = || crate::everything().stack("udt").unwrap();
    let mut listener = ours
        .block_on(async { udt().listen(&crate::loopback()).await })
        .unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let near = ours.spawn(async move { listener.accept().await?.open().await });
    let far = theirs.block_on(async { udt().connect(&to).await.unwrap() });
    let mut near = ours.block_on(near).unwrap().unwrap();
    drop(theirs);
    let read = ours.block_on(async {
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, near.read(&mut [0; 1])).await
    });
    let error = read.expect("not in time").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    drop(far);
}

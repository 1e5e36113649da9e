//! Cases of closing: shutdown, half-close, repeated shutdown, and drop.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_core::Error;

use super::{Subject, drain};

pub(super) async fn clean_end(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    near.write_all(b"all there is").await.expect("writing");
    near.shutdown().await.expect("ending in good order");
    let (bytes, ended) = drain(&mut far).await;
    ended.expect("a clean end");
    assert_eq!(bytes, b"all there is");
    for _ in 0..3 {
        assert_eq!(
            far.read(&mut [0; 8]).await.expect("the end stays the end"),
            0
        );
    }
}

pub(super) async fn half_close(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    near.write_all(b"question").await.expect("writing");
    near.shutdown().await.expect("ending in good order");
    let (bytes, ended) = drain(&mut far).await;
    ended.expect("a clean end");
    assert_eq!(bytes, b"question");
    if !subject.half_close {
        let error = near.read(&mut [0; 8]).await.expect_err("nothing can come");
        assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
        let error = refusal(&mut far).await;
        assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
        return;
    }
    // The answer is longer than any buffer.
    let answer = vec![b'a'; 300_000];
    let (sent, (bytes, ended)) = tokio::join!(
        async {
            far.write_all(&answer).await?;
            far.shutdown().await
        },
        drain(&mut near)
    );
    sent.expect("answering");
    ended.expect("a clean end in the other direction");
    assert!(bytes == answer, "the received answer differs");
}

pub(super) async fn twice(subject: &Subject) {
    let (mut near, mut far) = subject.pair().await;
    near.write_all(b"once").await.expect("writing");
    for _ in 0..3 {
        near.shutdown().await.expect("ending in good order, again");
    }
    let (bytes, ended) = drain(&mut far).await;
    ended.expect("a clean end");
    assert_eq!(bytes, b"once");
    let other = far.shutdown().await;
    // Without half-close the peer may be closed already.
    if subject.half_close {
        other.expect("ending the other direction");
    }
    near.shutdown()
        .await
        .expect("shutdown after both directions have ended");
}

/// Checks that the peer of a dropped handle reads an error and not a clean end.
async fn sees_truncation(mut far: xio_core::BoxStream, sent: &[u8]) {
    let (bytes, ended) = drain(&mut far).await;
    let error = ended.expect_err("truncation was reported as a clean end");
    assert!(
        sent.starts_with(&bytes),
        "the received bytes are not the beginning of the sent ones"
    );
    assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
}

pub(super) async fn abort(subject: &Subject) {
    if !subject.aborts {
        return;
    }
    let (mut near, far) = subject.pair().await;
    near.write_all(b"a part").await.expect("writing");
    near.flush().await.expect("flushing");
    drop(near);
    sees_truncation(far, b"a part").await;
}

pub(super) async fn abort_empty(subject: &Subject) {
    if !subject.aborts {
        return;
    }
    let (near, far) = subject.pair().await;
    drop(near);
    sees_truncation(far, b"").await;
    let (near, far) = subject.pair().await;
    drop(far);
    sees_truncation(near, b"").await;
}

/// Writes until a write fails, which may take some writes.
async fn refusal(end: &mut xio_core::BoxStream) -> std::io::Error {
    loop {
        if let Err(error) = end.write_all(&[0; 64 * 1024]).await {
            return error;
        }
    }
}

pub(super) async fn peer_left(subject: &Subject) {
    let (mut near, far) = subject.pair().await;
    drop(far);
    let error = refusal(&mut near).await;
    assert!(Error::layer_of(&error).is_some(), "{error} names no layer");
    assert!(error.kind() != std::io::ErrorKind::UnexpectedEof, "{error}");
}

//! The ends of an exchange: complete, truncated, and by dropping.

use std::io::ErrorKind;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Error, Transform as _};

use super::{answers, asks, drain, open};

#[tokio::test]
async fn a_cut_at_any_byte_is_no_clean_end() {
    for wire in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5;x\r\n56789\r\n0\r\nA: b\r\n\r\n",
    ] {
        for cut in 0..wire.len() {
            let (mut near, mut far) = asks("").await;
            far.write_all(&wire[..cut]).await.unwrap();
            far.shutdown().await.unwrap();
            let (got, ended) = drain(&mut near).await;
            let error = ended.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "cut at {cut}");
            assert_eq!(Error::layer_of(&error).unwrap().layer(), "http");
            assert!(b"0123456789".starts_with(&got));
            assert!(near.read_u8().await.is_err(), "and it stays so");
        }
    }
    let ask =
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for cut in 0..ask.len() {
        let (mut near, far) = xio_testkit::Mem::new().pair();
        near.write_all(&ask[..cut]).await.unwrap();
        near.shutdown().await.unwrap();
        let error = match super::http("").respond(far).await {
            Err(error) => error,
            Ok(mut far) => {
                let error = drain(&mut far).await.1.unwrap_err();
                Error::try_from_io(error).unwrap()
            }
        };
        assert_eq!(
            error.kind(),
            xio_core::ErrorKind::UnexpectedEof,
            "cut at {cut}: {error}"
        );
    }
}

#[tokio::test]
async fn an_entity_without_length_ends_with_the_stream() {
    let (mut near, mut far) = asks("").await;
    far.write_all(b"HTTP/1.0 200 OK\r\n\r\nall there is")
        .await
        .unwrap();
    far.shutdown().await.unwrap();
    let (got, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(got, b"all there is");
    assert!(!near.can_go_on());
}

#[tokio::test]
async fn bytes_behind_the_end_are_not_payload() {
    let (mut near, mut far) = asks("").await;
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\nno")
        .await
        .unwrap();
    assert_eq!(drain(&mut near).await.0, b"ok");
    for _ in 0..3 {
        assert_eq!(near.read(&mut [0; 4]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn dropping_in_the_middle_is_an_abort() {
    // An unfinished request, a response that has not begun, an unfinished response.
    let (mut near, mut far) = open("method=PUT", "").await;
    near.write_all(b"part").await.unwrap();
    near.flush().await.unwrap();
    drop(near);
    let (got, ended) = drain(&mut far).await;
    assert!(ended.is_err() && b"part".starts_with(&got));
    let (mut near, far) = open("", "").await;
    drop(far);
    assert!(drain(&mut near).await.1.is_err());
    let (mut near, mut far) = open("", "").await;
    far.write_all(b"part").await.unwrap();
    far.flush().await.unwrap();
    drop(far);
    assert!(drain(&mut near).await.1.is_err());
}

#[tokio::test]
async fn dropping_a_complete_exchange_is_no_abort() {
    // The response is never read, and still the whole entity arrives.
    let (mut near, mut far) = open("method=PUT", "").await;
    near.write_all(b"all").await.unwrap();
    near.shutdown().await.unwrap();
    drop(near);
    let (got, ended) = drain(&mut far).await;
    ended.unwrap();
    assert_eq!(got, b"all");
    // A GET with its response read ends cleanly.
    let (mut near, mut far) = asks("").await;
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .await
        .unwrap();
    drain(&mut near).await.1.unwrap();
    drop(near);
    let (_, ended) = drain(&mut far).await;
    ended.unwrap();
}

#[tokio::test]
async fn the_end_that_answers_ends_the_stream() {
    let (mut near, far) = answers("", "GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut far = far.unwrap();
    far.shutdown().await.unwrap();
    far.shutdown().await.unwrap();
    let (wire, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(
        wire,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
}

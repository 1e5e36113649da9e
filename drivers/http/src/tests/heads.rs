//! Heads on the wire, byte for byte.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{ErrorKind, Target, Transform as _};
use xio_testkit::Mem;

use super::{answers, asks, drain, head_of, http, target};

#[tokio::test]
async fn heads_are_as_others_write_them() {
    let (mut near, mut far) = asks("method=PUT;host=other:1").await;
    assert_eq!(
        head_of(&mut far).await,
        "PUT /a/path HTTP/1.1\r\nHost: other:1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    let (_near, mut signed) = asks("target=/a%252Fb?c=d").await;
    let head = head_of(&mut signed).await;
    assert!(head.starts_with("GET /a%2Fb?c=d HTTP/1.1"), "{head}");
    near.write_all(b"hello").await.unwrap();
    near.shutdown().await.unwrap();
    let mut wire = [0; 15];
    far.read_exact(&mut wire).await.unwrap();
    assert_eq!(&wire, b"5\r\nhello\r\n0\r\n\r\n");

    let (mut near, far) = answers("", "GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut far = far.unwrap();
    far.write_all(b"abc").await.unwrap();
    far.shutdown().await.unwrap();
    let (wire, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(
        String::from_utf8(wire).unwrap(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    );
}

#[tokio::test]
async fn clients_of_1_0_get_no_chunks() {
    let (mut near, far) = answers("", "GET /x HTTP/1.0\r\n\r\n").await;
    let mut far = far.unwrap();
    far.write_all(b"abc").await.unwrap();
    far.shutdown().await.unwrap();
    let (wire, _) = drain(&mut near).await;
    assert_eq!(wire, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
    let (mut near, far) = answers("length=3", "GET /x HTTP/1.0\r\n\r\n").await;
    let mut far = far.unwrap();
    far.write_all(b"abc").await.unwrap();
    far.shutdown().await.unwrap();
    let (wire, _) = drain(&mut near).await;
    assert_eq!(
        wire,
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    );
    let error = http("method=PUT;version=1.0")
        .initiate(Mem::new().pair().0, &target("x"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("option length"), "{error}");
}

#[tokio::test]
async fn paths_are_encoded_and_hosts_bracketed() {
    for (to, line, host) in [
        ("http://h:80/a b/%25%3f", "GET /a%20b/%25? HTTP/1.1", "h"),
        (
            "http://[2001:db8::1]:81//abs",
            "GET //abs HTTP/1.1",
            "[2001:db8::1]:81",
        ),
        ("h:9", "GET / HTTP/1.1", "h:9"),
        ("http://h/q?a=b&c={d}", "GET /q?a=b&c=%7Bd%7D HTTP/1.1", "h"),
        (
            "http://h/caf\u{e9}%0D%0AX: y",
            "GET /caf%C3%A9%0D%0AX:%20y HTTP/1.1",
            "h",
        ),
    ] {
        let (near, mut far) = Mem::new().pair();
        let to: Target = to.parse().unwrap();
        let _near = http("").initiate(near, &to).await.unwrap();
        let head = head_of(&mut far).await;
        let wanted = format!("{line}\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(head, wanted);
    }
    for (to, says) in [("/a/path", "no host"), ("http://u:p@h/x", "are not sent")] {
        let to: Target = to.parse().unwrap();
        let error = http("")
            .initiate(Mem::new().pair().0, &to)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn an_empty_response_to_head_claims_no_length() {
    let (mut near, far) = answers("", "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    far.unwrap().shutdown().await.unwrap();
    assert_eq!(
        head_of(&mut near).await,
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    );
}

//! Peers that break the protocol, are slow on purpose, or speak another one.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use xio_core::{ErrorKind, Transform as _};
use xio_testkit::{Mem, Random};

use super::{answers, asks, drain, http};
use crate::parse::MAX_HEAD;

#[tokio::test]
async fn a_bad_request_gets_its_status_and_is_refused() {
    for (sent, status, says) in [
        (
            "\x16\x03\x01\x02\x00\x01\x00\x01\x7f\x03\x03abcdefg",
            "400",
            "request line",
        ),
        ("SSH-2.0-OpenSSH_9.2p1 Debian\r\n", "400", "request line"),
        ("GET / HTTP/1.1\r\n\r\n", "400", "one host"),
        (
            "GET / HTTP/3.0\r\nHost: h\r\n\r\n",
            "505",
            "neither HTTP/1.0 nor",
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "400",
            "both given",
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
            "501",
            "transfer coding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\n",
            "400",
            "Content-Length",
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n",
            "400",
            "header field",
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n z\r\n\r\n",
            "400",
            "header field",
        ),
        ("GET / HTTP/1.1\nHost: h\n\r\n\r\n", "400", "CR LF"),
    ] {
        let (mut near, far) = answers("", sent).await;
        let error = far.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains(says), "{sent:?}: {error}");
        let (told, ended) = drain(&mut near).await;
        ended.unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(
            told.starts_with(&format!("HTTP/1.1 {status} ")),
            "{sent:?}: {told}"
        );
        assert!(told.contains("Connection: close\r\n"), "{told}");
    }
}

#[tokio::test]
async fn an_endless_head_is_cut() {
    let endless = [
        "GET / HTTP/1.1\r\nX: ".to_owned() + &"a".repeat(MAX_HEAD),
        "GET /".to_owned() + &"a".repeat(MAX_HEAD),
        "GET / HTTP/1.1\r\n".to_owned() + &"X: y\r\n".repeat(MAX_HEAD / 6 + 1),
    ];
    for sent in endless {
        let (mut near, far) = answers("", &sent).await;
        let error = far.unwrap_err().to_string();
        assert!(
            error.contains("64 KiB") || error.contains("128 fields"),
            "{error}"
        );
        assert!(drain(&mut near).await.0.starts_with(b"HTTP/1.1 431 "));
    }
    let (mut near, mut far) = asks("").await;
    let flood = async {
        far.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        loop {
            far.write_all(&b"X: y\r\n".repeat(1000)).await?;
        }
    };
    let refused = async {
        let error = near.read_u8().await.unwrap_err();
        drop(near);
        error.to_string()
    };
    let (error, flooded): (_, std::io::Result<()>) = tokio::join!(refused, flood);
    assert!(
        error.contains("64 KiB") || error.contains("128 fields"),
        "{error}"
    );
    assert!(flooded.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_ends_has_a_deadline() {
    for sent in ["", "G", "GET / HTTP/1.1\r\nHost: h\r\n"] {
        let (mut near, far) = Mem::new().pair();
        near.write_all(sent.as_bytes()).await.unwrap();
        let began = Instant::now();
        let error = http("head_timeout=5").respond(far).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        drop(near);
    }
}

#[tokio::test]
async fn bad_chunks_end_the_entity() {
    for body in [
        "5\r\nhello!\r\n",
        "+5\r\nhello\r\n",
        "zz\r\n",
        "ffffffffffffffffff\r\n",
        "0\r\nX : y\r\n\r\n",
    ] {
        let sent =
            format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let (_near, far) = answers("", sent).await;
        let mut far = far.unwrap();
        let error = drain(&mut far).await.1.unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::InvalidData,
            "{body:?}: {error}"
        );
        assert!(far.read_u8().await.is_err(), "and it stays so");
        assert!(!far.can_go_on());
    }
}

#[tokio::test]
async fn random_bytes_end_in_an_error() {
    for seed in 0..300 {
        let mut bytes = Random::new(seed).bytes(400);
        if seed % 3 == 0 {
            bytes.splice(..0, *b"GET / HTTP/1.1\r\n");
        }
        bytes.extend_from_slice(b"\r\n\r\n");
        let (_near, far) = answers("", &bytes).await;
        assert!(far.is_err(), "seed {seed}");
        let (mut near, mut far) = asks("").await;
        if seed % 3 == 0 {
            far.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        }
        far.write_all(&bytes).await.unwrap();
        far.shutdown().await.unwrap();
        assert!(drain(&mut near).await.1.is_err(), "seed {seed}");
    }
}

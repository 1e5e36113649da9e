//! Tunnels: the bytes behind a response to CONNECT.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::ErrorKind;

use super::{asks, drain, head_of, open};

// RFC 9110 §9.3.6: a client MUST ignore Content-Length and Transfer-Encoding in a 2xx to CONNECT.
#[tokio::test]
async fn a_tunnel_carries_bytes_as_they_are() {
    let (mut near, mut far) = asks("method=CONNECT;target=data.example:443;persistent=1").await;
    assert_eq!(
        head_of(&mut far).await,
        "CONNECT data.example:443 HTTP/1.1\r\nHost: host.example:8080\r\n\r\n"
    );
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nfirst")
        .await
        .unwrap();
    assert_eq!(near.receive_response().await.unwrap().status, 200);
    near.write_all(b"there").await.unwrap();
    near.flush().await.unwrap();
    let mut wire = [0; 5];
    far.read_exact(&mut wire).await.unwrap();
    assert_eq!(&wire, b"there");
    far.write_all(b"last").await.unwrap();
    far.shutdown().await.unwrap();
    let (got, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(got, b"firstlast");
}

#[tokio::test]
async fn no_tunnel_begins_without_a_2xx_or_at_the_server() {
    let (mut near, mut far) = asks("method=CONNECT;target=data.example:443").await;
    far.write_all(b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..2 {
        let error = near.receive_response().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
    }
    assert!(near.write_all(b"x").await.is_err());
    let (_near, mut far) = open("", "").await;
    far.write_all(b"x").await.unwrap();
    let error = far.receive_response().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

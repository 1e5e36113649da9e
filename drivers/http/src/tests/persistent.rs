//! One exchange after the other on one connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use xio_core::ErrorKind;

use super::{answers, asks, drain, head_of, open};
use crate::{Request, Response};

#[tokio::test]
async fn exchanges_follow_each_other() {
    let (mut near, mut far) = open("persistent=1", "persistent=1").await;
    for round in 0..5 {
        if round > 0 {
            let method = if round % 2 == 0 { "GET" } else { "PUT" };
            let mut next = Request::new(method, &format!("/{round}")).unwrap();
            next.headers.push("Host", "h").unwrap();
            let (asked, accepted) = tokio::join!(near.ask(next), far.accept());
            asked.unwrap();
            assert!(accepted.unwrap());
            assert_eq!(
                far.exchange().request().unwrap().target,
                format!("/{round}")
            );
        }
        if round % 2 == 1 {
            near.write_all(b"question").await.unwrap();
        }
        near.shutdown().await.unwrap();
        let (got, ended) = drain(&mut far).await;
        ended.unwrap();
        assert_eq!(got.is_empty(), round % 2 == 0);
        far.write_all(b"answer").await.unwrap();
        far.shutdown().await.unwrap();
        assert_eq!(drain(&mut near).await.0, b"answer");
        assert!(near.can_go_on() && far.can_go_on());
    }
    drop(near);
    assert!(!far.accept().await.unwrap(), "the peer has ended it");
}

#[tokio::test]
async fn a_status_without_entity_keeps_the_connection() {
    let (mut near, mut far) = open("method=PUT;persistent=1", "persistent=1").await;
    near.shutdown().await.unwrap();
    drain(&mut far).await.1.unwrap();
    far.exchange().reply(Response::new(204).unwrap()).unwrap();
    far.shutdown().await.unwrap();
    drain(&mut near).await.1.unwrap();
    assert!(near.can_go_on() && far.can_go_on());
}

#[tokio::test]
async fn it_ends_when_one_end_closes_it() {
    let (mut near, mut far) = open("persistent=1", "").await;
    far.shutdown().await.unwrap();
    drain(&mut near).await.1.unwrap();
    assert!(!near.can_go_on() && !far.can_go_on());
    let error = far.accept().await.unwrap_err().to_string();
    assert!(error.contains("see the option persistent"), "{error}");
    let next = Request::new("GET", "/").unwrap();
    assert!(near.ask(next).await.is_err());

    // A client of 1.0 that does not ask for it, and one that does.
    let (_near, far) = answers("persistent=1;length=0", "GET / HTTP/1.0\r\n\r\n").await;
    let mut far = far.unwrap();
    far.shutdown().await.unwrap();
    assert!(!far.can_go_on());
    let old = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let (mut near, far) = answers("persistent=1", old).await;
    let mut far = far.unwrap();
    far.shutdown().await.unwrap();
    assert!(far.can_go_on());
    assert!(
        head_of(&mut near)
            .await
            .contains("Connection: keep-alive\r\n")
    );
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_turn() {
    let sent = "PUT /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
    let (mut near, far) = answers("persistent=1", sent).await;
    let mut far = far.unwrap();
    let mut body = Vec::new();
    far.read_to_end(&mut body).await.unwrap();
    assert_eq!(body, b"abc");
    far.shutdown().await.unwrap();
    assert!(far.accept().await.unwrap());
    assert_eq!(far.exchange().request().unwrap().target, "/2");
    far.write_all(b"x").await.unwrap();
    far.shutdown().await.unwrap();
    assert!(head_of(&mut near).await.contains("Content-Length: 0"));
    assert!(
        head_of(&mut near)
            .await
            .contains("Transfer-Encoding: chunked")
    );
}

#[tokio::test]
async fn no_request_follows_an_incomplete_exchange() {
    let (mut near, mut far) = asks("persistent=1;method=PUT").await;
    let next = Request::new("GET", "/").unwrap();
    let error = near.ask(next.clone()).await.unwrap_err().to_string();
    assert!(error.contains("not at its end"), "{error}");
    near.shutdown().await.unwrap();
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
        .await
        .unwrap();
    near.read_u8().await.unwrap();
    assert!(near.ask(next).await.is_err());
}

/// A client with one complete exchange, which may send another request.
async fn asked() -> (
    crate::HttpHandle<xio_testkit::MemHandle>,
    xio_testkit::MemHandle,
) {
    let (mut near, mut far) = asks("persistent=1").await;
    head_of(&mut far).await;
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .await
        .unwrap();
    assert_eq!(drain(&mut near).await.0, b"ok");
    (near, far)
}

#[tokio::test]
async fn a_request_that_peers_could_read_in_two_ways_is_not_sent() {
    let (mut near, mut far) = asked().await;
    let ask = |method: &str, fields: &[(&str, &str)]| {
        let mut next = Request::new(method, "/next").unwrap();
        for (name, value) in fields {
            next.headers.push(name, value).unwrap();
        }
        next
    };
    let host = ("Host", "h");
    let mut split = ask("GET", &[host]);
    split.target = "/ HTTP/1.1\r\nX: y".to_owned();
    let mut odd = ask("GET", &[host]);
    odd.method = "GET /x HTTP/1.1\r\nX: y\r\n\r\nGET".to_owned();
    for next in [
        ask("PUT", &[host, ("Content-Length", "5")]),
        ask("PUT", &[host, ("transfer-encoding", "chunked")]),
        ask("GET", &[host, ("Connection", "close")]),
        ask("GET", &[]),
        ask("GET", &[host, host]),
        split,
        odd,
    ] {
        let error = near.ask(next.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption, "{next:?}: {error}");
        assert!(near.can_go_on(), "{next:?}: nothing was begun");
    }
    near.ask(ask("GET", &[host])).await.unwrap();
    assert_eq!(
        head_of(&mut far).await,
        "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
    );
}

#[tokio::test]
async fn a_response_ahead_of_its_request_is_refused() {
    let (mut near, mut far) = asks("persistent=1").await;
    far.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
          HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
    )
    .await
    .unwrap();
    assert_eq!(drain(&mut near).await.0, b"ok");
    assert!(!near.can_go_on());
    let mut next = Request::new("GET", "/next").unwrap();
    next.headers.push("Host", "h").unwrap();
    assert!(near.ask(next).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn every_further_request_has_its_deadline() {
    let first = "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /ne";
    let (mut near, far) = answers("persistent=1;head_timeout=5", first).await;
    let mut far = far.unwrap();
    far.shutdown().await.unwrap();
    let began = Instant::now();
    let error = far.accept().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    // The bytes received so far are kept.
    near.write_all(b"xt HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    assert!(far.accept().await.unwrap());
    assert_eq!(far.exchange().request().unwrap().target, "/next");
}

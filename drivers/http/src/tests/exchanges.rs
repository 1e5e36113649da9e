//! Exchanges on the wire: methods, versions, lengths, statuses.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Error, ErrorKind, Stream as _, Transform as _};
use xio_testkit::driver_suite::accepted_bytes_are_sent_by_a_reader;
use xio_testkit::{Mem, Random};

use super::{answers, asks, drain, head_of, http, open, target};
use crate::{Exchange, Response, Version};

#[tokio::test]
async fn get_reads_the_resource_at_the_path() {
    let (mut near, mut far) = open("header=#Accept: */*#Range: bytes=5-", "").await;
    let asked = far.exchange().request().unwrap();
    assert_eq!(
        (asked.method.as_str(), asked.target.as_str()),
        ("GET", "/a/path")
    );
    assert_eq!(asked.version, Version::Http11);
    assert_eq!(asked.headers.get("host"), Some("host.example:8080"));
    assert_eq!(asked.headers.get("range"), Some("bytes=5-"));
    let bytes = Random::new(1).bytes(500_000);
    let ((), (got, ended)) = tokio::join!(
        async {
            far.write_all(&bytes).await.unwrap();
            far.shutdown().await.unwrap();
        },
        drain(&mut near)
    );
    ended.unwrap();
    assert!(got == bytes);
    let answer = near.response().unwrap();
    assert_eq!((answer.status, answer.reason.as_str()), (200, "OK"));
    assert_eq!(near.info().chain, ["mem", "http"]);
    let seen = near.info().get::<Exchange>().unwrap().response();
    assert_eq!(seen, Some(answer));
}

#[tokio::test]
async fn put_writes_it() {
    for (asks, framed) in [
        ("method=PUT", "transfer-encoding"),
        ("method=PUT;length=300000", "content-length"),
        ("method=POST;version=1.0;length=300000", "content-length"),
    ] {
        let (mut near, mut far) = open(asks, "status=201").await;
        let asked = far.exchange().request().unwrap();
        assert!(asked.headers.get(framed).is_some(), "{asked:?}");
        let bytes = Random::new(2).bytes(300_000);
        let ((), (got, ended)) = tokio::join!(
            async {
                near.write_all(&bytes).await.unwrap();
                near.shutdown().await.unwrap();
            },
            drain(&mut far)
        );
        ended.unwrap();
        assert!(got == bytes, "{asks}");
        far.shutdown().await.unwrap();
        let (got, ended) = drain(&mut near).await;
        ended.unwrap();
        assert_eq!((got.len(), near.response().unwrap().status), (0, 201));
    }
}

#[tokio::test]
async fn a_status_that_is_no_success_is_an_error() {
    for (head, kind, says) in [
        (
            "404 Not Found",
            ErrorKind::NotFound,
            "answers 404 Not Found for /a/path",
        ),
        ("403 Forbidden", ErrorKind::Denied, "403 Forbidden"),
        ("503 Busy", ErrorKind::Refused, "503 Busy"),
        ("500 Oops", ErrorKind::Io, "500 Oops"),
        ("599", ErrorKind::Io, "answers 599 for"),
        (
            "302 Found\r\nLocation: http://else/where",
            ErrorKind::Unsupported,
            "it is now at http://else/where; this layer follows no redirects",
        ),
        (
            "304 Not Modified",
            ErrorKind::Unsupported,
            "304 Not Modified",
        ),
    ] {
        let (mut near, mut far) = asks("").await;
        let wire = format!("HTTP/1.1 {head}\r\nContent-Length: 4\r\n\r\nbody");
        far.write_all(wire.as_bytes()).await.unwrap();
        for _ in 0..2 {
            let error = near.read_u8().await.unwrap_err();
            let error = Error::layer_of(&error).unwrap();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(near.response().is_some());
    }
    let (mut near, mut far) = asks("any_status=1").await;
    far.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody")
        .await
        .unwrap();
    let (got, ended) = drain(&mut near).await;
    ended.unwrap();
    assert_eq!(
        (got.as_slice(), near.response().unwrap().status),
        (&b"body"[..], 404)
    );
}

#[tokio::test]
async fn a_server_that_refuses_early_is_heard() {
    // The peer responds before it has read everything, and reads no more.
    let (near, mut far) = Mem::new().capacity(1000).pair();
    let mut near = http("method=PUT")
        .initiate(near, &target("x"))
        .await
        .unwrap();
    head_of(&mut far).await;
    far.write_all(b"HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 0\r\n\r\n")
        .await
        .unwrap();
    let writing = async {
        loop {
            if let Err(error) = near.write_all(&[0; 5000]).await {
                return error;
            }
        }
    };
    let (error, ()) = tokio::join!(writing, async {
        far.shutdown().await.unwrap();
        drop(far);
    });
    // The response may be lost with the connection, but must not become another error.
    let error = Error::layer_of(&error).unwrap();
    assert!(
        error.to_string().contains("507") || error.kind() == ErrorKind::Reset,
        "{error}"
    );
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let (mut near, mut far) = asks("method=PUT").await;
    far.write_all(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
          HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await
    .unwrap();
    assert_eq!(drain(&mut near).await.0, b"ok");
    for (wire, says) in [
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
            "switches protocols",
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\n".repeat(100),
            "too many interim responses",
        ),
    ] {
        let (mut near, mut far) = asks("").await;
        far.write_all(wire.as_bytes()).await.unwrap();
        let error = near.read_u8().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_client_that_expects_a_100_gets_it_once_the_server_reads() {
    let ask = "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n";
    let (mut near, far) = answers("", ask).await;
    let mut far = far.unwrap();
    let reading = async {
        let got = drain(&mut far).await.0;
        far.shutdown().await.unwrap();
        got
    };
    let sending = async {
        assert_eq!(head_of(&mut near).await, "HTTP/1.1 100 Continue\r\n\r\n");
        near.write_all(b"hello").await.unwrap();
        head_of(&mut near).await
    };
    let (got, head) = tokio::join!(reading, sending);
    assert_eq!(got, b"hello");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");

    // A server that responds without reading sends no 100.
    let (mut near, far) = answers("status=413", ask).await;
    far.unwrap().shutdown().await.unwrap();
    assert!(head_of(&mut near).await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn the_application_sets_the_response() {
    let (mut near, mut far) = open("any_status=1", "").await;
    let mut answer = Response::new(404).unwrap();
    answer.headers.push("X-Why", "not here").unwrap();
    answer.headers.push("Content-Length", "4").unwrap();
    far.exchange().reply(answer.clone()).unwrap();
    far.write_all(b"gone").await.unwrap();
    far.shutdown().await.unwrap();
    assert_eq!(drain(&mut near).await.0, b"gone");
    let got = near.response().unwrap();
    assert_eq!(
        (got.status, got.headers.get("x-why")),
        (404, Some("not here"))
    );
    assert_eq!(got.headers.all("content-length").count(), 1);
    assert!(
        far.exchange().reply(answer.clone()).is_err(),
        "it is too late"
    );
    assert!(
        near.exchange().reply(answer.clone()).is_err(),
        "this end asked"
    );
    let (_near, far) = open("", "").await;
    answer.headers.push("Transfer-Encoding", "chunked").unwrap();
    assert!(far.exchange().reply(answer).is_err());
}

#[tokio::test]
async fn head_has_no_entity_and_neither_has_204() {
    let (mut near, mut far) = open("method=HEAD", "length=1000").await;
    far.write_all(b"what a GET would give").await.unwrap();
    far.shutdown().await.unwrap();
    assert_eq!(drain(&mut near).await.0, b"");
    assert_eq!(
        near.response().unwrap().headers.get("content-length"),
        Some("1000")
    );
    let (mut near, mut far) = open("method=PUT", "status=204").await;
    near.shutdown().await.unwrap();
    let error = far.write_all(b"x").await.unwrap_err().to_string();
    assert!(error.contains("has no entity"), "{error}");
    far.shutdown().await.unwrap();
    assert_eq!(drain(&mut near).await.0, b"");
    // A GET has none, and a write to it fails.
    let (mut near, _far) = open("", "").await;
    let error = near.write_all(b"x").await.unwrap_err().to_string();
    assert!(
        error.contains("a GET has no entity; see the option method"),
        "{error}"
    );
}

#[tokio::test]
async fn lengths_are_kept_to() {
    let (mut near, _far) = open("method=PUT;length=5", "").await;
    let error = near.write_all(b"123456").await.unwrap_err().to_string();
    assert!(error.contains("more than the 5"), "{error}");
    near.write_all(b"123").await.unwrap();
    let error = near.shutdown().await.unwrap_err().to_string();
    assert!(error.contains("2 bytes before"), "{error}");
    near.write_all(b"45").await.unwrap();
    near.shutdown().await.unwrap();
    let error = near.write_all(b"6").await.unwrap_err().to_string();
    assert!(error.contains("shut down before"), "{error}");
}

#[tokio::test]
async fn a_delayed_request_waits_for_the_first_write_or_read() {
    let (near, mut far) = Mem::new().pair();
    let layer = http("method=PUT;delay_write_header=1");
    let mut near = layer.initiate(near, &target("x")).await.unwrap();
    let mut peek = [0; 1];
    let waiting = async {
        tokio::select! {
            biased;
            _ = far.read(&mut peek) => panic!("something came"),
            () = std::future::ready(()) => {}
        }
    };
    waiting.await;
    near.write_all(b"x").await.unwrap();
    assert!(head_of(&mut far).await.starts_with("PUT /x "));

    let (near, mut far) = Mem::new().pair();
    let layer = http("delay_write_header=1");
    let mut near = layer.initiate(near, &target("y")).await.unwrap();
    let (read, ()) = tokio::join!(near.read_u8(), async {
        assert!(head_of(&mut far).await.starts_with("GET /y "));
        far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz")
            .await
            .unwrap();
    });
    assert_eq!(read.unwrap(), b'z');
}

#[tokio::test]
async fn every_way_of_cutting_carries_every_byte() {
    for (chunk, seed) in [(1, 0), (3, 1), (50, 2), (5000, 3)] {
        for (asks, answers) in [
            ("method=POST", ""),
            ("method=POST;length=30000", "length=20000"),
        ] {
            let (near, far) = Mem::new().chunks(chunk).seed(seed).capacity(700).pair();
            let (client, server, to) = (http(asks), http(answers), target("x"));
            let (near, far) = tokio::join!(client.initiate(near, &to), server.respond(far));
            let (near, far) = (near.unwrap(), far.unwrap());
            let (there, back) = (Random::new(7).bytes(30_000), Random::new(8).bytes(20_000));
            let (mut near_in, mut near_out) = tokio::io::split(near);
            let (mut far_in, mut far_out) = tokio::io::split(far);
            let (mut at_far, mut at_near) = (Vec::new(), Vec::new());
            let (a, b, c, d) = tokio::join!(
                async {
                    near_out.write_all(&there).await?;
                    near_out.shutdown().await
                },
                async {
                    far_out.write_all(&back).await?;
                    far_out.shutdown().await
                },
                far_in.read_to_end(&mut at_far),
                near_in.read_to_end(&mut at_near),
            );
            a.and(b).unwrap();
            assert_eq!((c.unwrap(), d.unwrap()), (there.len(), back.len()));
            assert!(at_far == there && at_near == back, "chunks of {chunk}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_flushing_task_is_woken_while_another_task_reads() {
    // The layer below holds bytes back, so that a flush waits; it keeps one waker for each
    // direction.
    let (near, far) = Mem::new().capacity(1000).pair();
    let (outer, to) = (http("method=PUT"), target("x"));
    let (near, far) = tokio::join!(outer.initiate(near, &to), outer.respond(far));
    let (near, far) = tokio::join!(
        outer.initiate(near.unwrap(), &to),
        outer.respond(far.unwrap())
    );
    let (mut near_in, mut near_out) = tokio::io::split(near.unwrap());
    let mut far = far.unwrap();
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        near_in.read_to_end(&mut got).await.map(|_| got)
    });
    for ends in [false, true] {
        let writer = tokio::spawn(async move {
            near_out.write_all(&[9; 50_000]).await.unwrap();
            match ends {
                false => near_out.flush().await.unwrap(),
                true => near_out.shutdown().await.unwrap(),
            }
            near_out
        });
        // The writer waits by then, and the reader waits again for more.
        let go_on = async || {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        go_on().await;
        far.write_all(b"x").await.unwrap();
        far.flush().await.unwrap();
        go_on().await;
        far.read_exact(&mut [0; 50_000]).await.unwrap();
        let limit = Duration::from_secs(60);
        near_out = tokio::time::timeout(limit, writer)
            .await
            .expect("the flushing task was not woken")
            .unwrap();
    }
    far.shutdown().await.unwrap();
    assert_eq!(reader.await.unwrap().unwrap(), b"xx");
}

#[tokio::test]
async fn empty_slices_are_skipped() {
    for asks in ["method=PUT", "method=PUT;length=3"] {
        let (mut near, mut far) = open(asks, "").await;
        let mut slices = vec![std::io::IoSlice::new(b""); 100];
        slices.push(std::io::IoSlice::new(b"abc"));
        assert_eq!(near.write_vectored(&slices).await.unwrap(), 3);
        near.shutdown().await.unwrap();
        assert_eq!(drain(&mut far).await.0, b"abc");
    }
}

#[tokio::test]
async fn an_answer_that_peers_could_not_read_is_refused() {
    let (_near, far) = open("", "").await;
    for length in ["+5", "5, 5", "five", "", "\u{e9}"] {
        let mut answer = Response::new(200).unwrap();
        answer.headers.push("Content-Length", length).unwrap();
        let error = far.exchange().reply(answer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption, "{length:?}: {error}");
    }
    let mut answer = Response::new(200).unwrap();
    answer.headers.push("Content-Length", "5").unwrap();
    answer.headers.push("Content-Length", "6").unwrap();
    assert!(far.exchange().reply(answer).is_err());
    for status in [100, 101, 99, 1000] {
        let mut answer = Response::new(200).unwrap();
        answer.status = status;
        assert!(far.exchange().reply(answer).is_err(), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_sends_the_rest_of_the_writes_before_one_that_was_given_up() {
    let (near, far) = Mem::new().capacity(1000).pair();
    let (asks, answers, to) = (http("method=PUT"), http(""), target("a"));
    let (near, far) = tokio::join!(asks.initiate(near, &to), answers.respond(far));
    accepted_bytes_are_sent_by_a_reader(near.unwrap(), far.unwrap()).await;
}

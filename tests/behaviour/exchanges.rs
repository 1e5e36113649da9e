//! HTTP exchanges over several kinds of streams.
//!
//! Over `udt` they replace the driver suite, in which both ends write and end at once: UDT ends
//! both directions together, so a response that ends first would cut the request off.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Incoming as _, Listener as _, Passive as _, Target, Transport as _};
use xio_testkit::Random;

/// Runs an exchange over `below` with the body `question` in the request and `answer` in the
/// response.
async fn exchange(below: &str, method: &str, question: &[u8], answer: &[u8]) {
    let text = crate::secured::fill_in(&format!("{below},http:method={method}"));
    let stack = crate::everything().stack(&text).unwrap();
    let mut listener = stack.listen(&crate::loopback()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let asking = async {
        let mut near = stack.connect(&to).await.unwrap();
        near.write_all(question).await.unwrap();
        near.shutdown().await.unwrap();
        let mut got = Vec::new();
        near.read_to_end(&mut got).await.unwrap();
        assert!(got == answer, "{below}: the response body differs");
    };
    let answering = async {
        let mut far = listener.accept().await.unwrap().open().await.unwrap();
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert!(got == question, "{below}: the request body differs");
        far.write_all(answer).await.unwrap();
        far.shutdown().await.unwrap();
    };
    tokio::join!(asking, answering);
}

#[tokio::test]
async fn get_and_put_over_everything() {
    let bytes = Random::new(41).bytes(300_000);
    for below in ["tcp", "tcp,tls:OWN", "udt", "udt,tls:OWN"] {
        exchange(below, "GET", b"", &bytes).await;
        exchange(below, "PUT", &bytes, b"taken").await;
    }
}

/// With `udt` an end closes both directions, so closing after the last byte must not be an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_has_read_to_the_end_may_close() {
    for stack in ["udt,http", "udt,tls:OWN", "udt,tls:OWN,http"] {
        let text = crate::secured::fill_in(stack);
        let stack = crate::everything().stack(&text).unwrap();
        let mut listener = stack.listen(&crate::loopback()).await.unwrap();
        let to = Target::from(listener.info().local.unwrap());
        for _ in 0..50 {
            let opening = stack.connect(&to);
            let (near, far) = tokio::join!(opening, async {
                listener.accept().await.unwrap().open().await.unwrap()
            });
            let mut near = near.unwrap();
            let reading = tokio::spawn(async move {
                near.read_to_end(&mut Vec::new()).await.unwrap();
            });
            let mut far = far;
            far.write_all(b"hello").await.unwrap();
            far.shutdown().await.unwrap();
            reading.await.unwrap();
        }
    }
}

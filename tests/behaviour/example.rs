//! The example `open`, on each kind of contact that it names.

#[path = "../../crates/xio/examples/open.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod program;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Incoming as _, Listener as _, Passive as _};

/// Runs the example on a stack whose peer sends `says`; returns its output, and the peer's data.
async fn opened(text: &str, input: &[u8], says: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let text = crate::secured::fill_in(text);
    let stack = crate::everything().stack(&text).unwrap();
    let mut listener = stack.listen(&crate::loopback()).await.unwrap();
    let at = listener.info().local.unwrap();
    let contact = match text.ends_with("http") {
        true => format!("http://{at}/"),
        false => at.to_string(),
    };
    let (mut output, mut got) = (Vec::new(), Vec::new());
    let peer = async {
        let mut far = listener.accept().await.unwrap().open().await.unwrap();
        if !says.is_empty() {
            far.write_all(says).await.unwrap();
            far.shutdown().await.unwrap();
        }
        // A shutdown may have ended both directions.
        let ended = far.read_to_end(&mut got).await;
        assert!(ended.is_ok() || !says.is_empty(), "{text}: {ended:?}");
        let _ = far.shutdown().await;
    };
    let opening = program::open((&text, &contact), (input, &mut output));
    let (done, ()) = tokio::join!(opening, peer);
    done.unwrap_or_else(|error| panic!("{text}: {error}"));
    (output, got)
}

#[tokio::test]
async fn a_file_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, "some bytes").unwrap();
    let (at, mut output) = (path.to_str().unwrap(), Vec::new());
    let done = program::open(("file", at), (&b""[..], &mut output)).await;
    done.unwrap();
    assert_eq!(output, b"some bytes");

    for input in [&b"others"[..], b""] {
        let done = program::open(("file:flags=w", at), (input, &mut output)).await;
        done.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), input);
    }
    let stack = "file:flags=w,verify";
    let done = program::open((stack, at), (&b"others"[..], &mut output)).await;
    done.unwrap();
    assert_eq!(output, b"some bytes");
}

#[tokio::test]
async fn data_of_either_end_arrives_over_every_stack() {
    let bytes = xio_testkit::Random::new(4).bytes(300_000);
    for stack in ["tcp", "tcp,http", "udt,http", "udt", "udt,tls:OWN"] {
        assert!(opened(stack, b"", &bytes).await.0 == bytes, "{stack}");
    }
    for stack in ["tcp", "tcp,tls:OWN", "udt", "udt,tls:OWN"] {
        assert!(opened(stack, &bytes, b"").await.1 == bytes, "{stack}");
    }
    let (answer, question) = opened("tcp", b"question", b"answer").await;
    assert_eq!(
        (&answer[..], &question[..]),
        (&b"answer"[..], &b"question"[..])
    );
}

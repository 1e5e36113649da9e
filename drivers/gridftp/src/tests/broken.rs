//! A server that follows a script: it breaks off, lies about the end, or falls silent.

use xio_testkit::ftp::{Reaction, ScriptedServer};

use super::*;

const WHOLE: &[u8] = b"0123456789";

/// The server's act on the first `RETR`: the number of sent bytes, and the reaction after them.
type Act = (usize, Reaction);

/// Serves the first `RETR` by an act, and others well.
fn serve((bytes, then): Act) -> Target {
    let server = ScriptedServer::with(move |server, line| {
        let first = server.count("RETR") == 1;
        match line.split(' ').next() {
            Some("RETR") if first && bytes == 0 => then.clone(),
            Some("RETR") if first => Reaction::Until(bytes),
            Some("MIDWAY") if first => then.clone(),
            _ => Reaction::Usual,
        }
    })
    .unwrap();
    server.file("/file", WHOLE);
    server.url("file").parse().unwrap()
}

/// Reads to the first error.
async fn cut(handle: &mut GridftpHandle) -> (Vec<u8>, io::Error) {
    let mut bytes = Vec::new();
    let error = handle.read_to_end(&mut bytes).await.unwrap_err();
    (bytes, error)
}

#[tokio::test]
async fn a_download_that_ends_early_is_no_end() {
    for act in [
        (4, Reaction::say("426 cut off")),
        (4, Reaction::say("226 all of it")),
        (10, Reaction::say("451 disk trouble")),
        (10, Reaction::HangUp(String::new())),
    ] {
        let came = act.0;
        let to = serve(act.clone());
        let mut handle = Gridftp::default().connect(&to).await.unwrap();
        let (bytes, error) = cut(&mut handle).await;
        assert_eq!(bytes, WHOLE[..came], "{act:?}");
        assert_eq!(
            error.kind(),
            io::ErrorKind::UnexpectedEof,
            "{act:?}: {error}"
        );
        let text = error.to_string();
        assert!(text.starts_with("gridftp: read: "), "{text}");
        assert!(
            text.contains(&format!("ends at byte {came}, read on from there")),
            "{text}"
        );
        // The next read asks for the rest, and gets it.
        let mut rest = Vec::new();
        handle.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, WHOLE[came..], "{act:?}");
    }
}

#[tokio::test]
async fn silence_has_a_deadline() {
    let to = serve((3, Reaction::Silence));
    let mut handle = gridftp("stall=0.4").connect(&to).await.unwrap();
    let (bytes, error) = cut(&mut handle).await;
    assert_eq!(bytes, b"012");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
}

#[tokio::test]
async fn a_refusal_is_told_as_it_is() {
    let to = serve((0, Reaction::say("550 no such file")));
    let mut handle = Gridftp::default().connect(&to).await.unwrap();
    let (bytes, error) = cut(&mut handle).await;
    assert_eq!(bytes, b"");
    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    assert_eq!(handle.read_u8().await.unwrap(), b'0');
}

//! Cases of opening: chain, addresses, refusal, and dropped operations.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_core::{ErrorKind, Incoming, Listener, Passive, Stream, Transport};

use super::{Subject, contact, drain, once};

pub(super) async fn chain(subject: &Subject) {
    let mut listener = subject.stack.listen(&subject.at).await.expect("listening");
    assert_eq!(listener.info().chain, subject.chain, "the listener's chain");
    let place = listener.info().local;
    let to = contact(&listener);
    let (near, far) = tokio::join!(subject.stack.connect(&to), async {
        let incoming = listener.accept().await.expect("accepting");
        assert_eq!(
            incoming.info().chain,
            subject.chain,
            "the incoming peer's chain"
        );
        assert_eq!(
            incoming.info().peer.is_some(),
            place.is_some(),
            "the peer's address is known before any handshake, if peers have addresses"
        );
        incoming.open().await
    });
    let (near, far) = (near.expect("connecting"), far.expect("opening"));
    for end in [&near, &far] {
        assert_eq!(end.info().chain, subject.chain, "the handle's chain");
    }
    let (near, far) = (near.info(), far.info());
    assert_eq!(near.peer.map(|a| a.port()), place.map(|a| a.port()));
    assert_eq!(
        (near.local, near.peer),
        (far.peer, far.local),
        "the addresses of both ends agree"
    );
}

pub(super) async fn port_zero(subject: &Subject) {
    let first = subject.stack.listen(&subject.at).await.expect("listening");
    let second = subject
        .stack
        .listen(&subject.at)
        .await
        .expect("listening again");
    let (first, second) = (contact(&first), contact(&second));
    assert!(
        first.port != Some(0) && second.port != Some(0) && first != second,
        "{first} and {second}"
    );
}

pub(super) async fn refused(subject: &Subject) {
    let listener = subject.stack.listen(&subject.at).await.expect("listening");
    let to = contact(&listener);
    drop(listener);
    let error = subject
        .stack
        .connect(&to)
        .await
        .expect_err("no listener at this address");
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.is_transient(), "a listener may start later");
    assert!(
        subject.chain.iter().any(|name| name == error.layer()),
        "{error} names no layer"
    );
}

pub(super) async fn accept_cancelled(subject: &Subject) {
    let mut listener = subject.stack.listen(&subject.at).await.expect("listening");
    let to = contact(&listener);
    for _ in 0..3 {
        assert!(
            once(listener.accept()).await.is_none(),
            "no peer has connected yet"
        );
    }
    let (near, far) = tokio::join!(subject.stack.connect(&to), async {
        listener
            .accept()
            .await
            .expect("the peer is still in the queue")
            .open()
            .await
    });
    let (mut near, mut far) = (near.expect("connecting"), far.expect("opening"));
    near.write_all(b"x").await.expect("writing");
    near.flush().await.expect("flushing");
    assert_eq!(far.read_u8().await.expect("reading"), b'x');
}

pub(super) async fn connect_cancelled(subject: &Subject) {
    let mut listener = subject.stack.listen(&subject.at).await.expect("listening");
    let to = contact(&listener);
    drop(once(subject.stack.connect(&to)).await);
    // The dropped connection may be in the queue, without data and closed.
    let sending = async {
        let mut near = subject.stack.connect(&to).await.expect("connecting");
        near.write_all(b"alive").await.expect("writing");
        near.shutdown().await.expect("ending in good order");
        near
    };
    let receiving = async {
        loop {
            let incoming = listener.accept().await.expect("accepting");
            let Ok(mut far) = incoming.open().await else {
                continue;
            };
            match drain(&mut far).await {
                (bytes, Ok(())) if bytes == b"alive" => return,
                (bytes, _) => assert!(bytes.is_empty(), "{bytes:?} of a dropped connection"),
            }
        }
    };
    let (_near, ()) = tokio::join!(sending, receiving);
}

pub(super) async fn turned_away(subject: &Subject) {
    let mut listener = subject.stack.listen(&subject.at).await.expect("listening");
    let to = contact(&listener);
    let (near, ()) = tokio::join!(subject.stack.connect(&to), async {
        drop(listener.accept().await.expect("accepting"));
    });
    // A layer with a handshake fails there, one without fails at the first read.
    if let Ok(mut near) = near {
        let (bytes, ended) = drain(&mut near).await;
        assert!(
            bytes.is_empty() && (ended.is_err() || !subject.aborts),
            "a refused peer reads a clean end"
        );
    }
}

pub(super) async fn no_handshake_in_accept(subject: &Subject) {
    if !subject.concurrent {
        return;
    }
    let mut listener = subject.stack.listen(&subject.at).await.expect("listening");
    let to = contact(&listener);
    let ((first, second), ()) = tokio::join!(
        async { tokio::join!(subject.stack.connect(&to), subject.stack.connect(&to)) },
        async {
            // Both are accepted before either is opened, the second first.
            let early = listener.accept().await.expect("accepting the first");
            let late = listener.accept().await.expect("accepting the second");
            let mut opened = Vec::new();
            for incoming in [late, early] {
                opened.push(incoming.open().await.expect("opening"));
            }
            for far in &mut opened {
                far.shutdown().await.expect("ending in good order");
            }
        }
    );
    for near in [first, second] {
        let (bytes, ended) = drain(&mut near.expect("connecting")).await;
        assert!(bytes.is_empty());
        ended.expect("a clean end");
    }
}

//! Control connections and the data connections that resume their sessions.

use std::future::Future;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use xio_core::{ErrorKind, Operation, Result};
use xio_testkit::{Authority, Mem};

use super::{HOST, drain, identity, roots};
use crate::{Tls, TlsEnd, TlsHandle, TlsSession};

const LIMIT: Duration = Duration::from_secs(20);

type Handle = TlsHandle<xio_testkit::MemHandle>;

/// Runs a handshake, and a word of the server, behind which the tickets lie.
async fn opened(
    near: impl Future<Output = Result<Handle>>,
    client: &TlsEnd,
    far: xio_testkit::MemHandle,
) -> Result<Handle> {
    let (near, far) = tokio::join!(near, client.open(far, Operation::Connect));
    let mut near = near?;
    near.write_all(b"220").await.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(drain(&mut far.unwrap()).await.0, b"220");
    Ok(near)
}

async fn control(session: &TlsSession, client: &TlsEnd) {
    let (near, far) = Mem::new().pair();
    let opened = opened(session.control(near, LIMIT), client, far).await;
    assert!(!opened.unwrap().tls_info().resumed);
}

async fn data(session: &TlsSession, client: &TlsEnd, must_resume: bool) -> Result<bool> {
    let (near, far) = Mem::new().pair();
    let opened = opened(session.data(near, LIMIT, must_resume), client, far).await?;
    Ok(opened.tls_info().resumed)
}

#[tokio::test]
async fn only_the_client_of_a_control_connection_resumes_its_session() {
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    let server = Tls::server(identity(&own)).build_server().unwrap();
    let client = || {
        let built = Tls::client(roots(&authority)).build_client(HOST);
        built.unwrap().0
    };
    let (session, other) = (server.session(), server.session());
    let (client, stranger) = (client(), client());
    control(&session, &client).await;
    for _ in 0..40 {
        assert!(data(&session, &client, true).await.unwrap());
    }
    // A stranger that was served without a session has no more of one afterwards.
    assert!(!data(&session, &stranger, false).await.unwrap());
    let refused = data(&session, &stranger, true).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Security);
    control(&other, &stranger).await;
    assert!(data(&other, &stranger, true).await.unwrap());
    assert!(data(&session, &stranger, true).await.is_err());
    assert!(data(&session, &client, true).await.unwrap());
}

/// A certificate whose choice takes until another task of the same reactor has had its turn.
#[derive(Debug)]
struct Slow {
    resolver: Arc<dyn ResolvesServerCert>,
    begun: UnboundedSender<()>,
    free: Mutex<mpsc::Receiver<()>>,
}

impl ResolvesServerCert for Slow {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.begun.send(()).unwrap();
        let free = self.free.lock().unwrap().recv_timeout(LIMIT);
        free.ok().and_then(|()| self.resolver.resolve(hello))
    }
}

/// Handshakes that strangers begin do not keep sessions waiting.
#[tokio::test]
async fn the_reactor_goes_on_beside_a_handshake() {
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    let both = Tls::server(identity(&own)).build().unwrap();
    let mut config = Arc::unwrap_or_clone(both.passive.unwrap());
    let (begun, mut working) = unbounded_channel();
    let (go, free) = mpsc::channel();
    config.cert_resolver = Arc::new(Slow {
        resolver: config.cert_resolver,
        begun,
        free: Mutex::new(free),
    });
    let session = crate::TlsServer::new(config).session();
    let client = Tls::client(roots(&authority)).build_client(HOST);
    let client = client.unwrap().0;
    let other = async {
        working.recv().await.unwrap();
        go.send(()).unwrap();
    };
    assert_eq!(session.handshake_time(), Duration::ZERO);
    tokio::join!(control(&session, &client), other);
    assert!(session.handshake_time() > Duration::ZERO);
}

/// Clients of OpenSSL keep one ticket of the control connection, and read none while they send.
#[tokio::test]
async fn a_client_is_known_to_resume_while_it_holds_a_ticket_for_sure() {
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    let server = Tls::server(identity(&own)).build_server().unwrap();
    let client = Tls::client(roots(&authority)).build_client(HOST);
    let (client, session) = (client.unwrap().0, server.session());
    control(&session, &client).await;
    assert!(session.begin() && !session.can_resume());
    assert!(data(&session, &client, false).await.unwrap());
    assert!(!session.can_resume(), "the ticket is spent");
    session.delivered();
    assert!(!session.begin() && session.can_resume());
    assert!(data(&session, &client, true).await.unwrap());
    session.begin();
    session.delivered();
    assert!(!session.can_resume(), "it sent, and read no ticket");
}

/// A connection that resumes goes before the first one that does not.
#[tokio::test(start_paused = true)]
async fn a_connection_without_a_session_gives_way() {
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    let server = Tls::server(identity(&own)).build_server().unwrap();
    let client = Tls::client(roots(&authority)).build_client(HOST);
    let (client, session) = (client.unwrap().0, server.session());
    control(&session, &client).await;
    assert!(session.give_way(LIMIT).await.is_ok(), "there is no other");
    assert!(!session.begin(), "the client does not resume");
    let (wait, resumed) = tokio::join!(session.give_way(LIMIT), data(&session, &client, false));
    assert!(resumed.unwrap());
    assert_eq!(wait.unwrap_err().kind(), ErrorKind::Security);
}

/// A connection for another host was led here by somebody.
#[tokio::test]
async fn a_client_of_another_host_is_refused() {
    let authority = Authority::new("test authority");
    for (hosts, refused) in [(&[HOST, "*.example.org"][..], true), (&[], false)] {
        let own = authority.issue("server", hosts);
        let server = Tls::server(identity(&own)).build_server().unwrap();
        let built = Tls::client(roots(&authority)).build_client("other.example.net");
        let (client, session) = (built.unwrap().0, server.session());
        let (near, far) = Mem::new().pair();
        let (near, far) = tokio::join!(
            session.control(near, LIMIT),
            client.open(far, Operation::Connect)
        );
        // Without host names in the certificate it is up to the client.
        let said = near.unwrap_err().to_string();
        assert_eq!(said.contains("asks for a host"), refused, "{said}");
        let said = far.unwrap_err().to_string();
        assert_eq!(said.contains("refused by the peer"), refused, "{said}");
    }
    let own = authority.issue("server", &[HOST, "*.example.org"]);
    let server = Tls::server(identity(&own)).build_server().unwrap();
    let built = Tls::client(roots(&authority)).build_client("ftp.example.org");
    control(&server.session(), &built.unwrap().0).await;
}

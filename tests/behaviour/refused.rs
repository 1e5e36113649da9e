//! Refused TLS handshakes: the refused peer gets the alert and a clean end, even if it has sent
//! data.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::DerefMut;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ServerConfig;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, ConnectionCommon, Error as Fault,
    RootCertStore, ServerConnection, SideData,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{
    BoxStream, DynStack, Incoming as _, Listener as _, Passive as _, Result, Target, Transport as _,
};
use xio_testkit::{Authority, Credential};

/// Certificates of one authority, as files.
struct Bed {
    folder: tempfile::TempDir,
    authority: Authority,
    host: Credential,
}

impl Bed {
    fn new() -> Self {
        let authority = Authority::new("behaviour suite");
        Self {
            folder: tempfile::tempdir().unwrap(),
            host: authority.issue("host", &["localhost"]),
            authority,
        }
    }

    fn stack(&self, below: &str, options: &str) -> DynStack {
        let ca = self.authority.write(self.folder.path());
        let text = format!("{below},tls:ca={};{options}", ca.display());
        xio::registry().stack(&text).unwrap()
    }

    /// Returns a stack with the bed's certificate that requires one of clients.
    fn strict(&self, below: &str, more: &str) -> DynStack {
        let host = self.host.write(self.folder.path(), "host");
        let options = format!("cert={};client_cert=required{more}", host.display());
        self.stack(below, &options)
    }
}

/// Feeds a rustls connection from a socket to the end; returns its error and the end of the socket.
fn refusal<D: SideData>(
    peer: &mut impl DerefMut<Target = ConnectionCommon<D>>,
    socket: &mut TcpStream,
) -> (Option<Fault>, std::io::Result<usize>) {
    let fault = loop {
        match peer.read_tls(socket) {
            Ok(0) => return (None, Ok(0)),
            Ok(_) => {}
            Err(error) => return (None, Err(error)),
        }
        match peer.process_new_packets() {
            Ok(_) => while peer.wants_write() && peer.write_tls(socket).is_ok() {},
            Err(fault) => break fault,
        }
    };
    (Some(fault), socket.read(&mut [0]))
}

/// Connects with rustls, sends `behind` bytes after its handshake messages, and returns the error.
fn connects(config: ClientConfig, to: SocketAddr, behind: usize) -> Option<Fault> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    client.set_buffer_limit(None);
    client.writer().write_all(&vec![7; behind]).unwrap();
    let mut socket = TcpStream::connect(to).unwrap();
    client.write_tls(&mut socket).unwrap();
    let (fault, ended) = refusal(&mut client, &mut socket);
    assert_eq!(ended.unwrap(), 0, "the end follows the alert");
    fault
}

#[tokio::test]
async fn a_refused_client_that_sent_data_gets_the_alert() {
    let bed = Bed::new();
    let server = bed.strict("tcp", ";alpn=ftp;min=1.3");
    let config = |versions: &[_], alpn: &str| {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(bed.authority.pem().as_bytes()).unwrap();
        roots.add(root).unwrap();
        let mut config = ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.into()];
        config
    };
    let modern = [&rustls::version::TLS13];
    let old = [&rustls::version::TLS12];
    for (config, alert) in [
        (
            config(&modern, "ftp"),
            AlertDescription::CertificateRequired,
        ),
        (
            config(&modern, "h2"),
            AlertDescription::NoApplicationProtocol,
        ),
        (config(&old, "ftp"), AlertDescription::ProtocolVersion),
    ] {
        let mut listener = server.listen(&crate::loopback()).await.unwrap();
        let to = listener.info().local.unwrap();
        let client = tokio::task::spawn_blocking(move || connects(config, to, 100_000));
        let opened = listener.accept().await.unwrap().open().await;
        assert!(opened.is_err(), "{alert:?}");
        assert_eq!(client.await.unwrap(), Some(Fault::AlertReceived(alert)));
    }
}

#[tokio::test]
async fn a_refused_server_gets_the_alert() {
    let bed = Bed::new();
    let stranger = Authority::new("somebody else").issue("host", &["localhost"]);
    let chain = CertificateDer::from_pem_slice(stranger.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(stranger.key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    // The server sends data before the client's handshake messages.
    config.send_half_rtt_data = true;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        server.set_buffer_limit(None);
        server.writer().write_all(&[7; 100_000]).unwrap();
        let mut socket = listener.accept().unwrap().0;
        refusal(&mut server, &mut socket)
    });
    let client = bed.stack("tcp", "name=localhost");
    assert!(client.connect(&Target::from(addr)).await.is_err());
    let (fault, ended) = serving.join().unwrap();
    let unknown = Fault::AlertReceived(AlertDescription::UnknownCA);
    assert_eq!(fault, Some(unknown));
    assert_eq!(ended.unwrap(), 0, "the end follows the alert");
}

/// Runs `part` on a connection of the client, and opens the server's end.
async fn meet<T>(
    client: &DynStack,
    server: &DynStack,
    part: impl AsyncFnOnce(BoxStream) -> T,
) -> (T, Result<BoxStream>) {
    let mut listener = server.listen(&crate::loopback()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let opening = async { listener.accept().await.unwrap().open().await };
    tokio::join!(
        async { part(client.connect(&to).await.unwrap()).await },
        opening
    )
}

const WHY: &str = "it requires a certificate of us";

#[tokio::test]
async fn a_failed_write_reports_the_alert() {
    let bed = Bed::new();
    for below in ["tcp", "udt"] {
        let client = bed.stack(below, "name=localhost");
        let server = bed.strict(below, "");
        let (failure, opened) = meet(&client, &server, async |mut stream| {
            loop {
                if let Err(error) = stream.write_all(&[7; 100_000]).await {
                    return error;
                }
            }
        })
        .await;
        let text = failure.to_string();
        assert!(text.contains(WHY), "{below}: {text}");
        assert_eq!(failure.kind(), ErrorKind::PermissionDenied);
        assert!(opened.is_err());
    }
}

/// With UDT nothing can be read after this end has shut down.
#[tokio::test]
async fn shutdown_fails_after_a_refusal() {
    let bed = Bed::new();
    let client = bed.stack("udt", "name=localhost");
    for more in ["", ";resume=no"] {
        let server = bed.strict("udt", more);
        for _ in 0..10 {
            let (ended, opened) = meet(&client, &server, async |mut stream| {
                stream.write_all(b"little").await?;
                stream.shutdown().await
            })
            .await;
            assert!(opened.is_err());
            let text = ended.unwrap_err().to_string();
            assert!(text.contains(WHY), "{text}");
        }
    }
}

#[tokio::test]
async fn shutdown_succeeds_after_an_accepted_certificate() {
    let bed = Bed::new();
    let user = bed.authority.issue("user", &[]);
    let user = user.write(bed.folder.path(), "user");
    let client = bed.stack("udt", &format!("name=localhost;cert={}", user.display()));
    for more in ["", ";resume=no"] {
        let server = bed.strict("udt", more);
        for halves in [false, true] {
            let (got, opened) = {
                let mut listener = server.listen(&crate::loopback()).await.unwrap();
                let to = Target::from(listener.info().local.unwrap());
                let sending = async {
                    let mut stream = client.connect(&to).await.unwrap();
                    if !halves {
                        stream.write_all(b"little").await.unwrap();
                        return stream.shutdown().await;
                    }
                    // Another task reads meanwhile.
                    let (mut reader, mut writer) = tokio::io::split(stream);
                    let reading = tokio::spawn(async move { reader.read(&mut [0]).await });
                    tokio::task::yield_now().await;
                    writer.write_all(b"little").await.unwrap();
                    let ended = writer.shutdown().await;
                    let _ = reading.await.unwrap();
                    ended
                };
                let receiving = async {
                    let mut stream = listener.accept().await.unwrap().open().await.unwrap();
                    let mut got = String::new();
                    stream.read_to_string(&mut got).await.unwrap();
                    // The peer may have closed the connection.
                    let _ = stream.shutdown().await;
                    got
                };
                tokio::join!(receiving, sending)
            };
            opened.unwrap();
            assert_eq!(got, "little");
        }
    }
}

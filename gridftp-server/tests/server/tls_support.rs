//! A server with TLS, and a raw client of it over rustls.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use gridftp_server::config::Options;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use tempfile::TempDir;
use xio_testkit::{Authority, Credential};

use crate::support::{Ftp, PATIENCE, Reply, TestServer, host_port, pasv_address};

/// The password of `ann` is `open sesame`.
pub(crate) const ANN: &str = "ann:$6$rounds=1000$salt$c/rx876elUtSjHtqzbR4t4bBD/c0LZyMkaP8WcR76l0qH4uuR/u2OObFJW77Apnmy6G3yYLi4kU2yXpy3CXj60";

/// A server with a certificate of an authority, and the account `ann`.
pub(crate) struct TlsServer {
    pub(crate) server: TestServer,
    pub(crate) authority: Authority,
    /// The certificate and its key, in one file.
    pub(crate) cert: PathBuf,
    _files: TempDir,
}

impl TlsServer {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| ())
    }

    /// The same, with options changed, which may name the file of the authority.
    pub(crate) fn with(change: impl FnOnce(&mut Options, &std::path::Path)) -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new("test authority");
        let cert = files.path().join("server.pem");
        put_credential(&cert, &authority.issue("server", &["localhost"]));
        let users = files.path().join("users");
        fs::write(&users, format!("{ANN}\nbob:*:ro\n")).unwrap();
        let ca = authority.write(files.path());
        let server = TestServer::with(|options| {
            options.tls_cert = Some(cert.clone());
            options.users = Some(users);
            change(options, &ca);
        });
        Self {
            server,
            authority,
            cert,
            _files: files,
        }
    }

    /// A configuration of clients.
    pub(crate) fn config(&self) -> ClientConfig {
        config(&self.authority, None)
    }

    /// A client behind AUTH TLS.
    pub(crate) fn connect(&self) -> Secure {
        self.connect_with(self.config())
    }

    pub(crate) fn connect_with(&self, config: ClientConfig) -> Secure {
        let mut ftp = self.server.connect();
        ftp.ok("AUTH TLS", 234);
        Secure::over(ftp.stream, Arc::new(config)).unwrap()
    }

    /// A session of `ann` with private data.
    pub(crate) fn login(&self) -> Secure {
        let mut ftp = self.connect();
        ftp.login();
        ftp
    }
}

/// Writes a certificate and its key into one file.
pub(crate) fn put_credential(path: &std::path::Path, credential: &Credential) {
    fs::write(
        path,
        format!("{}{}", credential.certificate, credential.key),
    )
    .unwrap();
}

pub(crate) fn config(authority: &Authority, own: Option<&Credential>) -> ClientConfig {
    config_of(authority, own, rustls::ALL_VERSIONS)
}

pub(crate) fn config_of(
    authority: &Authority,
    own: Option<&Credential>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(certificate(&authority.pem())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            let chain = vec![certificate(&own.certificate)];
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// The client's end of a protected control connection.
pub(crate) struct Secure {
    pub(crate) stream: Tls,
    pub(crate) config: Arc<ClientConfig>,
}

impl Secure {
    /// Runs the handshake.
    pub(crate) fn over(stream: TcpStream, config: Arc<ClientConfig>) -> io::Result<Self> {
        let stream = handshake(stream, Arc::clone(&config))?;
        Ok(Self { stream, config })
    }

    pub(crate) fn try_reply(&mut self) -> io::Result<Reply> {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                self.stream.read_exact(&mut byte)?;
                line.extend(byte);
            }
            line.truncate(line.len() - 2);
            let line = String::from_utf8(line).unwrap();
            let code = line.get(..3).and_then(|code| code.parse().ok());
            let last = code.is_some() && line.as_bytes().get(3) == Some(&b' ');
            lines.push(line);
            if let (Some(code), true) = (code, last) {
                return Ok(Reply { code, lines });
            }
        }
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().unwrap()
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.stream
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
    }

    pub(crate) fn cmd(&mut self, line: &str) -> Reply {
        self.send(line);
        self.reply()
    }

    #[track_caller]
    pub(crate) fn ok(&mut self, line: &str, code: u16) -> Reply {
        let reply = self.cmd(line);
        assert_eq!(reply.code, code, "{line}: {reply:?}");
        reply
    }

    /// Logs in as `ann`, for private data in TYPE I.
    pub(crate) fn login(&mut self) {
        self.ok("USER ann", 331);
        self.ok("PASS open sesame", 230);
        self.private();
    }

    pub(crate) fn private(&mut self) {
        self.ok("PBSZ 0", 200);
        self.ok("PROT P", 200);
        self.ok("TYPE I", 200);
    }

    /// A configuration that resumes no session of this one.
    pub(crate) fn forgetful(&self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(8);
        Arc::new(config)
    }

    pub(crate) fn pasv(&mut self) -> SocketAddr {
        pasv_address(&self.ok("PASV", 227))
    }

    pub(crate) fn port(&mut self) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = host_port(listener.local_addr().unwrap());
        self.ok(&format!("PORT {address}"), 200);
        listener
    }

    /// Runs a command that sends, with the handshake behind the 150.
    #[track_caller]
    pub(crate) fn get(&mut self, command: &str) -> Vec<u8> {
        let data = TcpStream::connect(self.pasv()).unwrap();
        self.ok(command, 150);
        let bytes = read_all(handshake(data, Arc::clone(&self.config)).unwrap());
        let reply = self.reply();
        assert_eq!(reply.code, 226, "{command}: {reply:?}");
        bytes
    }

    /// Runs a command that stores.
    #[track_caller]
    pub(crate) fn store(&mut self, command: &str, bytes: &[u8]) -> Reply {
        let data = TcpStream::connect(self.pasv()).unwrap();
        self.ok(command, 150);
        write_all(handshake(data, Arc::clone(&self.config)).unwrap(), bytes);
        self.reply()
    }
}

/// Connects TLS to its end, and returns it with the certificates checked.
pub(crate) fn handshake(mut stream: TcpStream, config: Arc<ClientConfig>) -> io::Result<Tls> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(config, name).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(tls, stream))
}

pub(crate) fn is_resumed(stream: &Tls) -> bool {
    stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
}

pub(crate) fn read_all(mut data: Tls) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes).unwrap();
    data.conn.send_close_notify();
    // The server may have closed.
    let _ = data.conn.complete_io(&mut data.sock);
    bytes
}

pub(crate) fn write_all(mut data: Tls, bytes: &[u8]) {
    data.write_all(bytes).unwrap();
    data.conn.send_close_notify();
    data.conn.complete_io(&mut data.sock).unwrap();
}

/// A clear connection that waits for a handshake.
pub(crate) fn half(server: &TestServer) -> Ftp {
    let mut ftp = server.connect();
    ftp.ok("AUTH TLS", 234);
    ftp
}

//! A server of Grid security, and a client of it that can be told to misbehave.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gridftp_server::config::Options;
use gsi::credential::Credential;
use gsi::exchange::Delegation;
use gsi::host::{Expected, Host};
use gsi::proxy::ProxyOptions;
use gsi::trust::TrustOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use xio::gsi::{Expect, Gsi, GssapiInitiator, GssapiStream, Judge, Level, TrustDirectory};
use xio::tcp::Tcp;
use xio::{BoxStream, Target, Transport as _};
use xio_testkit::Grid;

use crate::support::{PATIENCE, TestServer};

/// A Grid with the persons Alice and Bob, who have accounts.
pub(crate) struct Lab {
    pub(crate) grid: Grid,
    host: PathBuf,
    map: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let grid = Grid::new();
        let host = grid.store(&grid.host(&["localhost", "127.0.0.1"]), "host.pem");
        let map = "\"/O=Grid/OU=Lab/CN=Alice Lab\" alice\n\"/O=Grid/OU=Lab/CN=Bob Lab\" bob\n";
        let map = grid.write("gridmap", map, 0o644);
        Self { grid, host, map }
    }

    /// A server in this process.
    pub(crate) fn serve(&self, change: impl FnOnce(&mut Options)) -> TestServer {
        TestServer::with(|options| {
            options.host_cert = Some(self.host.clone());
            options.ca_dir = Some(self.grid.certificates());
            options.gridmap = Some(self.map.clone());
            change(options);
        })
    }

    /// The flags of a server as a process.
    pub(crate) fn flags(&self) -> [String; 6] {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        [
            "--host-cert".to_owned(),
            text(self.host.clone()),
            "--ca-dir".to_owned(),
            text(self.grid.certificates()),
            "--gridmap".to_owned(),
            text(self.map.clone()),
        ]
    }

    pub(crate) fn proxy(&self, common: &str) -> Credential {
        let user = self.grid.user(common);
        self.grid.proxy(&user, &ProxyOptions::default())
    }

    fn judge(&self) -> Judge {
        let trust = TrustDirectory::open(self.grid.certificates(), TrustOptions::default());
        Judge::from(Arc::new(trust.unwrap()))
    }

    /// The layer of data connections with this credential, for peers of the same identity.
    pub(crate) fn data(&self, credential: &Credential, level: Level) -> Gsi {
        Gsi::new(credential, self.judge()).unwrap().level(level)
    }

    /// A stranger of the same authority, who takes any peer.
    pub(crate) fn stranger(&self, level: Level) -> Gsi {
        self.data(&self.proxy("Bob Lab"), level).expect(Expect::Any)
    }

    /// Logs in as Alice.
    pub(crate) async fn login(&self, to: SocketAddr) -> Session<GssapiStream<BoxStream>> {
        self.login_with(to, Delegation::Limited).await
    }

    /// The same, with these rights for the server.
    pub(crate) async fn login_with(
        &self,
        to: SocketAddr,
        delegation: Delegation,
    ) -> Session<GssapiStream<BoxStream>> {
        let mut session = self.authenticate("Alice Lab", to, delegation).await;
        session.log_in().await;
        session
    }

    /// Runs the exchange as this person.
    pub(crate) async fn authenticate(
        &self,
        common: &str,
        to: SocketAddr,
        delegation: Delegation,
    ) -> Session<GssapiStream<BoxStream>> {
        let own = self.proxy(common);
        self.ask_for("localhost", own, to, delegation).await
    }

    /// Runs the exchange with a server that has to be this host.
    pub(crate) async fn ask_for(
        &self,
        host: &str,
        own: Credential,
        to: SocketAddr,
        delegation: Delegation,
    ) -> Session<GssapiStream<BoxStream>> {
        let mut clear = clear(to).await;
        clear.ok("AUTH GSSAPI", 334).await;
        let initiator = GssapiInitiator::new(own, self.judge()).unwrap();
        let expected = Expected::Host(Host::new(host));
        let deadline = Instant::now() + PATIENCE;
        let done = initiator
            .delegation(delegation)
            .initiate(clear.0, host, expected, deadline)
            .await;
        Session(done.unwrap().stream)
    }

    /// Writes the credential of a further host name into a directory of its own.
    pub(crate) fn host_files(&self, directory: &str, name: &str) -> Credential {
        let credential = self.grid.host(&[name]);
        std::fs::create_dir_all(self.grid.folder().join(directory)).unwrap();
        let pem = credential.to_pem();
        let (certificate, key) = pem.split_at(pem.find("-----BEGIN PRIVATE").unwrap());
        let file = |name| format!("{directory}/{name}");
        self.grid.write(&file("hostcert.pem"), certificate, 0o644);
        self.grid.write(&file("hostkey.pem"), key, 0o400);
        credential
    }
}

/// A session in clear, behind its greeting.
pub(crate) async fn clear(to: SocketAddr) -> Session<BoxStream> {
    let mut session = Session(tcp(to).await);
    assert!(session.reply().await.starts_with("220"));
    session
}

pub(crate) async fn tcp(to: SocketAddr) -> BoxStream {
    Box::new(Tcp::default().connect(&Target::from(to)).await.unwrap())
}

/// Connects, and runs the handshake of a data connection.
pub(crate) async fn open(layer: Gsi, to: SocketAddr) -> xio::Result<BoxStream> {
    Tcp::default().push(layer).connect(&Target::from(to)).await
}

/// Starts an attacker on the path to this address, who cuts a connection of TLS off before its last
/// record, the close-notify; returns the address to connect to.
pub(crate) async fn cut_off(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut from, mut back) = listener.accept().await.unwrap().0.into_split();
        let (mut answers, mut on) = TcpStream::connect(to).await.unwrap().into_split();
        tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await });
        let mut held = Vec::new();
        loop {
            let mut record = vec![0; 5];
            if from.read_exact(&mut record).await.is_err() {
                return on.shutdown().await.unwrap();
            }
            on.write_all(&held).await.unwrap();
            record.resize(
                5 + usize::from(u16::from_be_bytes([record[3], record[4]])),
                0,
            );
            from.read_exact(&mut record[5..]).await.unwrap();
            // The last record is one of application data; the server waits for the others.
            held = match record[0] {
                23 => record,
                _ => {
                    on.write_all(&record).await.unwrap();
                    Vec::new()
                }
            };
        }
    });
    address
}

/// Reads to the end, however the connection ends.
pub(crate) async fn taken(stream: xio::Result<BoxStream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut stream) = stream {
        let _ = within(stream.read_to_end(&mut bytes)).await;
    }
    bytes
}

/// Runs a client beside a server of its own threads.
pub(crate) fn drive<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(client)
}

/// Fails a test that hangs.
async fn within<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE + Duration::from_secs(20), work).await;
    done.expect("it takes too long")
}

/// The client's end of a control connection.
pub(crate) struct Session<S>(pub(crate) S);

impl<S: xio::Stream> Session<S> {
    pub(crate) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.push(within(self.0.read_u8()).await.unwrap());
        }
        String::from_utf8(line).unwrap()
    }

    pub(crate) async fn reply(&mut self) -> String {
        let mut text = String::new();
        loop {
            let line = self.line().await;
            text.push_str(&line);
            let last = line
                .get(..3)
                .is_some_and(|code| code.parse::<u16>().is_ok());
            if last && line.get(3..4) == Some(" ") {
                return text;
            }
        }
    }

    /// The reply that ends a transfer.
    pub(crate) async fn outcome(&mut self) -> String {
        loop {
            let reply = self.reply().await;
            if !reply.starts_with('1') {
                return reply;
            }
        }
    }

    pub(crate) async fn send(&mut self, line: &str) {
        let line = format!("{line}\r\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    pub(crate) async fn ok(&mut self, line: &str, code: u16) -> String {
        self.send(line).await;
        let reply = self.reply().await;
        assert!(reply.starts_with(&code.to_string()), "{line}: {reply}");
        reply
    }

    /// Logs in under the name of the map.
    pub(crate) async fn log_in(&mut self) {
        self.ok("USER :globus-mapping:", 331).await;
        self.ok("PASS dummy", 230).await;
        self.ok("TYPE I", 200).await;
    }

    pub(crate) async fn pasv(&mut self) -> SocketAddr {
        let reply = self.ok("PASV", 227).await;
        let numbers = reply.split(['(', ')']).nth(1).unwrap().split(',');
        let numbers: Vec<u8> = numbers.map(|number| number.parse().unwrap()).collect();
        let port = u16::from_be_bytes([numbers[4], numbers[5]]);
        ([127, 0, 0, 1], port).into()
    }
}

//! Transports of messages: a blocking socket, a tokio socket, rustls alone, or a stack.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use xio::{Incoming, Listener, Passive, Target, Transport};

use crate::exchange::{RunFar, RunNear, run_far, run_near};

/// Transports whole messages.
pub(crate) trait Pipe {
    /// Sends all of `bytes`.
    async fn put(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Fills `room`.
    async fn take(&mut self, room: &mut [u8]) -> io::Result<()>;
}

/// Blocks its thread; its futures are ready at the first poll.
struct Blocking<S>(S);

impl<S: Read + Write> Pipe for Blocking<S> {
    async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    async fn take(&mut self, room: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(room)
    }
}

/// Waits in a runtime.
struct Driven<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> Pipe for Driven<S> {
    async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    async fn take(&mut self, room: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(room).await.map(drop)
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A transport, as named in the arguments of a worker.
enum Kind<'a> {
    Socket,
    Tokio,
    /// The certificate of the authority, and that of the host with its key.
    Rustls(&'a str, &'a str),
    Stack(&'a str),
}

impl<'a> Kind<'a> {
    fn parse(word: &'a str) -> Self {
        let files = word
            .strip_prefix("rustls:")
            .and_then(|files| files.split_once(','));
        match (word, files) {
            ("socket", _) => Self::Socket,
            ("tokio", _) => Self::Tokio,
            (_, Some((ca, host))) => Self::Rustls(ca, host),
            (stack, None) => Self::Stack(stack),
        }
    }
}

/// Connects, and returns the near end.
pub(crate) fn connect(word: &str, to: SocketAddr) -> Result<RunNear> {
    let runtime = runtime()?;
    Ok(match Kind::parse(word) {
        Kind::Socket => run_near(runtime, Blocking(blocking(to)?)),
        Kind::Tokio => {
            let socket = runtime.block_on(tokio::net::TcpStream::connect(to))?;
            socket.set_nodelay(true)?;
            run_near(runtime, Driven(socket))
        }
        Kind::Rustls(ca, _) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(ca)?)?;
            let config = ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let name = ServerName::try_from("localhost")?;
            let session = ClientConnection::new(Arc::new(config), name)?;
            run_near(runtime, Blocking(StreamOwned::new(session, blocking(to)?)))
        }
        Kind::Stack(stack) => {
            let stack = xio::registry().stack(stack)?;
            let stream = runtime.block_on(stack.connect(&Target::from(to)))?;
            run_near(runtime, Driven(stream))
        }
    })
}

fn blocking(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(to)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Accepts one connection at a free port, which it sends to `tell`, and returns the far end.
pub(crate) fn accept(word: &str, at: IpAddr, tell: &Sender<SocketAddr>) -> Result<RunFar> {
    let runtime = runtime()?;
    let accept = || -> Result<TcpStream> {
        let listener = TcpListener::bind((at, 0))?;
        tell.send(listener.local_addr()?)?;
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        Ok(socket)
    };
    Ok(match Kind::parse(word) {
        Kind::Socket => run_far(runtime, Blocking(accept()?)),
        Kind::Tokio => {
            let socket = accept()?;
            socket.set_nonblocking(true)?;
            let guard = runtime.enter();
            let socket = tokio::net::TcpStream::from_std(socket)?;
            drop(guard);
            run_far(runtime, Driven(socket))
        }
        Kind::Rustls(_, host) => {
            let chain = CertificateDer::pem_file_iter(host)?.collect::<Result<Vec<_>, _>>()?;
            let key = PrivateKeyDer::from_pem_reader(File::open(host)?)?;
            let config = ServerConfig::builder()
                .with_no_client_auth()
                .with_single_cert(chain, key)?;
            let session = ServerConnection::new(Arc::new(config))?;
            run_far(runtime, Blocking(StreamOwned::new(session, accept()?)))
        }
        Kind::Stack(stack) => {
            let stack = xio::registry().stack(stack)?;
            let stream = runtime.block_on(async {
                let at = Target::from(SocketAddr::new(at, 0));
                let mut listener = stack.listen(&at).await?;
                tell.send(listener.info().local.context("a listener has an address")?)?;
                anyhow::Ok(listener.accept().await?.open().await?)
            })?;
            run_far(runtime, Driven(stream))
        }
    })
}

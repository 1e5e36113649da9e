//! `Server`: a server of one file that breaks TLS or Grid security where it is told to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use gsi::credential::Credential;
use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use xio::gsi::{Gsi, GssapiAcceptor, Judge, Level};
use xio_core::{BoxStream, Info, Stream, Transform as _};
use xio_tls::Tls;

use crate::LIMIT;

/// The file of the server, longer than a record of TLS.
pub(super) const FILE: &[u8] = &[7; 40_000];

/// The fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Refuses `AUTH`, as a third party on the way would.
    Stripped,
    /// Sends a reply in clear text behind that to `AUTH`.
    Injected,
    /// Sends nothing behind the reply to `AUTH`.
    Silent,
    /// Closes data connections without the end mark of TLS.
    Cut,
    /// The same, and tells the size of no file.
    CutUnmeasured,
    /// Resets the first data connection in its handshake.
    ResetOnce,
    /// It lists no command that protects data connections.
    Unprotected,
}

/// The handshakes of a server.
pub(super) enum Security {
    Tls(Tls),
    Grid(Box<(GssapiAcceptor, Judge)>),
}

impl Security {
    /// Runs the handshake of a control connection; returns the credential of a delegation.
    async fn control(&self, stream: BoxStream) -> Result<(BoxStream, Option<Credential>)> {
        match self {
            Self::Tls(tls) => Ok((Box::new(tls.respond(stream).await?), None)),
            Self::Grid(grid) => {
                let deadline = tokio::time::Instant::now() + LIMIT;
                let accepted = grid.0.accept(stream, deadline).await;
                let accepted = accepted.map_err(|refused| refused.error)?;
                Ok((Box::new(accepted.stream), accepted.delegated))
            }
        }
    }

    /// Runs the handshake of a data connection.
    async fn data(&self, stream: TcpStream, own: Option<&Credential>) -> Result<BoxStream> {
        match self {
            Self::Tls(tls) => Ok(Box::new(tls.respond(Plain(stream)).await?)),
            Self::Grid(grid) => {
                let own = own.context("nothing is delegated")?;
                let layer = Gsi::new(own, grid.1.clone())?;
                let layer = layer.level(Level::Private);
                Ok(layer.respond(Plain(stream)).await?)
            }
        }
    }
}

/// A TCP stream that is closed, and not reset, when it is dropped.
pub(crate) struct Plain(pub(crate) TcpStream);

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for Plain {
    fn describe(&self, _: &mut Info) {}
}

/// A server with one file at every path; it ends with its runtime.
pub(super) struct Server {
    addr: SocketAddr,
    commands: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(super) fn start(host: IpAddr, security: Security, fault: Fault) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((host, 0)))?;
        let addr = listener.local_addr()?;
        let commands = Arc::<Mutex<Vec<_>>>::default();
        let (security, log) = (Arc::new(security), Arc::clone(&commands));
        let was_reset = Arc::<AtomicBool>::default();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (security, log) = (Arc::clone(&security), Arc::clone(&log));
                let was_reset = Arc::clone(&was_reset);
                tokio::spawn(
                    async move { converse(stream, &security, fault, &was_reset, &log).await },
                );
            }
        });
        Ok(Self {
            addr,
            commands,
            _runtime: runtime,
        })
    }

    /// The URL of a file, with this text before the host and the port.
    pub(super) fn url(&self, start: &str) -> String {
        format!("{start}:{}/file", self.addr.port())
    }

    /// The commands so far but `QUIT`.
    pub(super) fn commands(&self) -> Vec<String> {
        let commands = self.commands.lock();
        let mut commands = commands.unwrap_or_else(PoisonError::into_inner).clone();
        commands.retain(|command| command != "QUIT");
        commands
    }

    pub(super) fn clear(&self) {
        let commands = self.commands.lock();
        commands.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Serves one control connection.
async fn converse(
    stream: TcpStream,
    security: &Security,
    fault: Fault,
    was_reset: &AtomicBool,
    log: &Mutex<Vec<String>>,
) -> Result<()> {
    let here = stream.local_addr()?;
    let mut control: BoxStream = Box::new(Plain(stream));
    let (mut listener, mut protected, mut delegated) = (None, false, None);
    control.write_all(b"220 ready\r\n").await?;
    loop {
        let line = read_line(&mut control).await?;
        let verb = line.split(' ').next().unwrap_or_default().to_owned();
        protected |= line == "PROT P";
        log.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line.clone());
        let reply = match verb.as_str() {
            "AUTH" => match fault {
                Fault::Stripped => "500 AUTH not understood".to_owned(),
                Fault::Injected => "234 go on\r\n230 you are in".to_owned(),
                _ if line == "AUTH GSSAPI" => "334 go on".to_owned(),
                _ => "234 go on".to_owned(),
            },
            "USER" => "331 password".to_owned(),
            "PASS" => "230 in".to_owned(),
            "FEAT" if fault == Fault::Unprotected => "211-features\r\n SIZE\r\n211 end".to_owned(),
            "FEAT" => "211-features\r\n SIZE\r\n DCAU\r\n PBSZ\r\n PROT\r\n211 end".to_owned(),
            "MLST" if fault == Fault::CutUnmeasured => {
                "250-facts\r\n Type=file; /file\r\n250 end".to_owned()
            }
            "SIZE" if fault != Fault::CutUnmeasured => format!("213 {}", FILE.len()),
            "PBSZ" | "PROT" | "TYPE" | "DCAU" => "200 ok".to_owned(),
            "PASV" => {
                let data = TcpListener::bind((here.ip(), 0)).await?;
                let port = data.local_addr()?.port();
                listener = Some(data);
                let host = here.ip().to_string().replace('.', ",");
                format!("227 here ({host},{},{})", port >> 8, port & 0xff)
            }
            "RETR" | "LIST"
                if fault == Fault::ResetOnce && !was_reset.swap(true, Ordering::Relaxed) =>
            {
                control.write_all(b"150 comes\r\n").await?;
                let data = listener.take().context("no PASV")?;
                let (data, _) = data.accept().await?;
                set_socket_linger(&data, Some(Duration::ZERO))?;
                drop(data);
                "426 broken".to_owned()
            }
            "RETR" | "LIST" => {
                control.write_all(b"150 comes\r\n").await?;
                let data = listener.take().context("no PASV")?;
                let (data, _) = data.accept().await?;
                let mut data: BoxStream = match protected {
                    true => security.data(data, delegated.as_ref()).await?,
                    false => Box::new(Plain(data)),
                };
                let bytes = match verb.as_str() {
                    "LIST" => b"-rw-r--r-- 1 a a 5 Jan  1 2020 file\r\n",
                    _ => FILE,
                };
                data.write_all(bytes).await?;
                match fault {
                    Fault::Cut | Fault::CutUnmeasured => data.flush().await?,
                    _ => data.shutdown().await?,
                }
                "226 done".to_owned()
            }
            "QUIT" => "221 bye".to_owned(),
            _ => "500 what?".to_owned(),
        };
        control.write_all(format!("{reply}\r\n").as_bytes()).await?;
        if verb == "AUTH" && fault != Fault::Stripped {
            if fault == Fault::Silent {
                std::future::pending::<()>().await;
            }
            (control, delegated) = security.control(control).await?;
        }
    }
}

async fn read_line(stream: &mut BoxStream) -> Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
            byte => line.push(byte),
        }
    }
}

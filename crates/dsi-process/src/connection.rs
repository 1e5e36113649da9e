//! `Connection`: calls to the process, and descriptors from it, over its two Unix sockets.

use std::future::Future;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Response, Status};

use crate::convert::failed;
use crate::proto::storage_client::StorageClient;

/// Longest call that hashes or removes much.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Longest call of any other kind.
pub(crate) const SHORT: Duration = Duration::from_secs(60);

/// Longest wait for a connection or a descriptor.
const OPENING: Duration = Duration::from_secs(30);

/// Largest message of the process, in bytes.
const MESSAGE: usize = 4 << 20;

/// The client of the service.
pub(crate) type Client = StorageClient<Caller>;

/// Makes calls over one connection.
#[derive(Debug, Clone)]
pub(crate) struct Caller(SendRequest<Body>);

impl Service<http::Request<Body>> for Caller {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// The way to the process. A connection that broke is made anew by the next call.
#[derive(Debug)]
pub(crate) struct Connection {
    calls: PathBuf,
    descriptors: PathBuf,
    caller: Mutex<Option<Caller>>,
}

impl Connection {
    /// The sockets at `path` and behind it; nothing is connected yet.
    pub(crate) fn new(path: &Path) -> Self {
        let mut descriptors = path.as_os_str().to_owned();
        descriptors.push(".fd");
        Self {
            calls: path.to_path_buf(),
            descriptors: descriptors.into(),
            caller: Mutex::new(None),
        }
    }

    /// A client over the open connection, or over a new one.
    async fn client(&self) -> io::Result<Client> {
        let mut open = self.caller.lock().await;
        let caller = match open.take().filter(|caller| !caller.0.is_closed()) {
            Some(caller) => caller,
            None => {
                let stream = UnixStream::connect(&self.calls).await?;
                let shaking = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream));
                let (sender, carrying) = shaking.await.map_err(io::Error::other)?;
                // Its end is told by the calls.
                tokio::spawn(carrying);
                Caller(sender)
            }
        };
        let caller = open.insert(caller).clone();
        // The name is that of the host in requests, which a Unix socket does not have.
        let origin = http::Uri::from_static("http://localhost");
        Ok(StorageClient::with_origin(caller, origin).max_decoding_message_size(MESSAGE))
    }

    /// Makes one call within `limit`.
    ///
    /// # Errors
    /// Those that the process tells, and [`ErrorKind::Io`] where it is gone or too slow.
    pub(crate) async fn call<T, F>(
        &self,
        (op, path): (&'static str, &DsiPath),
        limit: Duration,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let gone = |why: &dyn std::fmt::Display| {
            let why = format!("the process at {}: {why}", self.calls.display());
            Error::new(ErrorKind::Io, op).at(path).because(why)
        };
        let calling = async {
            let client = tokio::time::timeout(OPENING, self.client()).await;
            let client = client.map_err(|_| gone(&"no connection in time"))?;
            let called = call(client.map_err(|error| gone(&error))?).await;
            called.map_err(|status| failed(&status, op).at(path))
        };
        let called = tokio::time::timeout(limit, calling).await;
        let called = called.map_err(|_| gone(&"no answer in time"))??;
        Ok(called.into_inner())
    }

    /// Fetches the descriptor of an open file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where the process does not pass one.
    pub(crate) async fn descriptor(&self, path: &DsiPath, handle: u64) -> Result<OwnedFd> {
        let socket = self.descriptors.clone();
        let fetching = tokio::task::spawn_blocking(move || fetch(&socket, handle));
        let fetched = fetching
            .await
            .unwrap_or_else(|end| Err(io::Error::other(end)));
        fetched.map_err(|error| {
            let why = format!("{}: {error}", self.descriptors.display());
            Error::new(ErrorKind::Io, "open").at(path).because(why)
        })
    }
}

/// Asks for a descriptor over a connection of its own.
fn fetch(socket: &Path, handle: u64) -> io::Result<OwnedFd> {
    let mut stream = StdStream::connect(socket)?;
    stream.set_read_timeout(Some(OPENING))?;
    stream.set_write_timeout(Some(OPENING))?;
    stream.write_all(&handle.to_be_bytes())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut passed = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(&stream, &mut bytes, &mut passed, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = passed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    // The end of the process's side.
    let _end = stream.read(&mut byte);
    descriptor.ok_or_else(|| io::Error::other("the process passed no descriptor"))
}

//! `Connection`: calls to the process, and descriptors from it, over its two Unix sockets.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
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

/// Pause before a full queue of the process is tried again.
const AGAIN: Duration = Duration::from_millis(20);

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

    fn open(&self) -> MutexGuard<'_, Option<Caller>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client over the open connection, or over a new one; calls at the same time may each make
    /// one, of which the last stays.
    async fn client(&self) -> io::Result<Client> {
        let known = self.open().clone().filter(|caller| !caller.0.is_closed());
        let caller = match known {
            Some(caller) => caller,
            None => {
                let stream = connect(&self.calls).await?;
                let shaking = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream));
                let (sender, carrying) = shaking.await.map_err(io::Error::other)?;
                // Its end is told by the calls.
                tokio::spawn(carrying);
                self.open().insert(Caller(sender)).clone()
            }
        };
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
        let fetched = tokio::time::timeout(OPENING, fetch(&self.descriptors, handle)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(io::Error::other("no descriptor in time")));
        fetched.map_err(|error| {
            let why = format!("{}: {error}", self.descriptors.display());
            Error::new(ErrorKind::Io, "open").at(path).because(why)
        })
    }
}

/// Connects to a socket, whose queue may be full; the caller has a deadline.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(AGAIN).await;
            }
            done => return done,
        }
    }
}

/// Asks for a descriptor over a connection of its own.
async fn fetch(socket: &Path, handle: u64) -> io::Result<OwnedFd> {
    let mut stream = connect(socket).await?;
    stream.write_all(&handle.to_be_bytes()).await?;
    let received = stream.async_io(Interest::READABLE, || receive(&stream));
    let descriptor = received.await?;
    descriptor.ok_or_else(|| io::Error::other("the process passed no descriptor"))
}

/// Receives the answer, which is one byte, and the descriptor with it.
fn receive(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut passed = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut bytes, &mut passed, RecvFlags::CMSG_CLOEXEC)?;
    Ok(passed.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    use super::*;

    /// The socket of a process that accepts nobody, with a queue of this length.
    fn silent(path: &Path, queue: i32) -> OwnedFd {
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
        listen(&listener, queue).unwrap();
        listener
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_does_not_answer_has_a_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let connection = Connection::new(&path);
        let _calls = silent(&path, 0);
        let _descriptors = silent(&dir.path().join("socket.fd"), 0);
        let root = DsiPath::root();
        // The first connection fills each queue.
        let mut kept = Vec::new();
        for _ in 0..2 {
            let error = connection.descriptor(&root, 1).await.unwrap_err();
            assert!(format!("{error:?}").contains("in time"), "{error:?}");
            kept.push(UnixStream::connect(&connection.descriptors).await);
            let called = connection.call(("open", &root), SHORT, |mut client| async move {
                client.describe(crate::proto::DescribeRequest {}).await
            });
            let error = called.await.unwrap_err();
            assert!(format!("{error:?}").contains("in time"), "{error:?}");
            kept.push(UnixStream::connect(&connection.calls).await);
            *connection.open() = None;
        }
    }
}

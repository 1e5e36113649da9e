//! `Connection`: calls to the process, and descriptors from it, over its two Unix sockets.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gridftp_dsi::Capabilities;
use gridftp_dsi_rpc::proto::Description;
use gridftp_dsi_rpc::{Caller, Choice, Peer, Peers};
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Longest wait for a connection or a descriptor.
const OPENING: Duration = Duration::from_secs(30);

/// Bytes in flight of one call, and of all: calls that nobody reads, as the listing of a slow
/// client, delay no other one below 8191 of them.
const STREAM: u32 = 256 << 10;
const CONNECTION: u32 = i32::MAX.cast_unsigned();

/// Pause before a full queue of the process is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// The way to the process. A connection that broke is made anew by the next call.
#[derive(Debug)]
pub struct Connection {
    calls: PathBuf,
    descriptors: PathBuf,
    capabilities: Capabilities,
    identity: Option<String>,
    caller: Mutex<Option<Caller>>,
}

impl Connection {
    /// The sockets at `path` and behind it; nothing is connected yet.
    pub(crate) fn new(path: &Path, described: &Description) -> Self {
        let identity = described.identity.clone();
        let mut descriptors = path.as_os_str().to_owned();
        descriptors.push(".fd");
        Self {
            calls: path.to_path_buf(),
            descriptors: descriptors.into(),
            capabilities: described.capabilities("process"),
            identity: (!identity.is_empty()).then_some(identity),
            caller: Mutex::new(None),
        }
    }

    fn open(&self) -> MutexGuard<'_, Option<Caller>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection, or a new one; calls at the same time may each make one, of which the
    /// last stays.
    async fn caller(&self) -> io::Result<Caller> {
        let known = self.open().clone();
        match known.filter(|caller| !caller.is_closed()) {
            Some(caller) => Ok(caller),
            None => {
                let caller = call(&self.calls).await?;
                Ok(self.open().insert(caller).clone())
            }
        }
    }
}

impl Peers for Connection {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone()
    }

    async fn peer(&self, _: Choice<'_>, tried: &[Peer]) -> io::Result<Peer> {
        let name = format!("the process at {}", self.calls.display());
        let gone = |why: &dyn std::fmt::Display| io::Error::other(format!("{name}: {why}"));
        // One whose connection just ended may be another process by now.
        if tried.len() > 1 {
            return Err(gone(&"no connection"));
        }
        let caller = timeout(OPENING, self.caller()).await;
        let caller = caller.map_err(|_| gone(&"no connection in time"))?;
        Ok(Peer::new(&name, caller.map_err(|error| gone(&error))?))
    }

    async fn descriptor(&self, handle: u64) -> io::Result<OwnedFd> {
        let fetched = timeout(OPENING, fetch(&self.descriptors, handle)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(io::Error::other("no descriptor in time")));
        let at = |error| format!("{}: {error}", self.descriptors.display());
        fetched.map_err(|error| io::Error::other(at(error)))
    }
}

/// Begins to call over a connection to a socket.
pub(crate) async fn call(socket: &Path) -> io::Result<Caller> {
    let stream = connect(socket).await?;
    let shaking = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM)
        .initial_connection_window_size(CONNECTION)
        .handshake(TokioIo::new(stream));
    let (sender, carrying) = shaking.await.map_err(io::Error::other)?;
    // Its end is told by the calls.
    tokio::spawn(carrying);
    Ok(Caller::new(sender))
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
        let connection = Connection::new(&path, &Description::default());
        let _calls = silent(&path, 0);
        let _descriptors = silent(&dir.path().join("socket.fd"), 0);
        // The first connection fills each queue.
        let mut kept = Vec::new();
        for _ in 0..2 {
            let error = connection.descriptor(1).await.unwrap_err();
            assert!(format!("{error:?}").contains("in time"), "{error:?}");
            kept.push(UnixStream::connect(&connection.descriptors).await);
            kept.push(UnixStream::connect(&connection.calls).await);
        }
        let error = connection.peer(Choice::Load, &[]).await.unwrap_err();
        assert!(format!("{error:?}").contains("in time"), "{error:?}");
    }
}

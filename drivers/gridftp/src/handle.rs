//! `GridftpHandle`: a remote file with one position, and the one transfer that runs at a time.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use gridftp_client::error::{ConnectError, TransferError};
use gridftp_client::file::{self, ReadOptions, Reader, WriteOptions, Writer};
use gridftp_client::{Client, ConnectOptions, Site};
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use xio::file::Flags;
use xio::{Error, ErrorKind, Info, Operation, Stream, at_layer, shut_down};

use crate::LAYER;
use crate::options::GridftpOptions;

/// The site, the path and the options of a file.
pub(crate) struct RemoteFile {
    pub(crate) site: Site,
    pub(crate) path: Vec<u8>,
    pub(crate) connect: Arc<ConnectOptions>,
    pub(crate) options: GridftpOptions,
}

impl RemoteFile {
    pub(crate) async fn session(&self) -> Result<Client, ConnectError> {
        Client::connect(&self.site, Arc::clone(&self.connect)).await
    }
}

/// An open remote file.
pub struct GridftpHandle {
    remote: Arc<RemoteFile>,
    state: State,
    position: u64,
    /// Whether the file is still to begin anew.
    fresh: bool,
    /// Whether the server has not yet confirmed the written bytes.
    unsettled: bool,
    /// Whether something that was written is lost.
    broken: bool,
    shut: bool,
    seeking: Option<SeekFrom>,
    /// The size that was asked for.
    size: Option<u64>,
}

enum State {
    /// A session, or none where the last one was lost.
    Idle(Option<Box<Client>>),
    Reading(Reader),
    /// Began at this position.
    Writing(Writer, u64),
    /// On the way to an idle session.
    Turning(Pin<Box<dyn Future<Output = io::Result<Turned>> + Send>>),
}

impl State {
    fn idle(client: Client) -> Self {
        Self::Idle(Some(Box::new(client)))
    }
}

/// An idle session, and the file's size where it was asked for.
struct Turned {
    client: Client,
    size: Option<u64>,
}

impl From<Client> for Turned {
    fn from(client: Client) -> Self {
        Self { client, size: None }
    }
}

impl GridftpHandle {
    pub(crate) fn new(remote: Arc<RemoteFile>, client: Client) -> Self {
        let flags = remote.options.access();
        Self {
            position: remote.options.offset,
            remote,
            state: State::idle(client),
            fresh: matches!(flags, Flags::Write | Flags::Rewrite),
            unsettled: false,
            broken: false,
            shut: false,
            seeking: None,
            size: None,
        }
    }

    /// Offset of the next read or write in bytes.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    fn reads(&self) -> bool {
        !matches!(self.remote.options.access(), Flags::Write | Flags::Append)
    }

    fn writes(&self) -> bool {
        self.remote.options.access() != Flags::Read
    }

    fn turn(&mut self, future: impl Future<Output = io::Result<Turned>> + Send + 'static) {
        self.state = State::Turning(Box::pin(future));
    }

    /// Ends the running transfer and gives the session; the server has all written bytes then.
    fn poll_session(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Client>> {
        loop {
            match std::mem::replace(&mut self.state, State::Idle(None)) {
                State::Idle(Some(client)) => return Poll::Ready(Ok(*client)),
                State::Idle(None) => {
                    let remote = Arc::clone(&self.remote);
                    self.turn(async move { again(&remote).await });
                }
                State::Reading(reader) => {
                    let remote = Arc::clone(&self.remote);
                    self.turn(async move {
                        match reader.stop().await {
                            Some(client) => Ok(client.into()),
                            None => again(&remote).await,
                        }
                    });
                }
                State::Writing(writer, _) => {
                    self.turn(async move { writer.finish().await.map(Turned::from) });
                }
                State::Turning(mut turning) => match turning.as_mut().poll(cx) {
                    Poll::Pending => {
                        self.state = State::Turning(turning);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(turned)) => {
                        self.unsettled = false;
                        self.size = turned.size;
                        return Poll::Ready(Ok(turned.client));
                    }
                    Poll::Ready(Err(error)) => {
                        self.broken |= self.unsettled;
                        return Poll::Ready(Err(error));
                    }
                },
            }
        }
    }

    /// Begins to write; `client` is idle.
    fn write_from(&mut self, client: Client, at: file::WriteFrom) {
        let mut options = WriteOptions::default();
        options.from = at;
        options.streams = self.remote.options.streams;
        let writer = client.into_writer(self.remote.path.clone(), options);
        self.state = State::Writing(writer, self.position);
        self.fresh = false;
        self.unsettled = true;
    }

    /// Makes the file begin anew with nothing in it.
    fn empty(&mut self, client: Client) {
        let writer = client.into_writer(self.remote.path.clone(), WriteOptions::default());
        self.turn(async move { writer.finish().await.map(Turned::from) });
        self.fresh = false;
        self.unsettled = true;
    }

    fn poll_some(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if let State::Reading(reader) = &mut self.state
                && reader.position() == self.position
            {
                let read = ready!(Pin::new(&mut *reader).poll_read(cx, buf));
                self.position = reader.position();
                if read.is_err() {
                    // The next read asks for the rest.
                    let remote = Arc::clone(&self.remote);
                    self.turn(async move { again(&remote).await });
                }
                return Poll::Ready(read);
            }
            let client = ready!(self.poll_session(cx))?;
            if self.fresh {
                self.empty(client);
                continue;
            }
            let mut options = ReadOptions::default();
            options.offset = self.position;
            options.module.clone_from(&self.remote.options.eret);
            options.streams = self.remote.options.streams;
            self.state = State::Reading(client.into_reader(self.remote.path.clone(), options));
        }
    }

    fn poll_put(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if !self.writes() {
            let fact = "it is open for reading; open it with flags=w, r+ or a";
            return Poll::Ready(Err(Error::new(
                ErrorKind::Denied,
                LAYER,
                Operation::Write,
                fact,
            )
            .into()));
        }
        if self.shut {
            return Poll::Ready(Err(shut_down(LAYER, Operation::Write)));
        }
        loop {
            if self.broken {
                return Poll::Ready(Err(lost(BROKEN, Operation::Write)));
            }
            let append = self.remote.options.access() == Flags::Append;
            if let State::Writing(writer, from) = &mut self.state
                && (append || *from + writer.written() == self.position)
            {
                let wrote = ready!(Pin::new(&mut *writer).poll_write_vectored(cx, bufs));
                match &wrote {
                    Ok(n) => self.position += *n as u64,
                    Err(_) => self.broken = true,
                }
                return Poll::Ready(wrote);
            }
            let client = ready!(self.poll_session(cx))?;
            let remote = match &self.remote.options.esto {
                Some(module) => file::WriteFrom::Module(module.clone()),
                None if append => file::WriteFrom::End,
                None if self.fresh && self.position > 0 => {
                    self.empty(client);
                    continue;
                }
                None if self.fresh => file::WriteFrom::Anew,
                None => file::WriteFrom::At(self.position),
            };
            self.write_from(client, remote);
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.broken {
            return Poll::Ready(Err(lost(BROKEN, Operation::Shutdown)));
        }
        while self.writes() && !self.shut {
            if !self.fresh && !self.unsettled {
                break;
            }
            let client = ready!(self.poll_session(cx))?;
            if self.fresh {
                self.empty(client);
            } else {
                self.state = State::idle(client);
            }
        }
        self.shut = true;
        Poll::Ready(Ok(()))
    }

    fn poll_seek(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let (base, by) = match self.seeking {
            None => return Poll::Ready(Ok(self.position)),
            Some(SeekFrom::Start(to)) => (to, 0),
            Some(SeekFrom::Current(by)) => (self.position, by),
            Some(SeekFrom::End(by)) => loop {
                let client = ready!(self.poll_session(cx)).inspect_err(|_| self.seeking = None)?;
                if let Some(size) = self.size.take() {
                    self.state = State::idle(client);
                    break (size, by);
                }
                if self.fresh {
                    self.empty(client);
                    continue;
                }
                let remote = Arc::clone(&self.remote);
                self.turn(async move {
                    let found = client.stat(&remote.path).await;
                    let (entry, _) = found.map_err(TransferError::from)?;
                    let size = Some(entry.size);
                    Ok(Turned { client, size })
                });
            },
        };
        self.seeking = None;
        match base.checked_add_signed(by) {
            Some(to) => {
                self.position = to;
                Poll::Ready(Ok(to))
            }
            None => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a position before the start of the file",
            ))),
        }
    }
}

const BROKEN: &str = "bytes that were written before are lost; open the file again";

fn lost(fact: &str, op: Operation) -> io::Error {
    Error::new(ErrorKind::Reset, LAYER, op, fact).into()
}

/// A new session in place of one that was lost.
async fn again(remote: &RemoteFile) -> io::Result<Turned> {
    let client = remote.session().await.map_err(TransferError::from)?;
    Ok(client.into())
}

fn named<T>(answer: Poll<io::Result<T>>, op: Operation) -> Poll<io::Result<T>> {
    answer.map_err(|error| at_layer(error, LAYER, op))
}

impl AsyncRead for GridftpHandle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 || !self.reads() {
            return Poll::Ready(Ok(()));
        }
        named(self.poll_some(cx, buf), Operation::Read)
    }
}

impl AsyncWrite for GridftpHandle {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        named(self.poll_put(cx, &[IoSlice::new(buf)]), Operation::Write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        named(self.poll_put(cx, bufs), Operation::Write)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = if let State::Writing(writer, _) = &mut self.state {
            ready!(Pin::new(writer).poll_flush(cx))
        } else if self.unsettled {
            // A transfer that is being ended must not wait for the next read.
            ready!(self.poll_session(cx)).map(|client| self.state = State::idle(client))
        } else {
            Ok(())
        };
        self.broken |= flushed.is_err();
        named(Poll::Ready(flushed), Operation::Flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        named(self.poll_end(cx), Operation::Shutdown)
    }
}

impl AsyncSeek for GridftpHandle {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        if self.seeking.is_some() {
            let error = io::Error::other("a seek is under way");
            return Err(at_layer(error, LAYER, Operation::Read));
        }
        self.seeking = Some(to);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        named(self.poll_seek(cx), Operation::Read)
    }
}

impl Stream for GridftpHandle {
    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
        info.ends_together = !self.reads();
    }
}

impl fmt::Debug for GridftpHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

//! `Reader`: a remote file, or a part of it, read in order.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ftp_wire::command::{BufferSide, Command, Eret, Mode, Restart, Type};
use gridftp_data::{Consumer, ReceivePlan, Watch};
use gridftp_dsi::{Error as StorageError, ErrorKind};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use super::{Done, failed_before, module};
use crate::client::Client;
use crate::control::Replies;
use crate::error::{ControlError, TransferError};
use crate::setup::Ahead;
use crate::stripes::Width;
use crate::transfer::{ACCOUNT, Failure, SessionState, Transfer};
use crate::url::show;

/// The part of a file to read, and the way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// First byte.
    pub offset: u64,
    /// Number of bytes at most; `None` reads to the end.
    pub length: Option<u64>,
    /// A module of the server that derives the bytes from the file, `name="arguments"` (`ERET`); it
    /// goes with no offset and no length.
    pub module: Option<String>,
    /// Data connections, in MODE E.
    pub streams: u32,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            offset: 0,
            length: None,
            module: None,
            streams: 1,
        }
    }
}

impl ReadOptions {
    /// Sets [`offset`](field@Self::offset).
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets [`length`](field@Self::length).
    #[must_use]
    pub fn length(mut self, length: impl Into<Option<u64>>) -> Self {
        self.length = length.into();
        self
    }

    /// Sets [`module`](field@Self::module).
    #[must_use]
    pub fn module(mut self, module: impl Into<Option<String>>) -> Self {
        self.module = module.into();
        self
    }

    /// Sets [`streams`](field@Self::streams).
    #[must_use]
    pub fn streams(mut self, streams: u32) -> Self {
        self.streams = streams;
        self
    }
}

/// A remote file that is being read.
///
/// It ends when the server has said that it sent all, and no earlier: a file that was cut off is
/// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof), with a [`TransferError`] as its cause, which
/// tells the offset. Nothing is asked of the server before the first read.
///
/// # Cancel safety
/// Dropping a pending read loses nothing. Dropping the reader before the end resets its data
/// connections, sends `ABOR` and closes the session; [`stop`](Self::stop) keeps the session.
pub struct Reader {
    site: String,
    state: State,
    pieces: mpsc::Receiver<Bytes>,
    /// The rest of the piece that is being read.
    piece: Bytes,
    position: u64,
}

enum State {
    Moving(Pin<Box<dyn Future<Output = Done> + Send>>),
    Ended(Box<Done>),
    Failed(Option<Box<Client>>),
}

impl Client {
    /// Turns the session into a reader of `path`.
    pub fn into_reader(self, path: impl Into<Vec<u8>>, options: ReadOptions) -> Reader {
        let (to, pieces) = mpsc::channel(1);
        let position = options.offset;
        Reader {
            site: self.site().to_owned(),
            state: State::Moving(Box::pin(run(self, path.into(), options, To(to)))),
            pieces,
            piece: Bytes::new(),
            position,
        }
    }
}

impl Reader {
    /// Offset of the byte that the next read gives first.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The server, `host:port`.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// Stops reading and gives the session back; `None` when it ended with the transfer.
    ///
    /// Data on its way is thrown away with its connections, and the server has a few seconds
    /// to notice.
    ///
    /// # Cancel safety
    /// Dropping the future closes the session.
    pub async fn stop(self) -> Option<Client> {
        let Self { state, pieces, .. } = self;
        drop(pieces);
        match state {
            State::Moving(moving) => moving.await.client,
            State::Ended(done) => done.client,
            State::Failed(client) => client.map(|client| *client),
        }
    }
}

impl Reader {
    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// As reading.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn piece(&mut self) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_piece(cx)).await?;
        let piece = std::mem::take(&mut self.piece);
        self.position += piece.len() as u64;
        Ok(piece)
    }

    /// Waits until there are bytes to read; at the end there are none.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.piece.is_empty() {
                self.piece = self.pieces.try_recv().unwrap_or_default();
            }
            if !self.piece.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match &mut self.state {
                // Both ends of the channel are polled here, so it needs to wake nobody.
                State::Moving(moving) => match moving.as_mut().poll(cx) {
                    Poll::Ready(done) => self.state = State::Ended(Box::new(done)),
                    Poll::Pending if self.pieces.is_empty() => return Poll::Pending,
                    Poll::Pending => {}
                },
                State::Ended(done) => {
                    let Err(error) = std::mem::replace(&mut done.result, Ok(())) else {
                        return Poll::Ready(Ok(()));
                    };
                    // A transfer that began and did not end is cut off; a refused one is nothing at
                    // all.
                    let error = match done.begun {
                        true => TransferError::Cut {
                            at: self.position,
                            cause: Box::new(error),
                        },
                        false => error,
                    };
                    let client = done.client.take().map(Box::new);
                    self.state = State::Failed(client);
                    return Poll::Ready(Err(error.into()));
                }
                State::Failed(_) => return Poll::Ready(Err(failed_before())),
            }
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_piece(cx))?;
        let n = self.piece.len().min(buf.remaining());
        buf.put_slice(&self.piece.split_to(n));
        self.position += n as u64;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("site", &self.site)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// The consumer of a transfer, which hands pieces over to the reader.
struct To(mpsc::Sender<Bytes>);

impl Consumer for To {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let gone = |_| StorageError::new(ErrorKind::Io, "read");
        self.0.send(bytes).await.map_err(gone)
    }
}

/// A transfer that was asked for.
struct Asked {
    transfer: Transfer,
    rest: Option<Replies>,
    mode: Mode,
    /// Bytes that are to come, where the server knows.
    expected: Option<u64>,
}

/// Moves the file, as far as it is read.
async fn run(mut client: Client, path: Vec<u8>, options: ReadOptions, to: To) -> Done {
    if to.0.is_closed() {
        return Done::of(client, Ok(()), false);
    }
    let mut asked = match ask(&mut client, &path, &options).await {
        Ok(Some(asked)) => asked,
        Ok(None) => return Done::of(client, Ok(()), true),
        Err(error) => return Done::of(client, Err(error.into()), false),
    };
    let result = take(&mut client, &path, &options, &mut asked, to).await;
    Done::of(client, result, asked.transfer.has_begun())
}

/// Asks for the transfer; `None` when there is nothing behind the first byte.
async fn ask(
    client: &mut Client,
    path: &[u8],
    options: &ReadOptions,
) -> Result<Option<Asked>, TransferError> {
    let wire = client.path(path)?;
    let module = options.module.as_deref().map(module).transpose()?;
    let (offset, length) = (options.offset, options.length);
    if module.is_some() && (offset > 0 || length.is_some()) {
        let what = "usage: the output of a module is read from its start to its end";
        return Err(TransferError::request(what, ""));
    }
    // Layers over the file make another number of bytes of it.
    let plain = module.is_none() && client.options.disk_stack.is_none();
    let size = plain.then(|| client.control.send(Command::Size(wire.clone())));
    let mode = match client.options.mode {
        Some(Mode::Extended) => Mode::Extended,
        _ => Mode::Stream,
    };
    let ahead = set_up(client, mode, options.streams).await?;
    let size = match size {
        Some(mut size) => size.size().await?,
        None => None,
    };
    if size.is_some_and(|size| offset > 0 && offset >= size) {
        client.drop_channel();
        return Ok(None);
    }
    let expected = size.map(|size| {
        let left = size - offset.min(size);
        length.map_or(left, |length| left.min(length))
    });
    let mut rest = None;
    let command = match (module, length) {
        (Some(module), _) => Command::Eret(Eret::Module(module), wire),
        (None, None) if offset == 0 || mode == Mode::Stream => {
            let skip = (offset > 0).then_some(Command::Rest(Restart::Offset(offset)));
            rest = skip.map(|skip| client.control.send(skip));
            Command::retrieve(wire, None, None)
        }
        (None, length) => Command::retrieve(wire, Some((offset, expected.or(length))), None),
    };
    let transfer = Transfer::download(client.control.send(command), path);
    if let Some(ahead) = ahead {
        ahead.settle().await?;
    }
    let asked = Asked {
        transfer,
        rest,
        mode,
        expected,
    };
    Ok(Some(asked))
}

/// Sets up the data channel; in MODE E the replies to that are still to come.
async fn set_up(
    client: &mut Client,
    mode: Mode,
    streams: u32,
) -> Result<Option<Ahead>, TransferError> {
    match mode {
        Mode::Extended => {
            let width = Width::of_streams(streams.max(1));
            client.set_up_pull(width, None).await.map(Some)
        }
        _ => client.set_up_stream(BufferSide::Send).await.map(|()| None),
    }
}

/// Takes the data and the server's word on it, until the reader stops.
async fn take(
    client: &mut Client,
    path: &[u8],
    options: &ReadOptions,
    asked: &mut Asked,
    mut to: To,
) -> Result<(), Failure> {
    let (control, channel) = (&client.control, client.channel.get());
    let abort = control.abort_on_drop();
    if let Some(mut rest) = asked.rest.take()
        && let Err(error) = rest.finish().await
    {
        // From its start would be something else.
        let what = format!("cannot be read from byte {}: {error}", options.offset);
        return Err(TransferError::source(show(path), what, "").into());
    }
    let watch = Watch::new();
    let plan = ReceivePlan::new(asked.mode, Type::Image);
    let stopped = to.0.clone();
    let received = {
        let data = channel.receive_chunks(&mut to, &plan, &watch);
        let work = Box::pin(asked.transfer.run(&watch, data));
        tokio::select! {
            biased;
            received = control.watched(&watch, |_| (), work) => Some(received),
            () = stopped.closed() => None,
        }
    };
    abort.spare();
    let Some(received) = received else {
        // The connections are gone, and that is all there is to say to the server.
        client.drop_channel();
        return match asked.transfer.account(ACCOUNT, |_| ()).await {
            Some(Ok(_) | Err(ControlError::Refused { .. })) => Ok(()),
            Some(Err(error)) => Err(Failure::midway(error, SessionState::Lost)),
            None => {
                let error = asked
                    .transfer
                    .replies()
                    .misbehaved("no reply to the end of the data");
                Err(Failure::midway(error, SessionState::Unanswered))
            }
        };
    };
    let received = received?;
    let (path, got) = (show(path), received.bytes);
    let error = match asked.expected {
        Some(expected) if got < expected => TransferError::Size {
            path,
            expected,
            got,
        },
        None if received.ended_unmarked && options.length.is_none_or(|length| got < length) => {
            TransferError::Unmarked { path, got }
        }
        _ => return Ok(()),
    };
    Err(error.into())
}

//! `Reader`: a remote file, or a part of it, read in order.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use ftp_wire::command::{BufferSide, Command, Eret, Mode, Restart, Type};
use gridftp_data::{Consumer, ReceivePlan, Watch};
use gridftp_dsi::{Error as StorageError, ErrorKind};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use super::{Done, failed_before, module};
use crate::client::Client;
use crate::control::Replies;
use crate::error::{ControlError, TransferError};
use crate::transfer::{settle, settle_final, unless_refused};
use crate::url::show;

/// What of a file to read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// First byte.
    pub offset: u64,
    /// Number of bytes at most; `None` reads to the end.
    pub length: Option<u64>,
    /// A module of the server that makes what is read of the file, `name="arguments"` (`ERET`); it
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

/// A remote file that is being read.
///
/// It ends when the server has said that it sent all, and no earlier: what was cut off is
/// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof), whose cause is a [`TransferError`] that says how
/// far it came. Nothing is asked of the server before the first read.
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
    /// What is still on its way is thrown away with its connections, and the server has a few seconds
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

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            let at = self.position;
            if self.piece.is_empty() {
                self.piece = self.pieces.try_recv().unwrap_or_default();
            }
            if !self.piece.is_empty() {
                let n = self.piece.len().min(buf.remaining());
                buf.put_slice(self.piece.get(..n).unwrap_or_default());
                self.piece.advance(n);
                self.position += n as u64;
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
                    // What began and did not end is cut off; what was refused is nothing at all.
                    let error = if done.begun {
                        let cause = Box::new(error);
                        TransferError::Cut { at, cause }
                    } else {
                        error
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

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("site", &self.site)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// Hands pieces over to whoever reads.
struct To(mpsc::Sender<Bytes>);

impl Consumer for To {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let gone = |_| StorageError::new(ErrorKind::Io, "read");
        self.0.send(bytes).await.map_err(gone)
    }
}

/// A transfer that was asked for.
struct Asked {
    replies: Replies,
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
        Err(error) => return Done::of(client, Err(error), false),
    };
    let result = take(&mut client, &path, &options, &mut asked, to).await;
    Done::of(client, result, asked.replies.has_begun())
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
        let what = "usage: what a module makes of a file is read from its start to its end";
        return Err(TransferError::Request(what.to_owned()));
    }
    // Layers over the file make another number of bytes of it.
    let plain = module.is_none() && client.options.disk_stack.is_none();
    let size = plain.then(|| client.control.send(Command::Size(wire.clone())));
    let mode = match client.options.mode {
        Some(Mode::Extended) => Mode::Extended,
        _ => Mode::Stream,
    };
    let ahead = if mode == Mode::Extended {
        Some(client.set_up_pull(options.streams.max(1)).await?)
    } else {
        client.set_up_stream(BufferSide::Send).await?;
        None
    };
    let size = match size {
        Some(mut size) => size.size().await?,
        None => None,
    };
    if size.is_some_and(|size| offset > 0 && offset >= size) {
        client.drop_channel();
        return Ok(None);
    }
    let left = size.map(|size| size - offset.min(size));
    let expected = match (left, length) {
        (Some(left), Some(length)) => Some(left.min(length)),
        (left, _) => left,
    };
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
    let replies = client.control.send(command);
    if let Some(ahead) = ahead {
        ahead.settle().await?;
    }
    let asked = Asked {
        replies,
        rest,
        mode,
        expected,
    };
    Ok(Some(asked))
}

/// Takes the data and the server's word on it, unless nobody reads any more.
async fn take(
    client: &mut Client,
    path: &[u8],
    options: &ReadOptions,
    asked: &mut Asked,
    mut to: To,
) -> Result<(), TransferError> {
    let Client {
        control, channel, ..
    } = client;
    let abort = control.abort_on_drop();
    if let Some(mut rest) = asked.rest.take()
        && let Err(error) = rest.finish().await
    {
        // From its start would be something else.
        let what = format!("cannot be read from byte {}: {error}", options.offset);
        let path = show(path);
        return Err(TransferError::Source { path, what });
    }
    let watch = Watch::new();
    let plan = ReceivePlan::new(asked.mode, Type::Image);
    let stopped = to.0.clone();
    let received = {
        let work = channel.get().receive_chunks(&mut to, &plan, &watch);
        let work = unless_refused(&mut asked.replies, work);
        let work = Box::pin(control.watched(&watch, |_| (), work));
        tokio::select! {
            biased;
            received = work => Some(received),
            () = stopped.closed() => None,
        }
    };
    abort.spare();
    let Some(received) = received else {
        // The connections are gone, and that is all there is to say to the server.
        let end = settle_final(&mut asked.replies, false).await;
        client.drop_channel();
        return match end {
            Ok(()) | Err(ControlError::Refused { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        };
    };
    let received = received?;
    let end = settle_final(&mut asked.replies, received.is_ok()).await;
    let shown = show(path);
    let received = settle(received, end, control.site(), path, ("read", &shown))?;
    match asked.expected {
        Some(expected) if received.bytes < expected => Err(TransferError::Size {
            path: shown,
            expected,
            got: received.bytes,
        }),
        _ => Ok(()),
    }
}

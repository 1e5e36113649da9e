//! `Writer`: a remote file, written in order from one offset on.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use ftp_wire::command::{
    BufferSide, Command, Esto, Mode, Restart, SiteCommand, Spot, StorAttr, Type,
};
use gridftp_data::{Chunks, SendPlan, Watch};
use gridftp_dsi::{Error as StorageError, ErrorKind};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;

use super::{Done, PIECE, failed_before, module};
use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::stripes::Width;
use crate::transfer::{Failure, Transfer};
use crate::url::show;
use crate::verify;

/// Where in a file to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WriteFrom {
    /// The file begins anew (`STOR`).
    #[default]
    Anew,
    /// From this byte on, the others staying as they are (`ESTO A`).
    At(u64),
    /// From this byte on, behind those that the server keeps of a broken upload (`REST`, `STOR`); in
    /// MODE S.
    Rest(u64),
    /// At the end of the file (`APPE`).
    End,
    /// Wherever a module of the server puts it, `name="arguments"` (`ESTO`).
    Module(String),
}

/// Options of a written file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Where.
    pub from: WriteFrom,
    /// Data connections, in MODE E.
    pub streams: u32,
    /// Whether the server is to replace nothing, if it can tell in one step; of a whole file.
    pub exclusive: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            from: WriteFrom::default(),
            streams: 1,
            exclusive: false,
        }
    }
}

impl WriteOptions {
    /// Sets [`from`](field@Self::from).
    #[must_use]
    pub fn from(mut self, from: WriteFrom) -> Self {
        self.from = from;
        self
    }

    /// Sets [`streams`](field@Self::streams).
    #[must_use]
    pub fn streams(mut self, streams: u32) -> Self {
        self.streams = streams;
        self
    }

    /// Sets [`exclusive`](field@Self::exclusive).
    #[must_use]
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }
}

/// A remote file that is being written.
///
/// Shutting down waits for the server's final reply, and gives a refusal as the error. Flushing waits until all is with the kernel or the layers of the data stack. Nothing is
/// asked of the server before the first 256 KiB are full, or flushed, or the end.
///
/// # Cancel safety
/// Dropping a pending write loses nothing. Dropping the writer before it is shut down resets its
/// data connections, sends `ABOR` and closes the session, so that a server which tells a reset from
/// an end does not take a part for the whole file. The Globus server cannot tell them apart in MODE
/// S over UDT.
pub struct Writer {
    site: String,
    state: State,
    pieces: mpsc::Sender<Piece>,
    /// Bytes that wait to become a piece.
    block: BytesMut,
    watch: Arc<Watch>,
    /// Bytes that were handed over.
    handed: u64,
    /// Whether the end was handed over.
    ended: bool,
}

enum State {
    Moving(Pin<Box<dyn Future<Output = Done> + Send>>),
    Stored(Box<Client>),
    Failed(Option<Box<Client>>),
}

/// A message of the writer to its transfer; without an `End` the file is not whole.
enum Piece {
    Bytes(Bytes),
    End,
}

impl Client {
    /// Turns the session into a writer of `path`.
    pub fn into_writer(self, path: impl Into<Vec<u8>>, options: WriteOptions) -> Writer {
        let (pieces, from) = mpsc::channel(1);
        let watch = Arc::new(Watch::new());
        let site = self.site().to_owned();
        let moving = run(self, path.into(), options, From(from), Arc::clone(&watch));
        Writer {
            site,
            state: State::Moving(Box::pin(moving)),
            pieces,
            block: BytesMut::new(),
            watch,
            handed: 0,
            ended: false,
        }
    }
}

impl Writer {
    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.handed + self.block.len() as u64
    }

    /// The server, `host:port`.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// Shuts down, which waits for the server's word, and gives the session back.
    ///
    /// # Errors
    /// As shutting down; the session is closed then.
    ///
    /// # Cancel safety
    /// Dropping the future aborts the transfer.
    pub async fn finish(mut self) -> io::Result<Client> {
        poll_fn(|cx| Pin::new(&mut self).poll_shutdown(cx)).await?;
        self.into_client().ok_or_else(failed_before)
    }

    /// Asks the server and waits until it accepts the file, before anything is written.
    ///
    /// # Errors
    /// The refusal of the server, or the failure of the session.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing; the writer goes on with the request.
    pub async fn begin(&mut self) -> io::Result<()> {
        poll_fn(|cx| match self.poll_moving(cx) {
            Poll::Pending if self.watch.is_open() => Poll::Ready(Ok(())),
            begun => begun,
        })
        .await
    }

    /// Sends a block, and waits until it is with the kernel.
    pub(crate) async fn put(&mut self, block: BytesMut) -> io::Result<()> {
        self.block.unsplit(block);
        poll_fn(|cx| Pin::new(&mut *self).poll_flush(cx)).await
    }

    /// Gives the session back after a refusal or the end, if its server owes no reply.
    pub fn into_client(self) -> Option<Client> {
        match self.state {
            State::Stored(client) | State::Failed(Some(client)) => Some(*client),
            State::Moving(_) | State::Failed(None) => None,
        }
    }

    fn poll_moving(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let moving = match &mut self.state {
            State::Moving(moving) => moving,
            State::Stored(_) => return Poll::Ready(Ok(())),
            State::Failed(_) => return Poll::Ready(Err(failed_before())),
        };
        let done = ready!(moving.as_mut().poll(cx));
        let client = done.client.map(Box::new);
        Poll::Ready(match (done.result, client) {
            (Ok(()), Some(client)) => {
                self.state = State::Stored(client);
                Ok(())
            }
            (result, client) => {
                self.state = State::Failed(client);
                result
                    .map_err(io::Error::from)
                    .and_then(|()| Err(failed_before()))
            }
        })
    }

    /// Waits until one more piece can be handed over.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Both ends of the channel are polled here, so it needs to wake nobody.
        while self.pieces.capacity() == 0 {
            match self.poll_moving(cx) {
                // It does not end well before it was given the end.
                Poll::Ready(done) => return Poll::Ready(done.and_then(|()| Err(failed_before()))),
                Poll::Pending if self.pieces.capacity() == 0 => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands over the waiting bytes, and lets them move as far as they can at once.
    fn poll_hand_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.block.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_room(cx))?;
        let block = self.block.split().freeze();
        self.handed += block.len() as u64;
        if self.pieces.try_send(Piece::Bytes(block)).is_err() {
            return Poll::Ready(Err(failed_before()));
        }
        match self.poll_moving(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        if self.ended || matches!(self.state, State::Failed(_)) {
            return Poll::Ready(Err(failed_before()));
        }
        if self.block.len() >= PIECE {
            ready!(self.poll_hand_over(cx))?;
        }
        let before = self.block.len();
        self.block.reserve(PIECE - before);
        for buf in bufs {
            let n = buf.len().min(PIECE - self.block.len());
            self.block
                .extend_from_slice(buf.get(..n).unwrap_or_default());
        }
        Poll::Ready(Ok(self.block.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_hand_over(cx))?;
        while self.watch.bytes() < self.handed {
            if self.poll_moving(cx)?.is_pending() && self.watch.bytes() < self.handed {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.ended {
            ready!(self.poll_hand_over(cx))?;
            ready!(self.poll_room(cx))?;
            self.ended = self.pieces.try_send(Piece::End).is_ok();
        }
        self.poll_moving(cx)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("site", &self.site)
            .field("written", &self.written())
            .finish_non_exhaustive()
    }
}

/// The source of a transfer: the pieces of the writer.
struct From(mpsc::Receiver<Piece>);

impl Chunks for From {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        match self.0.recv().await {
            Some(Piece::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Piece::End) => Ok(None),
            None => Err(StorageError::new(ErrorKind::Io, "write")),
        }
    }
}

/// Moves the file, piece by piece.
async fn run(
    mut client: Client,
    path: Vec<u8>,
    options: WriteOptions,
    from: From,
    watch: Arc<Watch>,
) -> Done {
    let mut transfer = match ask(&mut client, &path, &options).await {
        Ok(transfer) => transfer,
        Err(error) => return Done::of(client, Err(error.into()), false),
    };
    let sent = send(&mut client, &options, &mut transfer, from, &watch).await;
    let result = match sent {
        Ok(bytes) => check(&client, &path, &options, bytes).await,
        Err(failure) => Err(failure),
    };
    Done::of(client, result, transfer.has_begun())
}

/// The mode of the transfer: `REST` before a store counts bytes of the stream.
fn mode_of(client: &Client, options: &WriteOptions) -> Mode {
    match options.from {
        WriteFrom::Rest(_) => Mode::Stream,
        _ => client.options.mode.unwrap_or_default(),
    }
}

/// Asks for the transfer.
async fn ask(
    client: &mut Client,
    path: &[u8],
    options: &WriteOptions,
) -> Result<Transfer, TransferError> {
    let wire = client.path(path)?;
    let command = match &options.from {
        WriteFrom::Anew | WriteFrom::Rest(_) => Command::store(wire, Spot::Whole, None),
        WriteFrom::At(offset) => Command::store(wire, Spot::At(*offset), None),
        WriteFrom::End => Command::store(wire, Spot::End, None),
        WriteFrom::Module(text) => Command::Esto(Esto::Module(module(text)?), wire),
    };
    if mode_of(client, options) == Mode::Extended {
        let streams = options.streams.max(1);
        client.set_up_push(Width::of_streams(streams)).await?;
        if !client.guard.has_grid_handshake() {
            // No data may be on the way before its store is accepted, so the connections come first.
            let opened = client.channel.get().open(Mode::Extended, streams).await;
            opened.map_err(|cause| client.data_error(&show(path), cause))?;
        }
    } else {
        client.set_up_stream(BufferSide::Receive).await?;
    }
    // Any other store would leave the wish to the next one.
    let is_whole = matches!(options.from, WriteFrom::Anew | WriteFrom::Rest(_));
    if options.exclusive && is_whole && client.abilities.exclusive {
        let attributes = SiteCommand::StorAttr(StorAttr::exclusive());
        client.ask(Command::Site(attributes)).await?;
    }
    if let WriteFrom::Rest(offset) = options.from {
        // Without it the store would begin at the start of the file.
        client.ask(Command::Rest(Restart::Offset(offset))).await?;
    }
    Ok(Transfer::upload(client.control.send(command), path))
}

/// Sends the pieces and takes the server's word on them; gives the number of bytes.
async fn send(
    client: &mut Client,
    options: &WriteOptions,
    transfer: &mut Transfer,
    mut from: From,
    watch: &Watch,
) -> Result<u64, Failure> {
    let mode = mode_of(client, options);
    let (control, channel) = (&client.control, client.channel.get());
    let plan = SendPlan::new(mode, Type::Image, RangeSet::new())
        .parallelism(options.streams.max(1))
        .dealt();
    let abort = control.abort_on_drop();
    let begun = if mode == Mode::Extended && !client.guard.has_grid_handshake() {
        transfer.begin().await.map_err(Failure::to_begin)
    } else {
        let streams = if mode == Mode::Extended {
            options.streams.max(1)
        } else {
            1
        };
        let open = channel.open(mode, streams);
        transfer.begin_with(client.options.reply_within, open).await
    };
    if let Err(failure) = begun {
        // After a refusal there is nothing to abort.
        if let Some(ControlError::Refused { .. }) = failure.error.control() {
            abort.spare();
        }
        return Err(failure);
    }
    let data = channel.send_chunks(&mut from, &plan, watch);
    let work = Box::pin(transfer.run(watch, data));
    let sent = control.watched(watch, |_| (), work).await;
    abort.spare();
    Ok(sent?.bytes)
}

/// Checks that the server has all that was sent.
async fn check(
    client: &Client,
    path: &[u8],
    options: &WriteOptions,
    sent: u64,
) -> Result<(), Failure> {
    let expected = match options.from {
        WriteFrom::Anew => sent..=sent,
        WriteFrom::Rest(offset) => offset.saturating_add(sent)..=offset.saturating_add(sent),
        WriteFrom::At(offset) => offset.saturating_add(sent)..=u64::MAX,
        WriteFrom::End | WriteFrom::Module(_) => return Ok(()),
    };
    if mode_of(client, options) == Mode::Extended || client.options.disk_stack.is_some() {
        return Ok(());
    }
    let wire = client.path(path).map_err(TransferError::from)?;
    let mut size = client.control.send(Command::Size(wire));
    verify::stored(&mut size, expected, || show(path)).await?;
    Ok(())
}

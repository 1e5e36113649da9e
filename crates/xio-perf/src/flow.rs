//! The activity of one end on one connection: send, receive, both, ping or echo.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use xio::file::{File, FileHandle, FileOptions, Flags};
use xio::{BoxStream, Pool, Stream, Target, Transport, copy_file};

use crate::budget::Budget;
use crate::payload::Payload;
use crate::tally::{Tally, nanoseconds, no_turns};

/// Longest time without progress in either direction.
pub(crate) const STALL: Duration = Duration::from_secs(30);
/// Longest wait for the end of a peer that has sent the requested bytes, and the silence that means
/// the end of a peer without half-close.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// Most bytes read of the body of an HTTP response.
const ANSWER: usize = 1 << 20;
/// Bytes of a file sent between two checks of the time.
const FILE_BLOCK: usize = 1 << 20;

/// The activity of this end on each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Send,
    Receive,
    Both,
    Ping,
    Echo,
}

/// Parameters and counters shared by all connections of a session.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) activity: Activity,
    pub(crate) block: usize,
    /// Data to send without a file.
    pub(crate) payload: Payload,
    /// File to send.
    pub(crate) source: Option<PathBuf>,
    /// File to write.
    pub(crate) sink: Option<PathBuf>,
    pub(crate) budget: Budget,
    pub(crate) tally: Tally,
}

impl Work {
    /// Runs this end's activity on `stream` to its end.
    ///
    /// # Errors
    /// Those of the stream and of the files, and a peer with another activity than expected.
    pub(crate) async fn run(&self, mut stream: BoxStream) -> io::Result<()> {
        self.tally.add_stream();
        let outcome = match self.activity {
            Activity::Send => self.send(&mut stream).await,
            Activity::Receive => self.receive(&mut stream).await,
            Activity::Both => {
                let ends_together = stream.info().ends_together;
                let (mut reader, mut writer) = tokio::io::split(stream);
                let outcome = if ends_together {
                    self.both_until_quiet(&mut reader, &mut writer).await
                } else {
                    self.both(&mut reader, &mut writer).await
                };
                stream = reader.unsplit(writer);
                outcome
            }
            Activity::Ping => self.ping(&mut stream).await,
            Activity::Echo => self.echo(&mut stream).await,
        };
        self.tally.add_path(&stream.info());
        outcome
    }

    async fn send(&self, stream: &mut BoxStream) -> io::Result<()> {
        let pushed = match &self.source {
            Some(path) => self.push_file(path, stream).await,
            None => self.push(stream).await,
        };
        match pushed {
            Err(error) if self.budget.is_endless() && self.source.is_none() && is_gone(&error) => {
                return Ok(());
            }
            other => other?,
        }
        stalled(stream.shutdown()).await?;
        wait_for_end(stream).await
    }

    /// Checks after all connections have ended that all requested bytes were received.
    ///
    /// # Errors
    /// When bytes are missing.
    pub(crate) fn complete(&self) -> anyhow::Result<()> {
        let missing = self.budget.missing();
        if self.activity == Activity::Receive && missing > 0 {
            let received = self.tally.received();
            let asked = received + missing;
            bail!("the peer ended after {received} of {asked} bytes");
        }
        Ok(())
    }

    async fn receive(&self, stream: &mut BoxStream) -> io::Result<()> {
        match self.pull(stream, &self.budget).await? {
            Ended::ByPeer => leave(stream).await,
            // The time was over before any data arrived.
            Ended::Enough if self.tally.received() == 0 && self.budget.left(1) > 0 => {
                Err(timed_out("no data arrived: does the other end send?"))
            }
            Ended::Enough => Ok(()),
        }
    }

    /// Sends the budget from the source, through memory.
    pub(crate) async fn push<W: AsyncWrite + Unpin>(&self, to: &mut W) -> io::Result<()> {
        let mut source = match &self.source {
            Some(path) => Source::File(open(path, Flags::Read).await?, vec![0; self.block]),
            None => Source::Made(self.payload.clone()),
        };
        loop {
            let want = self.budget.take(self.block);
            let mut block = source.next(want).await?;
            self.budget.give_back(want - block.len());
            if block.is_empty() {
                return Ok(());
            }
            while !block.is_empty() {
                let Some(n) = in_time(&self.budget, to.write(block)).await? else {
                    return Ok(());
                };
                if n == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                self.tally.add_sent(n);
                block = block.get(n..).unwrap_or_default();
            }
        }
    }

    /// Sends a file by the fastest path of the stack.
    async fn push_file(&self, path: &Path, to: &mut BoxStream) -> io::Result<()> {
        if !tokio::fs::metadata(path).await?.is_file() {
            return self.push(to).await;
        }
        let file = open(path, Flags::Read).await?;
        let pool = Pool::new(self.block, 2);
        let mut offset = 0;
        loop {
            let want = self.budget.take(FILE_BLOCK);
            let sent = stalled(copy_file(&file, offset, want as u64, to, &pool)).await?;
            if sent == 0 {
                return Ok(());
            }
            offset += sent;
            self.tally
                .add_sent(usize::try_from(sent).unwrap_or(usize::MAX));
        }
    }

    /// Receives until the peer ends or the budget is reached.
    pub(crate) async fn pull<R: AsyncRead + Unpin>(
        &self,
        from: &mut R,
        budget: &Budget,
    ) -> io::Result<Ended> {
        let mut file = match &self.sink {
            Some(path) => Some(open(path, Flags::Write).await?),
            None => None,
        };
        let mut block = vec![0; self.block];
        let ended = loop {
            let want = budget.left(self.block);
            let room = block.get_mut(..want).unwrap_or_default();
            if room.is_empty() {
                // A peer with the same budget ends now; a peer that sends more is not awaited.
                break match timeout(LINGER, from.read(&mut [0])).await {
                    Ok(Ok(0)) => Ended::ByPeer,
                    _ => {
                        self.tally.end_at(self.tally.arrived());
                        Ended::Enough
                    }
                };
            }
            let Some(n) = in_time(budget, from.read(room)).await? else {
                break Ended::Enough;
            };
            if n == 0 {
                break Ended::ByPeer;
            }
            budget.take(n);
            self.tally.add_received(n);
            if let Some(file) = &mut file {
                stalled(file.write_all(room.get(..n).unwrap_or_default())).await?;
            }
        };
        if let Some(file) = &mut file {
            stalled(file.shutdown()).await?;
        }
        Ok(ended)
    }

    async fn ping(&self, stream: &mut BoxStream) -> io::Result<()> {
        let mut payload = self.payload.clone();
        let mut answer = vec![0; self.block];
        let mut turns = no_turns();
        let outcome = async {
            loop {
                let question = payload.next(self.budget.take(self.block));
                let Some(room) = answer.get_mut(..question.len()) else {
                    return Ok(());
                };
                if question.is_empty() {
                    return Ok(());
                }
                let asked = Instant::now();
                let turn = stalled(async {
                    stream.write_all(question).await?;
                    stream.flush().await?;
                    stream.read_exact(room).await
                });
                match self.budget.until() {
                    // The last answer may take a little longer.
                    Some(until) => timeout_at(until + LINGER, turn).await.unwrap_or_else(|_| {
                        Err(timed_out(
                            "no answer arrived: does the other end serve --ping?",
                        ))
                    })?,
                    None => turn.await?,
                };
                turns.saturating_record(nanoseconds(asked.elapsed()));
                if room != question {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the answer differs from the sent block: does the other end serve --ping?",
                    ));
                }
                self.tally.add_sent(question.len());
                self.tally.add_received(question.len());
            }
        }
        .await;
        self.tally.add_turns(&turns);
        outcome?;
        stalled(stream.shutdown()).await?;
        wait_for_end(stream).await
    }

    async fn echo(&self, stream: &mut BoxStream) -> io::Result<()> {
        let mut block = vec![0; self.block];
        loop {
            let n = stalled(stream.read(&mut block)).await?;
            if n == 0 {
                return leave(stream).await;
            }
            self.tally.add_received(n);
            stalled(async {
                stream.write_all(block.get(..n).unwrap_or_default()).await?;
                stream.flush().await
            })
            .await?;
            self.tally.add_sent(n);
        }
    }
}

/// Returns the error for a peer that does not respond.
fn timed_out(fact: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, fact)
}

/// Waits for one read or write; returns `None` when the time is over.
///
/// # Cancel safety
/// That of the operation: a dropped write wrote nothing.
async fn in_time<T>(
    budget: &Budget,
    operation: impl Future<Output = io::Result<T>>,
) -> io::Result<Option<T>> {
    match budget.until() {
        Some(until) => match timeout_at(until, stalled(operation)).await {
            Ok(outcome) => outcome.map(Some),
            Err(_) => Ok(None),
        },
        None => stalled(operation).await.map(Some),
    }
}

/// The reason why receiving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    ByPeer,
    Enough,
}

/// The source of a sender's data.
enum Source {
    Made(Payload),
    File(FileHandle, Vec<u8>),
}

impl Source {
    /// Returns the next bytes, at most `want`; none at the end.
    async fn next(&mut self, want: usize) -> io::Result<&[u8]> {
        match self {
            Self::Made(payload) => Ok(payload.next(want)),
            Self::File(file, block) => {
                let n = file.read(block.get_mut(..want).unwrap_or_default()).await?;
                Ok(block.get(..n).unwrap_or_default())
            }
        }
    }
}

async fn open(path: &Path, flags: Flags) -> io::Result<FileHandle> {
    let name = path.to_str().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "file: the name is not UTF-8")
    })?;
    let mut options = FileOptions::default();
    options.flags = flags;
    let opened = File::new()
        .with_options(options)
        .connect(&Target::file(name))
        .await;
    opened.map_err(io::Error::other)
}

/// Shuts down a stream after the peer's end. Without half-close the peer has closed the connection.
pub(crate) async fn leave<W: AsyncWrite + Unpin>(stream: &mut W) -> io::Result<()> {
    match stalled(stream.shutdown()).await {
        Err(error) if is_gone(&error) => Ok(()),
        other => other,
    }
}

/// Waits for the end of the peer, which has then read everything.
async fn wait_for_end(stream: &mut BoxStream) -> io::Result<()> {
    // Without half-close, the shutdown has waited for the peer already.
    if stream.info().ends_together {
        return Ok(());
    }
    match stalled(stream.read(&mut [0])).await {
        Ok(0) => Ok(()),
        Ok(_) if is_answer(stream) => stalled(drain(stream)).await,
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the peer sends as well: give --both to both ends",
        )),
        // A MODE E connection of Globus carries one direction only, so that no end mark comes back.
        // All other peers send one when they have read everything.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && is_of_mode_e(&error) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Returns whether the received data is the body of an HTTP response, which confirms the upload.
fn is_answer(stream: &BoxStream) -> bool {
    let info = stream.info();
    let exchange = info.get::<xio::http::Exchange>();
    exchange.is_some_and(|exchange| exchange.response().is_some())
}

/// Discards data to the end, or up to a limit.
async fn drain(stream: &mut BoxStream) -> io::Result<()> {
    let mut block = vec![0; 16 << 10];
    let mut read = 0;
    while read < ANSWER {
        match stream.read(&mut block).await? {
            0 => break,
            n => read += n,
        }
    }
    Ok(())
}

fn is_of_mode_e(error: &io::Error) -> bool {
    xio::Error::layer_of(error).is_some_and(|error| error.layer() == "mode_e")
}

/// Returns whether the peer has closed or reset the connection.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
    )
}

pub(crate) async fn stalled<T>(operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(STALL, operation).await.unwrap_or_else(|_| {
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "no data passed in either direction for {} s",
                STALL.as_secs()
            ),
        ))
    })
}

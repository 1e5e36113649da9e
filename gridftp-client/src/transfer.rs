//! `Transfer`: its beginning, its data while the server may reply, and the word of both ends on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::reply::Reply;
use gridftp_data::{ErrorKind as DataErrorKind, Watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::control::{Replies, Step};
use crate::error::{ControlError, TransferError};
use crate::url::show;

/// Wait for the server's reply about a transfer that failed.
pub(crate) const ACCOUNT: Duration = Duration::from_secs(5);
/// Wait for bytes on their way: data when the server refused the rest, its reply
/// when it broke the connection off.
pub(crate) const QUIET: Duration = Duration::from_secs(1);
/// Time for a refused upload to end by itself, which keeps its connections.
const DRAIN: Duration = Duration::from_millis(500);
/// Wait for the final reply to a download after the end of its data.
const FINAL: Duration = Duration::from_secs(30);

/// The failure of a transfer, and the session behind it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: TransferError,
    pub(crate) session: SessionState,
    /// Whether the server had accepted it: a refusal then may be that of a connection that broke.
    pub(crate) midway: bool,
}

/// State of a session after a transfer that failed; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SessionState {
    /// The next transfer can use it, with its data channel.
    Reusable,
    /// The data channel is of no use any more.
    ChannelBroken,
    /// It is left for one with another stack of data connections, and the transfer has not failed.
    Left,
    /// The server still owes its reply, which would keep the next command waiting.
    Unanswered,
    /// It ended.
    Lost,
}

impl SessionState {
    /// The session after the failure of data that the server has `answered` or not.
    pub(crate) fn after_data(answered: bool) -> Self {
        match answered {
            true => Self::ChannelBroken,
            false => Self::Unanswered,
        }
    }
}

impl Failure {
    /// A transfer that the server did not begin; a refusal leaves the session as it was, unless it
    /// is for the data channel.
    pub(crate) fn to_begin(error: ControlError) -> Self {
        let session = match &error {
            ControlError::Lost { .. } => SessionState::Lost,
            ControlError::Refused { .. } if error.kind() != Some(FailureKind::DataChannel) => {
                SessionState::Reusable
            }
            _ => SessionState::ChannelBroken,
        };
        Self {
            error: error.into(),
            session,
            midway: false,
        }
    }

    /// Says whether trying again may help.
    pub(crate) fn is_transient(&self) -> bool {
        match self.midway {
            true => self.error.is_transient_midway(),
            false => self.error.is_transient(),
        }
    }

    /// A transfer that ends for a session with another stack.
    pub(crate) fn left() -> Self {
        let what = "transfer: it goes on over another stack";
        Self::midway(TransferError::request(what, ""), SessionState::Left)
    }

    /// A transfer that was under way.
    pub(crate) fn midway(error: impl Into<TransferError>, session: SessionState) -> Self {
        Self {
            error: error.into(),
            session,
            midway: true,
        }
    }
}

impl From<TransferError> for Failure {
    /// A failure before a command for data was sent, or after its end.
    fn from(error: TransferError) -> Self {
        let session = match &error {
            TransferError::Control(ControlError::Refused { .. })
            | TransferError::Request { .. }
            | TransferError::Size { .. }
            | TransferError::Unmarked { .. } => SessionState::Reusable,
            _ => SessionState::Lost,
        };
        Self {
            error,
            session,
            midway: false,
        }
    }
}

impl Replies {
    /// Waits until the server says that the transfer begins.
    pub(crate) async fn begin(&mut self) -> Result<(), ControlError> {
        match self.next().await? {
            Step::Preliminary(_) => Ok(()),
            Step::Done(_) => Err(self.misbehaved("the transfer ended before it began")),
        }
    }
}

/// One transfer between this process and a server; its command has been sent.
#[derive(Debug)]
pub(crate) struct Transfer {
    replies: Replies,
    /// The final reply, when it came before the data was through.
    end: Option<Result<Reply, ControlError>>,
    direction: Direction,
    /// Path at the server.
    path: String,
    /// Path of the local file, if there is one.
    file: Option<Vec<u8>>,
}

/// Direction of the data, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Download,
    Upload,
}

impl Transfer {
    /// A retrieval, or a listing, of `path`.
    pub(crate) fn download(replies: Replies, path: &[u8]) -> Self {
        Self::new(replies, Direction::Download, path)
    }

    /// A store to `path`.
    pub(crate) fn upload(replies: Replies, path: &[u8]) -> Self {
        Self::new(replies, Direction::Upload, path)
    }

    fn new(replies: Replies, direction: Direction, path: &[u8]) -> Self {
        Self {
            replies,
            end: None,
            direction,
            path: show(path),
            file: None,
        }
    }

    /// Names the local file, for errors of the storage.
    pub(crate) fn with_file(self, path: &[u8]) -> Self {
        let file = Some(path.to_vec());
        Self { file, ..self }
    }

    /// Says whether the server has accepted the transfer.
    pub(crate) fn has_begun(&self) -> bool {
        self.replies.has_begun()
    }

    /// The replies, for the errors that a caller makes of them.
    pub(crate) fn replies(&self) -> &Replies {
        &self.replies
    }

    /// The replies that are still to come to a transfer which moves no data yet.
    pub(crate) fn into_replies(self) -> Replies {
        self.replies
    }

    /// Waits until the server says that the transfer begins.
    pub(crate) async fn begin(&mut self) -> Result<(), ControlError> {
        self.replies.begin().await
    }

    /// Opens the connection of an upload in MODE S and waits until the server accepts the upload:
    /// a server that reads ahead loses data which is there before its `STOR`.
    ///
    /// A server that has not replied `within` its time is given up.
    pub(crate) async fn begin_with(
        &mut self,
        within: Duration,
        open: impl Future<Output = gridftp_data::Result<()>>,
    ) -> Result<(), Failure> {
        tokio::pin!(open);
        let mut opened = false;
        loop {
            let error = tokio::select! {
                done = &mut open, if !opened => match done {
                    Ok(()) => {
                        opened = true;
                        continue;
                    }
                    // A server that refuses may have closed its port before it says so.
                    Err(cause) => match timeout(QUIET, self.replies.next()).await {
                        Ok(Err(refused)) => refused,
                        _ => return Err(Failure::midway(self.data_error(cause), SessionState::Unanswered)),
                    },
                },
                begun = self.replies.begin(), if !self.replies.has_begun() => match begun {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                () = tokio::time::sleep(within), if opened && !self.replies.has_begun() => {
                    self.replies.unanswered("control channel: no reply in time")
                }
                else => return Ok(()),
            };
            let session = match error {
                ControlError::Lost { .. } => SessionState::Lost,
                _ => SessionState::ChannelBroken,
            };
            return Err(Failure {
                session,
                ..Failure::to_begin(error)
            });
        }
    }

    /// Moves the data, which `watch` sees, and takes the word of both ends on it.
    pub(crate) async fn run<T>(
        &mut self,
        watch: &Watch,
        data: impl Future<Output = gridftp_data::Result<T>>,
    ) -> Result<T, Failure> {
        let (moved, _) = self.run_with(watch, data, |_| ()).await?;
        Ok(moved)
    }

    /// As [`run`](Self::run), with the last reply; `each` gets the preliminary ones.
    pub(crate) async fn run_with<T>(
        &mut self,
        watch: &Watch,
        data: impl Future<Output = gridftp_data::Result<T>>,
        mut each: impl FnMut(&Reply),
    ) -> Result<(T, Reply), Failure> {
        let moved = self.pass(watch, data, &mut each).await?;
        let reply = self.end(each).await?;
        Ok((moved, reply))
    }

    /// Moves the data, which `watch` sees; the server's word on it may still be to come. `each`
    /// gets the preliminary replies.
    ///
    /// After a refusal the data that is on its way has a moment to arrive, so that the connections
    /// serve the next transfer.
    pub(crate) async fn pass<T>(
        &mut self,
        watch: &Watch,
        data: impl Future<Output = gridftp_data::Result<T>>,
        mut each: impl FnMut(&Reply),
    ) -> Result<T, Failure> {
        tokio::pin!(data);
        let moved = tokio::select! {
            biased;
            moved = &mut data => Some(moved),
            end = self.replies.finish_with(&mut each) => {
                let is_refused = end.is_err();
                // Kept before any wait: a caller that drops this future still gets the reply.
                self.end = Some(end);
                if is_refused {
                    watch.cut();
                    the_rest(watch, self.grace(), data).await
                } else {
                    Some(data.await)
                }
            }
        };
        match (moved, self.end.take()) {
            (Some(Ok(moved)), end) => {
                self.end = end;
                Ok(moved)
            }
            (Some(Err(cause)), end) => Err(self.failed(watch, cause, end, each).await),
            (None, Some(Err(error))) => Err(self.refused(error)),
            (None, _) => unreachable!("data is given up after an error only"),
        }
    }

    /// Waits for the server's word on data that is through.
    ///
    /// Of an upload, data may still be on its way, and is written and checked there: the server has
    /// the time of any command that works.
    pub(crate) async fn end(&mut self, each: impl FnMut(&Reply)) -> Result<Reply, Failure> {
        let word = match (self.end.take(), self.direction) {
            (Some(end), _) => end,
            (None, Direction::Upload) => self.replies.finish_with(each).await,
            (None, Direction::Download) => match self.account(FINAL, each).await {
                Some(end) => end,
                None => Err(self
                    .replies
                    .misbehaved("no final reply although the data has ended")),
            },
        };
        word.map_err(|error| {
            let answered = !matches!(error, ControlError::Misbehaved { .. });
            Failure::midway(error, SessionState::after_data(answered))
        })
    }

    /// As [`end`](Self::end), but once a data connection was `reset`, until the server has been silent
    /// for `within`: one that lost the data may never know.
    pub(crate) async fn end_or_reset(
        &mut self,
        reset: &CancellationToken,
        within: Duration,
        mut each: impl FnMut(&Reply),
    ) -> Result<Reply, Failure> {
        let heard = AtomicBool::new(false);
        let ended = {
            let end = self.end(|reply| {
                heard.store(true, Ordering::Relaxed);
                each(reply);
            });
            tokio::pin!(end);
            match reset.run_until_cancelled(&mut end).await {
                Some(ended) => Some(ended),
                None => loop {
                    heard.store(false, Ordering::Relaxed);
                    let ended = timeout(within, &mut end).await.ok();
                    if ended.is_some() || !heard.load(Ordering::Relaxed) {
                        break ended;
                    }
                },
            }
        };
        ended.unwrap_or_else(|| {
            let why = "a data connection broke, and no reply about the transfer came";
            let lost = self.replies.unanswered(why);
            Err(Failure::midway(lost, SessionState::Lost))
        })
    }

    /// Waits for the server's own account of a transfer after the end of its connections.
    pub(crate) async fn account(
        &mut self,
        within: Duration,
        each: impl FnMut(&Reply),
    ) -> Option<Result<Reply, ControlError>> {
        if let Some(end) = self.end.take() {
            return Some(end);
        }
        timeout(within, self.replies.finish_with(each)).await.ok()
    }

    /// The time that the rest of the data has after a refusal. Of a download that did not begin
    /// there is none.
    fn grace(&self) -> Duration {
        match self.direction {
            Direction::Upload => DRAIN,
            Direction::Download if self.has_begun() => ACCOUNT,
            Direction::Download => Duration::ZERO,
        }
    }

    /// The failure of data; the server's own account of it says more than that a connection broke.
    async fn failed(
        &mut self,
        watch: &Watch,
        cause: gridftp_data::Error,
        end: Option<Result<Reply, ControlError>>,
        each: impl FnMut(&Reply),
    ) -> Failure {
        // Without a connection there is nothing to tell, unless the server broke it at once.
        let within = if watch.is_open() { ACCOUNT } else { QUIET };
        let first = end.is_some();
        let word = match end {
            Some(word) => Some(word),
            None => self.account(within, each).await,
        };
        let session = SessionState::after_data(word.is_some());
        match (self.data_error(cause), word) {
            (error @ TransferError::Local { .. }, _) => Failure::midway(error, session),
            (error, _) if error.is_corrupt() => Failure::midway(error, session),
            (_, Some(Err(error))) if first || error.reply().is_some() => self.refused(error),
            (error, _) => Failure::midway(error, session),
        }
    }

    /// The failure of a transfer that the server ended.
    fn refused(&self, error: ControlError) -> Failure {
        match (self.has_begun(), self.direction) {
            (false, Direction::Download) => Failure::to_begin(error),
            (midway, _) => Failure {
                midway,
                ..Failure::midway(error, SessionState::ChannelBroken)
            },
        }
    }

    fn data_error(&self, cause: gridftp_data::Error) -> TransferError {
        let path = match (&self.file, cause.kind()) {
            (Some(file), DataErrorKind::Storage) => {
                let op = match self.direction {
                    Direction::Download => "write",
                    Direction::Upload => "read",
                };
                return TransferError::local(op, file, cause);
            }
            _ => self.path.clone(),
        };
        let site = self.replies.site().to_owned();
        TransferError::Data { site, path, cause }
    }
}

/// Moves the data that is on its way already, as long as any moves, though not for long.
async fn the_rest<T>(watch: &Watch, within: Duration, data: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(data);
    let all = async {
        loop {
            let before = watch.bytes();
            match timeout(QUIET, &mut data).await {
                Ok(data) => return Some(data),
                Err(_) if watch.bytes() == before => return None,
                Err(_) => {}
            }
        }
    };
    timeout(within, all).await.ok().flatten()
}

#[cfg(test)]
mod tests;

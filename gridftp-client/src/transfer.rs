//! One transfer: its beginning, its data while the server may reply, and the word of both ends on it.

use std::time::Duration;

use ftp_proto::client::FailureKind;
use gridftp_data::{ErrorKind as DataErrorKind, Watch};

use crate::control::{Replies, Step};
use crate::error::{ControlError, TransferError};
use crate::url::show;

/// How long a server may take to give its own account of a transfer that failed.
pub(crate) const ACCOUNT: Duration = Duration::from_secs(5);
/// How long what is on its way may stay away: data when the server refused the rest, its account when
/// it broke the connection off.
pub(crate) const QUIET: Duration = Duration::from_secs(1);
/// How long a refused upload goes on: one that ends within it keeps its connections.
pub(crate) const DRAIN: Duration = Duration::from_millis(500);

/// Why a transfer failed, and what it leaves.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: TransferError,
    pub(crate) session: Session,
    /// Whether the server had accepted it: a refusal then may be that of a connection that broke.
    pub(crate) midway: bool,
}

/// State of a session after a transfer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    /// The next transfer can use it, with its data channel.
    Reusable,
    /// The data channel is of no use any more.
    ChannelBroken,
    /// The server still owes its reply, which would keep the next command waiting.
    Unanswered,
    /// It ended.
    Lost,
}

impl Session {
    /// The session of a transfer whose data failed, and that the server has `answered` or not.
    pub(crate) fn after_data(answered: bool) -> Self {
        match answered {
            true => Self::ChannelBroken,
            false => Self::Unanswered,
        }
    }
}

impl Failure {
    /// A transfer that the server did not begin; a refusal leaves the session as it was, unless it is
    /// for the data channel.
    pub(crate) fn to_begin(error: ControlError) -> Self {
        let session = match &error {
            ControlError::Lost { .. } => Session::Lost,
            ControlError::Refused { .. } if error.kind() != Some(FailureKind::DataChannel) => {
                Session::Reusable
            }
            _ => Session::ChannelBroken,
        };
        Self {
            error: error.into(),
            session,
            midway: false,
        }
    }

    /// A transfer that was under way.
    pub(crate) fn midway(error: impl Into<TransferError>, session: Session) -> Self {
        Self {
            error: error.into(),
            session,
            midway: true,
        }
    }

    /// As [`midway`](Self::midway), if the server has accepted it.
    pub(crate) fn of(replies: &Replies, error: impl Into<TransferError>, session: Session) -> Self {
        Self {
            midway: replies.has_begun(),
            ..Self::midway(error, session)
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

/// Reads the final reply of a transfer whose data is done with, in bounded time; a failed one leaves
/// the server less to do.
pub(crate) async fn settle_final(replies: &mut Replies, well: bool) -> Result<(), ControlError> {
    let within = if well {
        ACCOUNT.saturating_mul(6)
    } else {
        ACCOUNT
    };
    match tokio::time::timeout(within, replies.finish()).await {
        Ok(done) => done.map(drop),
        Err(_) => Err(replies.misbehaved("no final reply although the data has ended")),
    }
}

/// Reads the final reply of a store whose data is out. That may still be on its way, and is written and
/// checked there: the server has the time of any command that works.
pub(crate) async fn settle_stored(replies: &mut Replies, well: bool) -> Result<(), ControlError> {
    match well {
        true => replies.ended().await,
        false => settle_final(replies, false).await,
    }
}

/// What became of a transfer: what moved it, unless it was given up, and its final reply, if it came
/// meanwhile.
pub(crate) struct Moved<T, R = ()> {
    pub(crate) data: Option<T>,
    pub(crate) end: Option<Result<R, ControlError>>,
}

/// Moves data, which `watch` sees, until it is through, or the server's refusal says that it never will be;
/// then the rest has `within` to come.
pub(crate) async fn move_data<T, R>(
    watch: &Watch,
    within: Duration,
    moving: impl Future<Output = T>,
    replies: impl Future<Output = Result<R, ControlError>>,
) -> Moved<T, R> {
    tokio::pin!(moving, replies);
    tokio::select! {
        biased;
        data = &mut moving => Moved { data: Some(data), end: None },
        end = &mut replies => {
            let data = match &end {
                Ok(_) => Some(moving.await),
                Err(_) => {
                    watch.cut();
                    the_rest(watch, within, moving).await
                }
            };
            Moved { data, end: Some(end) }
        }
    }
}

/// Moves what is on its way already, as long as anything moves, though not for long.
async fn the_rest<T>(
    watch: &Watch,
    within: Duration,
    moving: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(moving);
    let all = async {
        loop {
            let before = watch.bytes();
            match tokio::time::timeout(QUIET, &mut moving).await {
                Ok(data) => return Some(data),
                Err(_) if watch.bytes() == before => return None,
                Err(_) => {}
            }
        }
    };
    tokio::time::timeout(within, all).await.ok().flatten()
}

/// Opens the connection of an upload in MODE S and waits for the server's word that it takes the
/// upload: one that reads ahead loses data which is there before its `STOR`.
///
/// A server that has not said so `within` the time it has for a reply is given up.
pub(crate) async fn accepted(
    replies: &mut Replies,
    within: Duration,
    open: impl Future<Output = gridftp_data::Result<()>>,
) -> Result<gridftp_data::Result<()>, ControlError> {
    tokio::pin!(open);
    let (mut opened, mut begun) = (false, false);
    while !(opened && begun) {
        tokio::select! {
            done = &mut open, if !opened => match done {
                Ok(()) => opened = true,
                // One that refuses may have closed its port before it says so.
                Err(cause) => return match tokio::time::timeout(QUIET, replies.next()).await {
                    Ok(Err(refused)) => Err(refused),
                    _ => Ok(Err(cause)),
                },
            },
            first = replies.begin(), if !begun => {
                first?;
                begun = true;
            }
            () = tokio::time::sleep(within), if opened => {
                return Err(replies.unanswered("control channel: no reply in time"));
            }
        }
    }
    Ok(Ok(()))
}

/// Moves data unless the command is refused first.
pub(crate) async fn unless_refused<T>(
    replies: &mut Replies,
    moving: impl Future<Output = gridftp_data::Result<T>>,
) -> Result<gridftp_data::Result<T>, TransferError> {
    tokio::pin!(moving);
    tokio::select! {
        moved = &mut moving => Ok(moved),
        first = replies.begin() => {
            first?;
            Ok(moving.await)
        }
    }
}

/// Takes both ends' word on what was moved; the server's own account of a failure says more than that
/// its connection broke.
pub(crate) fn settle<T>(
    moved: gridftp_data::Result<T>,
    end: Result<(), ControlError>,
    site: &str,
    path: &[u8],
    (op, local): (&'static str, &str),
) -> Result<T, TransferError> {
    match (moved, end) {
        (Ok(moved), Ok(())) => Ok(moved),
        (Err(cause), _) if cause.kind() == DataErrorKind::Storage => {
            Err(TransferError::local(op, local, cause))
        }
        (_, Err(error @ ControlError::Refused { .. })) | (Ok(_), Err(error)) => Err(error.into()),
        (Err(cause), _) => Err(TransferError::Data {
            site: site.to_owned(),
            path: show(path),
            cause,
        }),
    }
}

#[cfg(test)]
mod tests {
    use ftp_proto::client::Settings;
    use ftp_wire::command::Command;
    use ftp_wire::path::FtpPath;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::played;

    #[tokio::test(start_paused = true)]
    async fn a_server_may_be_minutes_about_what_it_has_taken() {
        let (control, mut banner, mut far) = played::connect(Settings::default());
        far.write_all(b"220 ready\r\n").await.unwrap();
        banner.finish().await.unwrap();
        let path = FtpPath::new(b"/file".to_vec()).unwrap();
        let mut replies = control.send(Command::Stor(path));
        let mut line = [0; 12];
        far.read_exact(&mut line).await.unwrap();
        let server = async {
            far.write_all(b"150 send it\r\n").await.unwrap();
            tokio::time::sleep(Duration::from_secs(300)).await;
            far.write_all(b"226 all is safe\r\n").await.unwrap();
        };
        let (end, ()) = tokio::join!(settle_stored(&mut replies, true), server);
        end.unwrap();
    }
}

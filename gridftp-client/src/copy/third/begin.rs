//! The begin of a copy from server to server, and the release of one end when the other refuses.

use std::future::pending;
use std::net::IpAddr;
use std::pin::Pin;

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, Epsv};
use ftp_wire::reply::Reply;
use gridftp_data::Watch;
use tokio::time::timeout;
use xio_core::{Target, Transport as _};

use super::{Moving, Pair};
use crate::control::Replies;
use crate::copy::Stop;
use crate::copy::hidden::may_be_for_name;
use crate::copy::kept::is_busy;
use crate::error::{ControlError, TransferError, lacks_channel, names_refused_host};
use crate::transfer::{ACCOUNT, Failure, QUIET, SessionState};

/// A `RETR`; in MODE S the `STOR` goes first, since some servers lose data that comes before it,
/// and before a handshake of Grid security.
pub(super) enum Retrieve {
    /// It was sent.
    Sent(Replies),
    /// It is sent behind the `STOR`.
    Later(Command),
}

impl Pair<'_> {
    /// Waits until both servers have accepted a file; each may say so only when the data connection
    /// is there. Behind a source that has accepted it and failed, a destination of ours may not have.
    pub(super) async fn begin(&self, mut file: Moving) -> Result<Option<Moving>, Stop> {
        let (source, destination) = loop {
            let begun = (file.retrieve.has_begun(), file.store.has_begun());
            if begun == (true, true) {
                return Ok(Some(file));
            }
            let retrieve = &mut file.retrieve;
            let source = async {
                if !begun.0 {
                    return retrieve.begin().await.map(|()| false);
                }
                // Of other servers, the refusal of the destination comes by itself.
                match self.abilities.1.held && retrieve.fails().await {
                    true => Ok(true),
                    false => pending().await,
                }
            };
            tokio::select! {
                first = source => match first {
                    Ok(false) => {}
                    // The destination may have refused the connection, and waits for another: it is
                    // told to stop behind this failure.
                    Ok(true) => return Ok(Some(file)),
                    Err(error) => break (Some(error), None),
                },
                first = file.store.begin(), if !begun.1 => {
                    if let Err(error) = first {
                        break (None, Some(error));
                    }
                }
            }
        };
        self.refuse(file, source, destination).await
    }

    /// Ends an attempt that one server refused, and frees the other: the sessions serve the next
    /// file.
    async fn refuse(
        &self,
        mut file: Moving,
        source: Option<ControlError>,
        mut destination: Option<ControlError>,
    ) -> Result<Option<Moving>, Stop> {
        let of_data = |error: &ControlError| error.kind() == Some(FailureKind::DataChannel);
        // A destination that refuses shuts its port, which the source may notice and tell first.
        if source.as_ref().is_some_and(of_data)
            && let Ok(Err(told)) = timeout(QUIET, file.store.finish()).await
        {
            destination = Some(told);
        }
        file.taken.file_mut().note_unplaced(destination.as_ref());
        let lost = [&source, &destination]
            .into_iter()
            .flatten()
            .any(|error| matches!(error, ControlError::Lost { .. }));
        let mut released = None;
        let free = !lost
            && match (&source, &destination) {
                (None, _) => self.stop_source(&mut file.retrieve).await,
                (Some(_), None) => {
                    released = self.release(&mut file.store).await;
                    matches!(released, Some(Ok(_) | Err(ControlError::Refused { .. })))
                }
                (Some(_), Some(_)) => true,
            };
        let for_name = destination.as_ref().is_some_and(may_be_for_name);
        let refusal = destination.as_ref().and_then(ControlError::reply);
        let busy = is_busy(refusal, file.taken.file().failures, &self.shared.options);
        // It may have been refused for the bytes that it was to go on with.
        let midway = destination.is_some() && file.resumes && !lost;
        let anew = midway && !busy;
        file.taken.file_mut().anew |= anew;
        let told = released.and_then(Result::err).filter(tells_of_refused);
        let error = of_ends(source, destination.or(told));
        let error = error.unwrap_or_else(|| file.store.misbehaved("neither end refused it").into());
        let hidden = file.taken.file().hidden.is_some();
        let session = match (lost, free) {
            (true, _) => SessionState::Lost,
            (false, true) => SessionState::ChannelBroken,
            (false, false) => SessionState::Unanswered,
        };
        let failure = Failure {
            error,
            session,
            midway,
        };
        if !anew && for_name && hidden {
            self.shared.go_straight(file.taken);
            return Stop::of(failure).map_or(Ok(None), Err);
        }
        self.fail(file.taken, failure).map(|()| None)
    }

    /// Has the source stop sending to a destination that does not read; says whether it has. Servers
    /// other than ours may answer neither `ABOR` nor the digest that they are asked for beside the
    /// transfer, as a Globus server does, so that their session is given up then.
    async fn stop_source(&self, retrieve: &mut Replies) -> bool {
        // The destination gives up the port, and with it the connections that nobody took.
        drop(self.destination.send(match self.destination.peer() {
            IpAddr::V4(_) => Command::Pasv,
            IpAddr::V6(_) => Command::Epsv(Epsv::Any),
        }));
        if !self.abilities.0.held && self.source.due() > usize::from(retrieve.is_due()) {
            return false;
        }
        drop(self.source.abort_on_drop());
        let ended = timeout(ACCOUNT, retrieve.finish()).await;
        matches!(ended, Ok(Ok(_) | Err(ControlError::Refused { .. })))
    }

    /// Frees a destination that waits for data which will not come: it takes a connection
    /// that is reset at once. Gives its word, with which it is free.
    async fn release(&self, store: &mut Replies) -> Option<Result<Reply, ControlError>> {
        let reset = async {
            let tcp = xio::registry().stack("tcp").ok()?;
            tcp.connect(&Target::from(self.port?)).await.ok().map(drop)
        };
        timeout(QUIET, reset).await.ok()?;
        timeout(ACCOUNT, store.finish()).await.ok()
    }

    /// The final reply of the destination behind the failure `error` of the source, if it comes in
    /// time. A destination that still waits for a connection is told to stop: it may have refused
    /// those of the source, and its reply then says so.
    pub(super) async fn account<T>(
        &self,
        error: &ControlError,
        mut stored: Pin<&mut impl Future<Output = Result<T, ControlError>>>,
        data: &Watch,
    ) -> Option<Result<T, ControlError>> {
        let waits = || !data.is_open() && lacks_channel(error);
        if waits()
            && let Ok(word) = timeout(QUIET, stored.as_mut()).await
        {
            return Some(word);
        }
        let stopped = waits();
        if stopped {
            self.destination.abort();
        }
        let word = timeout(ACCOUNT, stored).await.ok()?;
        let is_of_stop = |told: &ControlError| lacks_channel(told) && !tells_of_refused(told);
        let is_empty = stopped && word.as_ref().is_err_and(is_of_stop);
        (!is_empty).then_some(word)
    }
}

/// Says whether a server tells the hosts whose data connections it refused.
fn tells_of_refused(error: &ControlError) -> bool {
    error.reply().is_some_and(names_refused_host)
}

/// The failure of one end or of both.
fn of_ends(
    source: Option<ControlError>,
    destination: Option<ControlError>,
) -> Option<TransferError> {
    match (source, destination) {
        (Some(source), Some(destination)) => Some(TransferError::Both {
            source: Box::new(source.into()),
            destination: Box::new(destination.into()),
        }),
        (source, destination) => source.or(destination).map(TransferError::from),
    }
}

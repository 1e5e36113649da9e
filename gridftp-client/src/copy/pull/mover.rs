//! `Mover`: takes the data of one retrieval after the other, and judges what came.

use std::sync::Arc;
use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::command::Mode;
use gridftp_data::{ErrorKind as DataErrorKind, ReceivePlan, Received, Watch};
use gridftp_dsi_posix::FileSink;

use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::reach::Reach;
use crate::copy::shared::Shared;
use crate::error::{Chain, ControlError, TransferError};
use crate::transfer::{ACCOUNT, Failure, Moved, QUIET, Session, move_data, settle_final};
use crate::url::show;

use super::ask::Asker;
use super::land::{open_sink, plan, whole};
use super::list::lists_otherwise;
use super::{Asked, Cut, Landed};

/// Takes the data of one transfer after the other.
pub(super) struct Mover<'a> {
    pub(super) control: &'a Control,
    pub(super) channel: &'a mut gridftp_data::DataChannel,
    pub(super) shared: &'a Arc<Shared>,
    /// How long to wait for a server of which it is not known whether it reaches us.
    pub(super) patience: Option<Duration>,
}

impl Mover<'_> {
    /// Takes one transfer in MODE E; gives the file when its data is here.
    pub(super) async fn take(&mut self, asked: Asked) -> Result<Option<Landed>, Stop> {
        let asked = Self::settle_before(self.shared, asked).await?;
        let Some(mut asked) = self.begin(asked).await? else {
            return Ok(None);
        };
        let Item::File(job) = asked.taken.item_mut() else {
            let listed = Box::pin(self.list(asked, Mode::Extended));
            return listed.await.map(|()| None);
        };
        // It was opened before the file was asked for, unless the server does not go on with it.
        let sink = match open_sink(self.shared, job).await {
            Ok(sink) => sink,
            Err(error) => {
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Replace);
            }
        };
        let plan = plan(self.shared, Mode::Extended, 0).tag(asked.sent.tag);
        let watch = Watch::new();
        let work = Box::pin(self.channel.receive(&sink, &plan, &watch));
        let work = move_data(&watch, ACCOUNT, work, asked.sent.replies.ended());
        let moved = self.shared.watched(self.control, &watch, work).await;
        Self::end((self.control, self.shared), asked, sink, &watch, moved).await
    }

    /// Waits until the server begins; `None` where it refuses what was asked for alone.
    async fn begin(&mut self, mut asked: Asked) -> Result<Option<Asked>, Stop> {
        let replies = &mut asked.sent.replies;
        let first = match self.patience {
            Some(patience) => match tokio::time::timeout(patience, replies.begin()).await {
                Ok(first) => first,
                Err(_) if self.shared.reach() == Reach::Trusted => replies.begin().await,
                Err(_) => {
                    self.shared.note_reach(Reach::Doubted);
                    return Err(Stop::Replace);
                }
            },
            None => replies.begin().await,
        };
        let Err(error) = first else {
            self.patience = None;
            self.shared.note_reach(Reach::Trusted);
            return Ok(Some(asked));
        };
        let of_data = error.kind() == Some(FailureKind::DataChannel);
        // It may have had none left for a moment.
        if of_data && self.patience.is_some() && self.shared.reach() != Reach::Trusted {
            self.shared.note_reach(Reach::Doubted);
            return Err(Stop::Channel);
        }
        let refused = matches!(error, ControlError::Refused { .. });
        if !refused || !lists_otherwise(&mut asked.taken, &error) {
            let failure = Failure::to_begin(error);
            self.shared.fail_transfer(asked.taken, failure)?;
        }
        Ok(None)
    }

    /// Takes one transfer in MODE S, over a connection of its own.
    pub(super) async fn take_alone(
        &mut self,
        asker: &Asker<'_>,
        asked: Asked,
    ) -> Result<Option<Landed>, Stop> {
        let mut asked = Self::settle_before(self.shared, asked).await?;
        let Item::File(job) = asked.taken.item_mut() else {
            let listed = Box::pin(self.list(asked, Mode::Stream));
            return listed.await.map(|()| None);
        };
        let start = job.held.first_hole();
        let sink = match open_sink(self.shared, job).await {
            Ok(sink) => sink,
            Err(error) => {
                self.shared.fail(asked.taken, &error);
                // The server waits for a connection that will not come.
                return Err(Stop::Replace);
            }
        };
        let cut = asked.sent.cut.map(|cut| cut.length);
        let plan = plan(self.shared, Mode::Stream, start).until(cut);
        let watch = Watch::new();
        let mut moved = match self.receive(&mut asked, &sink, &plan, &watch).await {
            Ok(moved) => moved,
            Err(error) => {
                keep(&mut asked.taken, sink);
                let failure = Failure::to_begin(error);
                self.shared.fail_transfer(asked.taken, failure)?;
                return Ok(None);
            }
        };
        if let (Some(Err(cause)), None, false) = (&moved.data, &moved.end, watch.is_open()) {
            let why = Chain(cause).to_string();
            keep(&mut asked.taken, sink);
            return Self::unconnected((self.control, self.shared), asked, &why).await;
        }
        let is_done = cut.is_some() && matches!(moved.data, Some(Ok(_)));
        if is_done && moved.end.is_none() {
            let told = tokio::time::timeout(QUIET, asked.sent.replies.ended()).await;
            moved.end = told.ok();
        }
        // Some say nothing of a connection that was closed on them, and what they say next may be that.
        let is_last = is_done && moved.end.is_none();
        if is_last {
            moved.end = Some(Ok(()));
        }
        match Self::end((self.control, self.shared), asked, sink, &watch, moved).await {
            Ok(Some(mut landed)) => {
                if cut.is_some() && !is_last {
                    landed.after = asker.look_after(&landed.taken, start > 0);
                }
                landed.is_last = is_last;
                Ok(Some(landed))
            }
            _ if is_last => Err(Stop::Replace),
            ended => ended,
        }
    }

    /// Receives over a connection that may be there before the server says that it begins.
    async fn receive(
        &mut self,
        asked: &mut Asked,
        sink: &FileSink,
        plan: &ReceivePlan,
        watch: &Watch,
    ) -> Result<Moved<gridftp_data::Result<Received>>, ControlError> {
        let replies = &mut asked.sent.replies;
        let receive = Box::pin(self.channel.receive(sink, plan, watch));
        let work = async {
            tokio::pin!(receive);
            tokio::select! {
                received = &mut receive => Ok(Moved { data: Some(received), end: None }),
                first = replies.begin() => {
                    first?;
                    Ok(move_data(watch, ACCOUNT, receive, replies.ended()).await)
                }
            }
        };
        self.shared.watched(self.control, watch, work).await
    }

    /// Ends an attempt without a connection: the server has nothing to reply to then, unless it took
    /// one and broke it at once.
    async fn unconnected(
        (control, shared): (&Control, &Shared),
        mut asked: Asked,
        why: &str,
    ) -> Result<Option<Landed>, Stop> {
        let replies = &mut asked.sent.replies;
        let told = tokio::time::timeout(QUIET, replies.ended()).await;
        if let Ok(Err(error @ ControlError::Refused { .. })) = told {
            let failure = Failure::of(replies, error, Session::Reusable);
            return shared.fail_transfer(asked.taken, failure).map(|()| None);
        }
        let site = control.site();
        shared.note(&format!("{site}: data connection: {why}"));
        let failure = Failure::midway(replies.unanswered(why), Session::Unanswered);
        shared.fail_transfer(asked.taken, failure).map(|()| None)
    }

    /// Reads the replies to what was sent before the transfer command.
    async fn settle_before(shared: &Shared, mut asked: Asked) -> Result<Asked, Stop> {
        if let Some(again) = asked.sent.again.take() {
            let now = again
                .facts()
                .await
                .map_err(|error| Stop::Lost(error.into()))?;
            if let Item::File(job) = asked.taken.item_mut() {
                let same = now.is_some_and(|now| now.is_same_as(&job.facts));
                job.changed |= !job.held.is_empty() && !same;
                shared.update(job, now);
            }
        }
        let Some(mut rest) = asked.sent.rest.take() else {
            return Ok(asked);
        };
        let Err(error) = rest.finish().await else {
            return Ok(asked);
        };
        let refused = matches!(error, ControlError::Refused { .. });
        match asked.sent.cut {
            // The file from its start would not do.
            Some(Cut { offset: 1.., .. }) => {
                let session = match refused {
                    true => Session::Unanswered,
                    false => Session::Lost,
                };
                let failure = Failure::of(&asked.sent.replies, error, session);
                shared.fail_transfer(asked.taken, failure)?;
                Err(Stop::Replace)
            }
            _ if refused => {
                // All of it comes then.
                if let Item::File(job) = asked.taken.item_mut() {
                    job.forget();
                }
                Ok(asked)
            }
            _ => Err(Stop::Lost(error.into())),
        }
    }

    /// Judges what came of a file.
    async fn end(
        (control, shared): (&Control, &Shared),
        mut asked: Asked,
        sink: FileSink,
        watch: &Watch,
        moved: Moved<gridftp_data::Result<Received>>,
    ) -> Result<Option<Landed>, Stop> {
        let end = match moved.end {
            Some(end) => end,
            None => settle_final(&mut asked.sent.replies, matches!(moved.data, Some(Ok(_)))).await,
        };
        let answered = !matches!(end, Err(ControlError::Misbehaved { .. }));
        let end = match (end, &moved.data) {
            // It could not send what follows the part.
            (Err(ControlError::Refused { .. }), Some(Ok(_))) if asked.sent.cut.is_some() => Ok(()),
            (end, _) => end,
        };
        let Item::File(job) = asked.taken.item_mut() else {
            return Ok(None);
        };
        job.held.extend(&watch.received());
        let source = shared.name_source(job);
        let broken = !matches!(moved.data, Some(Ok(_))) || end.is_err();
        let error = match (moved.data, end) {
            (Some(Err(cause)), _) if cause.kind() == DataErrorKind::Storage => {
                Some(TransferError::local("write", &job.to, cause))
            }
            (_, Err(error @ ControlError::Refused { .. })) => Some(error.into()),
            (Some(Err(cause)), _) => {
                let site = control.site().to_string();
                Some(TransferError::Data {
                    site,
                    path: show(&job.from),
                    cause,
                })
            }
            (_, Err(error)) => Some(error.into()),
            (_, Ok(())) if job.changed => Some(TransferError::Changed { path: source }),
            (_, Ok(())) => whole(shared, job).err(),
        };
        let Some(error) = error else {
            let size = job.held.end();
            return Ok(Some(Landed {
                taken: asked.taken,
                sink,
                size,
                checksum: asked.sent.checksum,
                after: asked.sent.after,
                is_last: false,
            }));
        };
        // The same open file goes on at the next attempt.
        job.sink = Some(sink);
        job.changed = false;
        let session = match broken {
            true => Session::after_data(answered),
            false => Session::Reusable,
        };
        let failure = Failure::midway(error, session);
        shared.fail_transfer(asked.taken, failure).map(|()| None)
    }
}

/// Leaves the file for the next attempt: what an earlier one brought is in it.
fn keep(taken: &mut Taken, sink: FileSink) {
    if let Item::File(job) = taken.item_mut() {
        job.sink = Some(sink);
    }
}

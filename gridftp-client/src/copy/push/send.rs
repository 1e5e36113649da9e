//! Begins stores and sends their data.

use std::time::Duration;

use ftp_wire::command::{Mode, Type};
use gridftp_data::{DataChannel, SendPlan, Watch};

use crate::copy::Stop;
use crate::copy::shared::Shared;
use crate::error::{ControlError, TransferError};
use crate::transfer::{ACCOUNT, DRAIN, Failure, Session, accepted, move_data};

use super::ask::Asker;
use super::{Asked, Push, Sending, data_failed, fail, markers, refused};

impl Push<'_> {
    /// Waits until the server accepts a store; `None` where it refuses that one alone.
    pub(super) async fn begin(&self, mut asked: Asked) -> Result<Option<Asked>, Stop> {
        let shared = self.asker.shared;
        let Err(error) = asked.replies.begin().await else {
            return Ok(Some(asked));
        };
        if asked.is_refused_for_name(&error) {
            shared.go_straight(asked.taken);
            return Ok(None);
        }
        let failure = Failure {
            error: refused(shared, &asked, error.clone()),
            ..Failure::to_begin(error)
        };
        shared.fail_transfer(asked.taken, failure).map(|()| None)
    }

    /// Opens the connection of a store in MODE S and waits until the server accepts it.
    pub(super) async fn begin_alone(
        &self,
        channel: &mut DataChannel,
        mut asked: Asked,
    ) -> Result<Option<Asked>, Stop> {
        let Asker {
            control, shared, ..
        } = self.asker;
        let open = channel.open(Mode::Stream, 1);
        match accepted(&mut asked.replies, self.reply_within, open).await {
            Ok(Ok(())) => Ok(Some(asked)),
            Ok(Err(cause)) => {
                let error = data_failed(control, &asked.taken, cause);
                let failure = Failure::midway(error, Session::Unanswered);
                shared.fail_transfer(asked.taken, failure).map(|()| None)
            }
            Err(error) if asked.is_refused_for_name(&error) => {
                shared.go_straight(asked.taken);
                Err(Stop::Channel)
            }
            Err(error) => {
                let session = match error {
                    ControlError::Lost { .. } => Session::Lost,
                    _ => Session::ChannelBroken,
                };
                let failure = Failure {
                    error: refused(shared, &asked, error),
                    session,
                    midway: false,
                };
                fail(shared, asked.taken, failure, asked.resumes).map(|()| None)
            }
        }
    }

    /// Sends the data of a store.
    pub(super) async fn send(
        &self,
        channel: &mut DataChannel,
        mut asked: Asked,
    ) -> Result<Option<Sending>, Stop> {
        let Asker {
            control,
            shared,
            mode,
            ..
        } = self.asker;
        let size = asked.ranges.total();
        let plan = SendPlan::new(mode, Type::Image, asked.ranges.clone())
            .parallelism(self.streams)
            .base(asked.base)
            .tag(asked.tag);
        let watch = Watch::new();
        let work = Box::pin(channel.send(&asked.source, &plan, &watch));
        let replies = markers(&mut asked.taken, &mut asked.replies);
        let work = move_data(&watch, DRAIN, work, replies);
        let moved = shared.watched(control, &watch, work).await;
        let mut answered = true;
        let error = match (moved.data, &moved.end) {
            (Some(Ok(_)), _) => None,
            (Some(Err(cause)), None) => {
                let error = data_failed(control, &asked.taken, cause);
                let (error, told) = refine(shared, &mut asked, error, ACCOUNT).await;
                answered = told;
                Some(error)
            }
            (Some(Err(cause)), Some(Ok(_))) => Some(data_failed(control, &asked.taken, cause)),
            (_, Some(Err(error))) => Some(refused(shared, &asked, error.clone())),
            (None, _) => Some(asked.replies.misbehaved("the data was not taken").into()),
        };
        if let Some(error) = error {
            let failure = Failure {
                midway: asked.replies.has_begun() || !matches!(error, TransferError::Control(_)),
                ..Failure::midway(error, Session::after_data(answered))
            };
            return shared.fail_transfer(asked.taken, failure).map(|()| None);
        }
        let ask_size = match mode {
            Mode::Stream => !shared.through_layers(),
            // What was there before may have been longer.
            _ => asked.resumes,
        };
        Ok(Some(Sending {
            taken: asked.taken,
            source: asked.source,
            base: asked.base,
            size,
            resumes: asked.resumes,
            after: asked.after,
            announced: asked.announced,
            hidden: asked.hidden,
            replies: asked.replies,
            ask_size: ask_size && !shared.is_partial(),
            sent: watch.receipt(),
            ended: moved.end,
            _under_way: asked.under_way,
        }))
    }
}

/// Waits a moment for the server's own account of a failed transfer, which says more; says whether
/// there was any.
async fn refine(
    shared: &Shared,
    asked: &mut Asked,
    error: TransferError,
    within: Duration,
) -> (TransferError, bool) {
    let account = markers(&mut asked.taken, &mut asked.replies);
    match tokio::time::timeout(within, account).await {
        Ok(Err(told @ ControlError::Refused { .. }))
            if !matches!(error, TransferError::Local { .. }) =>
        {
            (refused(shared, asked, told), true)
        }
        Ok(_) => (error, true),
        Err(_) => (error, false),
    }
}

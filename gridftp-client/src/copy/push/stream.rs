//! One file in MODE S, over a connection of its own.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode, Type};
use gridftp_data::{SendPlan, Watch};
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::client::Client;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::copy::{ACCOUNT, Stop, after_failure, move_data};
use crate::error::{ControlError, TransferError};
use crate::moving::{DRAIN, accepted};

use super::ask::{Asker, Dirs, make_dir};
use super::confirm::{confirm_one, publish, settle_following};
use super::{Sending, data_failed, fail, markers, refine, refused};

/// Copies one file over a connection of its own.
pub(super) async fn stream(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    dirs: &mut Dirs,
) -> Result<(), Stop> {
    if matches!(taken.item(), Item::Dir(_)) {
        make_dir(&client.control, shared, taken, dirs).await;
        return Ok(());
    }
    match client.set_up_stream(BufferSide::Receive).await {
        Ok(()) => {}
        Err(error @ TransferError::Control(ControlError::Refused { .. })) => {
            shared.fail(taken, &error);
            return Ok(());
        }
        Err(error) => return Err(Stop::Lost(error)),
    }
    let window = Window::default();
    let Client {
        control,
        channel,
        abilities,
        options,
        ..
    } = client;
    let channel = channel.get();
    let control = &*control;
    let asker = Asker {
        control,
        abilities,
        shared,
        algorithm,
        mode: Mode::Stream,
        tags: None,
        window: &window,
    };
    let Some(mut asked) = asker.ask(taken, dirs).await else {
        return Err(Stop::Channel);
    };
    let size = asked.ranges.total();
    let plan = SendPlan::new(Mode::Stream, Type::Image, asked.ranges.clone());
    let watch = Watch::new();
    let open = channel.open(Mode::Stream, 1);
    let moved = match accepted(&mut asked.replies, options.reply_within, open).await {
        Ok(Ok(())) => {
            let send = Box::pin(channel.send(&asked.source, &plan, &watch));
            let replies = markers(&mut asked.taken, &mut asked.replies);
            let work = move_data(&watch, DRAIN, send, replies);
            shared.watched(control, &watch, work).await
        }
        Ok(Err(cause)) => {
            let error = data_failed(control, &asked.taken, cause);
            shared.fail_midway(asked.taken, &error);
            return Err(Stop::Replace);
        }
        Err(error) => {
            let lost = matches!(error, ControlError::Lost { .. });
            if asked.is_refused_for_name(&error) {
                shared.go_straight(asked.taken);
                return Err(Stop::Channel);
            }
            let error = refused(shared, &asked, error);
            fail(shared, asked.taken, &error, asked.resumes);
            return Err(if lost {
                Stop::Lost(error)
            } else {
                Stop::Channel
            });
        }
    };
    if let Some(Err(cause)) = moved.data {
        let mut answered = true;
        let mut error = data_failed(control, &asked.taken, cause);
        if moved.end.is_none() {
            (error, answered) = refine(shared, &mut asked, error, ACCOUNT).await;
        }
        if asked.replies.has_begun() || !matches!(error, TransferError::Control(_)) {
            shared.fail_midway(asked.taken, &error);
        } else {
            fail(shared, asked.taken, &error, asked.resumes);
        }
        return Err(after_failure(answered));
    }
    let sending = Sending {
        taken: asked.taken,
        source: asked.source,
        base: asked.base,
        size,
        resumes: asked.resumes,
        after: asked.after,
        announced: asked.announced,
        hidden: asked.hidden,
        replies: asked.replies,
        ask_size: !shared.is_partial() && !shared.through_layers(),
        sent: None,
        ended: moved.end,
        _under_way: asked.under_way,
    };
    match confirm_one((control, abilities), shared, sending, algorithm).await {
        Ok(next) => {
            if let Some(next) = settle_following(control, shared, next).await {
                publish(control, shared, next).await;
            }
        }
        Err(None) => {}
        Err(Some(stop)) => return Err(stop),
    }
    Ok(())
}

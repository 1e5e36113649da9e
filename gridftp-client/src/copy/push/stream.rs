//! One file in MODE S, over a connection of its own.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode, Type};
use gridftp_data::{SendPlan, Watch};
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::client::Client;
use crate::control::Step;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::copy::{ACCOUNT, Moved, Stop, after_failure, move_data};
use crate::error::{ControlError, TransferError};
use crate::moving::QUIET;

use super::ask::{Asker, Dirs, make_dir};
use super::confirm::{confirm_one, settle_following};
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
        window: &window,
    };
    let Some(mut asked) = asker.ask(taken, dirs).await else {
        return Err(Stop::Channel);
    };
    let size = asked.ranges.total();
    let plan = SendPlan::new(Mode::Stream, Type::Image, asked.ranges.clone());
    let watch = Watch::new();
    let send = Box::pin(channel.send(&asked.source, &plan, &watch));
    let work = async {
        tokio::pin!(send);
        tokio::select! {
            sent = &mut send => Ok(Moved { data: Some(sent), end: None }),
            first = asked.replies.next() => match first {
                Ok(Step::Preliminary(_)) => {
                    Ok(move_data(&watch, send, markers(&mut asked.taken, &mut asked.replies)).await)
                }
                Ok(Step::Done(_)) => Err(asked.replies.misbehaved("the transfer ended before it began")),
                Err(error) => Err(error),
            },
        }
    };
    let moved = match shared.watched(control, &watch, work).await {
        Ok(moved) => moved,
        Err(error) => {
            let lost = matches!(error, ControlError::Lost { .. });
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
            // Without a connection the server waits for one, unless it took one and broke it at once.
            let within = if watch.is_open() { ACCOUNT } else { QUIET };
            (error, answered) = refine(shared, &mut asked, error, within).await;
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
        replies: asked.replies,
        ask_size: !shared.is_partial() && !shared.through_layers(),
        ended: moved.end,
        _under_way: asked.under_way,
    };
    match confirm_one(control, shared, sending, algorithm, false).await {
        Ok(next) => settle_following(shared, next).await,
        Err(None) => {}
        Err(Some(stop)) => return Err(stop),
    }
    Ok(())
}

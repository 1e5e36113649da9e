//! One file or one listing in MODE S, over a connection of its own.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode};
use gridftp_data::Watch;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSink;

use crate::client::Client;
use crate::control::Step;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::copy::{ACCOUNT, Moved, Stop, move_data};
use crate::error::{ControlError, TransferError};
use crate::moving::QUIET;

use super::Cut;
use super::ask::Asker;
use super::land::{open_sink, plan, publish};
use super::mover::Mover;

/// Copies one file, or lists one directory, over a connection of its own.
pub(super) async fn stream(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(), Stop> {
    match client.set_up_stream(BufferSide::Send).await {
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
    let asker = Asker {
        control,
        abilities,
        tags: None,
        shared,
        algorithm,
        mode: Mode::Stream,
        window: &window,
    };
    let Some(mut asked) = asker.ask(taken).await else {
        return Err(Stop::Channel);
    };
    let mut mover = Mover {
        control,
        channel,
        shared,
        patience: None,
    };
    let cut = asked.cut;
    if let (Some(Cut { offset: 1.., .. }), Some(mut rest)) = (cut, asked.rest.take()) {
        // The file from its start would not do.
        if let Err(error) = rest.finish().await {
            let lost = matches!(error, ControlError::Lost { .. });
            let error = error.into();
            shared.fail(asked.taken, &error);
            return Err(if lost {
                Stop::Lost(error)
            } else {
                Stop::Replace
            });
        }
    }
    Mover::settle_before(shared, &mut asked).await?;
    let Item::File(job) = asked.taken.item_mut() else {
        return match mover.list(asked, Mode::Stream).await {
            Err(Stop::Channel) | Ok(()) => Ok(()),
            Err(stop) => Err(stop),
        };
    };
    let start = job.held.first_hole();
    let sink = match open_sink(shared, job).await {
        Ok(sink) => sink,
        Err(error) => {
            shared.fail(asked.taken, &error);
            // The server waits for a connection that will not come.
            return Err(Stop::Replace);
        }
    };
    let plan = plan(shared, Mode::Stream, start).until(cut.map(|cut| cut.length));
    let watch = Watch::new();
    let receive = Box::pin(mover.channel.receive(&sink, &plan, &watch));
    let work = async {
        tokio::pin!(receive);
        tokio::select! {
            received = &mut receive => Ok(Moved { data: Some(received), end: None }),
            first = asked.replies.next() => match first {
                Ok(Step::Preliminary(_)) => Ok(move_data(&watch, ACCOUNT, receive, asked.replies.ended()).await),
                Ok(Step::Done(_)) => Err(asked.replies.misbehaved("the transfer ended before it began")),
                Err(error) => Err(error),
            },
        }
    };
    let mut moved = match shared.watched(mover.control, &watch, work).await {
        Ok(moved) => moved,
        Err(error) => {
            let lost = matches!(error, ControlError::Lost { .. });
            let error = error.into();
            keep(&mut asked.taken, sink);
            shared.fail(asked.taken, &error);
            return if lost { Err(Stop::Lost(error)) } else { Ok(()) };
        }
    };
    if let (
        Moved {
            data: Some(Err(cause)),
            end: None,
        },
        false,
    ) = (&moved, watch.is_open())
    {
        // Without a connection the server has nothing to reply to, unless it took one and broke it at once.
        let told = tokio::time::timeout(QUIET, asked.replies.ended()).await;
        if let Ok(Err(error @ ControlError::Refused { .. })) = told {
            keep(&mut asked.taken, sink);
            let error = error.into();
            if asked.replies.has_begun() {
                shared.fail_midway(asked.taken, &error);
            } else {
                shared.fail(asked.taken, &error);
            }
            return Ok(());
        }
        let what = crate::error::Chain(cause).to_string();
        shared.note(&format!(
            "{}: data connection: {what}",
            mover.control.site()
        ));
        keep(&mut asked.taken, sink);
        shared.fail_midway(asked.taken, &asked.replies.unanswered(&what).into());
        return Err(Stop::Replace);
    }
    let done = cut.is_some() && matches!(moved.data, Some(Ok(_)));
    if done && moved.end.is_none() {
        let told = tokio::time::timeout(QUIET, asked.replies.ended()).await;
        moved.end = told.ok();
    }
    // Some say nothing of a connection that was closed on them, and what they say next may be that.
    let silent = done && moved.end.is_none();
    if silent {
        moved.end = Some(Ok(()));
    }
    match Mover::end(mover.control, shared, asked, sink, &watch, moved).await {
        Ok(mut landed) => {
            if cut.is_some() && !silent {
                landed.after = asker.look_after(&landed.taken, start > 0);
            }
            publish(shared, landed, algorithm).await;
        }
        Err(Some(Stop::Channel) | None) => {}
        Err(Some(stop)) => return Err(stop),
    }
    if silent {
        return Err(Stop::Replace);
    }
    Ok(())
}

/// Leaves the file for the next attempt: what an earlier one brought is in it.
fn keep(taken: &mut Taken, sink: FileSink) {
    if let Item::File(job) = taken.item_mut() {
        job.sink = Some(sink);
    }
}

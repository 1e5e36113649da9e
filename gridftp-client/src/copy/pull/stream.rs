//! One file or one listing in MODE S, over a connection of its own.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode};
use gridftp_data::Watch;
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::client::Client;
use crate::control::Step;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};
use crate::url::show;

use super::ask;
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
        control, channel, ..
    } = client;
    let channel = channel.get();
    let Some(mut asked) = ask(control, shared, taken, algorithm, Mode::Stream, &window) else {
        return Err(Stop::Channel);
    };
    let mut mover = Mover {
        control,
        channel,
        shared,
        patience: None,
    };
    if matches!(asked.taken.item(), Item::Dir(_)) {
        return match mover.list(asked, Mode::Stream).await {
            Err(Stop::Channel) | Ok(()) => Ok(()),
            Err(stop) => Err(stop),
        };
    }
    Mover::settle_before(&mut asked).await?;
    let sink = match open_sink(shared, &mut asked.taken).await {
        Ok(sink) => sink,
        Err(error) => {
            shared.fail(asked.taken, &error);
            // The server waits for a connection that will not come.
            return Err(Stop::Replace);
        }
    };
    let start = match asked.taken.item() {
        Item::File(job) => job.held.first_hole(),
        Item::Dir(_) => 0,
    };
    let plan = plan(shared, Mode::Stream, start);
    let watch = Watch::new();
    let receive = mover.channel.receive(&sink, &plan, &watch);
    let work = async {
        tokio::pin!(receive);
        tokio::select! {
            received = &mut receive => (None, Some(received)),
            first = asked.replies.next() => match first {
                Ok(Step::Preliminary(_)) => (None, Some(receive.await)),
                Ok(Step::Done(_)) => (Some(asked.replies.misbehaved("the transfer ended before it began")), None),
                Err(error) => (Some(error), None),
            },
        }
    };
    let (refused, received) = shared.watched(mover.control, &watch, work).await;
    match (refused, received) {
        (Some(error), _) => {
            let lost = matches!(error, ControlError::Lost { .. });
            let error = error.into();
            shared.fail(asked.taken, &error);
            if lost { Err(Stop::Lost(error)) } else { Ok(()) }
        }
        (None, Some(received)) => {
            // Without a connection the server has nothing to reply to.
            let unmade = received.is_err() && !watch.is_open();
            if unmade && let Err(cause) = received {
                let error = TransferError::Data {
                    site: mover.control.site().to_string(),
                    path: show(match asked.taken.item() {
                        Item::File(job) => &job.from,
                        Item::Dir(job) => &job.from,
                    }),
                    cause,
                };
                shared.fail(asked.taken, &error);
                return Err(Stop::Replace);
            }
            match Mover::end(mover.control, shared, asked, sink, &watch, received).await {
                Ok(landed) => publish(shared, landed, algorithm).await,
                Err(Some(Stop::Channel) | None) => {}
                Err(Some(stop)) => return Err(stop),
            }
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

//! One file in MODE S, over a connection of its own.

use std::sync::Arc;
use std::time::Duration;

use ftp_wire::command::{BufferSide, Mode, Type};
use gridftp_data::{DataChannel, SendPlan, Watch};
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::client::Client;
use crate::control::Control;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::copy::{ACCOUNT, Stop, after_failure, move_data};
use crate::error::{ControlError, TransferError};
use crate::moving::{DRAIN, accepted};

use super::ask::{Asker, Dirs, make_dir};
use super::confirm::{confirm_one, publish, settle_following};
use super::{Asked, Following, Publishing, Sending, data_failed, fail, markers, refine, refused};

/// Copies one file over a connection of its own, and leaves it in `stored`: what proves it and gives
/// it its name is read while the next is set up. That of the file before goes out before this one is
/// asked for, since servers take nothing else while data moves.
pub(super) async fn stream(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    dirs: &mut Dirs,
    stored: &mut Option<Following>,
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
    let Client {
        control,
        channel,
        abilities,
        options,
        ..
    } = client;
    let control = &*control;
    let before = match stored.take() {
        Some(before) => settle_following(control, shared, before).await,
        None => None,
    };
    let window = Window::default();
    let asker = Asker {
        control,
        abilities,
        shared,
        algorithm,
        mode: Mode::Stream,
        tags: None,
        window: &window,
    };
    let asked = asker.ask(taken, dirs).await;
    let sent = async {
        let asked = asked.ok_or(Stop::Channel)?;
        send(
            (control, channel.get()),
            options.reply_within,
            shared,
            asked,
        )
        .await
    };
    let (late, sent) = tokio::join!(publish_if_through(control, shared, before), sent);
    match late {
        // No reply to that would come before the one that the server owes: it is copied again.
        Some(late) if matches!(sent, Err(Stop::Replace)) => drop(late),
        Some(late) => publish(control, shared, late).await,
        None => {}
    }
    match confirm_one((control, abilities), shared, sent?, algorithm).await {
        Ok(next) => *stored = Some(next),
        Err(None) => {}
        Err(Some(stop)) => return Err(stop),
    }
    if shared.queue.has_files() {
        client.listen_ahead();
    }
    Ok(())
}

/// Reads what proves the last file, and gives it its name.
pub(super) async fn settle_stored(
    control: &Control,
    shared: &Arc<Shared>,
    stored: &mut Option<Following>,
) {
    if let Some(last) = stored.take()
        && let Some(last) = settle_following(control, shared, last).await
    {
        publish(control, shared, last).await;
    }
}

/// Ends a store if the server has taken its name; gives it back if that is to be asked for in
/// another way.
async fn publish_if_through(
    control: &Control,
    shared: &Shared,
    store: Option<Publishing>,
) -> Option<Publishing> {
    let mut store = store?;
    if let Some(renaming) = &mut store.renaming
        && !renaming.is_through().await
    {
        return Some(store);
    }
    publish(control, shared, store).await;
    None
}

/// Sends the data of a store that was asked for.
async fn send(
    (control, channel): (&Control, &mut DataChannel),
    within: Duration,
    shared: &Arc<Shared>,
    mut asked: Asked,
) -> Result<Sending, Stop> {
    let size = asked.ranges.total();
    let plan = SendPlan::new(Mode::Stream, Type::Image, asked.ranges.clone());
    let watch = Watch::new();
    let open = channel.open(Mode::Stream, 1);
    let moved = match accepted(&mut asked.replies, within, open).await {
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
    Ok(Sending {
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
    })
}

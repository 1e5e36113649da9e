//! One file in MODE S, set up while the one before it is proven and named.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode};
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::client::Client;
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::making::{Dirs, make_dir};
use crate::copy::pipeline::Route as _;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};

use super::ask::Asker;
use super::confirm::{confirm_one, publish, settle_following};
use super::{Following, Publishing, Push};

/// Copies one file over a connection of its own, and leaves it in `stored`: what proves it and gives
/// it its name is read while the next is set up. That of the file before goes out before this one is
/// asked for, since servers take nothing else while data moves.
pub(super) async fn copy_alone(
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
    let route = Push {
        asker: Asker {
            control,
            abilities,
            shared,
            algorithm,
            mode: Mode::Stream,
            tags: None,
            window: &window,
        },
        streams: 1,
        reply_within: options.reply_within,
    };
    let asked = route.asker.ask(taken, dirs).await;
    let sent = async {
        let asked = asked.ok_or(Stop::Channel)?;
        route.pass(channel.get(), asked).await
    };
    let (late, sent) = tokio::join!(publish_if_through(control, shared, before), sent);
    match late {
        // No reply to that would come before the one that the server owes: it is copied again.
        Some(late) if matches!(sent, Err(Stop::Replace)) => drop(late),
        Some(late) => publish(control, shared, late).await,
        None => {}
    }
    if let Some(sent) = sent? {
        *stored = confirm_one((control, abilities), shared, sent, algorithm).await?;
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

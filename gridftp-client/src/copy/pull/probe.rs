//! Tells a server that is slow or busy from one that cannot connect to us.

use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, Mode};
use tokio::time::timeout;

use crate::client::Client;
use crate::control::Step;
use crate::copy::Stop;
use crate::copy::reach::Reach;
use crate::copy::state::CopyState;
use crate::error::ControlError;
use crate::options::ConnectOptions;
use crate::stripes::Width;

/// Wait for a silent server before its ability to connect is in doubt: short, where there is another
/// way.
pub(super) fn patience(options: &ConnectOptions) -> Duration {
    match options.mode {
        Some(Mode::Extended) => options.connect_within,
        _ => options.reach_within,
    }
}

/// Where it is in doubt, finds out on a new session whether the server can connect to us: it is
/// asked to list its root.
///
/// A file may have to come from a tape before its server says anything of it; the root is at hand.
pub(super) async fn settle_reach(client: &mut Client, shared: &CopyState) -> Result<(), Stop> {
    if shared.reach() != Reach::Doubted || !client.is_extended() {
        return Ok(());
    }
    let set_up = client.set_up_pull(Width::of_streams(1), None).await;
    let ahead =
        set_up.map_err(
            |error| match shared.is_left_without_channel(&client.control, &error) {
                true => Stop::Replace,
                false => Stop::Lost(error),
            },
        )?;
    let Some(root) = client.control.path(b"/") else {
        return Ok(());
    };
    let mut replies = client.control.send(Command::Mlsd(Some(root)));
    ahead.settle().await.map_err(Stop::of_set_up)?;
    let within = patience(&client.options);
    match timeout(within, replies.next()).await {
        Ok(Ok(Step::Preliminary(_))) => {
            shared.note_reach(Reach::Trusted);
            // Nobody takes the listing.
            Err(Stop::Replace)
        }
        Ok(Err(error)) if error.kind() == Some(FailureKind::DataChannel) => {
            Err(Stop::unreachable(&error))
        }
        // Nothing is learnt of connections.
        Ok(Ok(Step::Done(_)) | Err(ControlError::Refused { .. })) => {
            shared.note_reach(Reach::Trusted);
            Ok(())
        }
        Ok(Err(error)) => Err(Stop::Lost(error.into())),
        Err(_) => Err(Stop::Unreachable {
            fact: format!(
                "{}: has not connected to us within {} s, for a listing either",
                client.site(),
                within.as_secs()
            ),
            session: false,
        }),
    }
}

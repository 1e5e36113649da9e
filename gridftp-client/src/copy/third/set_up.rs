//! The set-up of data connections from server to server: the destination listens, and the source
//! connects to it.

use std::net::SocketAddr;

use byte_ranges::Layout;
use ftp_wire::command::{BufferSide, Command, Mode};

use crate::client::Client;
use crate::copy::pipeline::Depth;
use crate::error::{ControlError, TransferError};
use crate::setup::{Ahead, active};
use crate::stripes::Width;

/// The number of transfers under way at once.
pub(super) fn depth(mode: Mode, tagged: bool) -> Depth {
    match mode {
        Mode::Extended if tagged => Depth::Window,
        Mode::Extended => Depth::InStep,
        _ => Depth::One,
    }
}

/// Makes the destination listen and the source connect to it; gives the port, or that of the first
/// stripe, and the width that both have.
pub(super) async fn set_up(
    source: &mut Client,
    destination: &mut Client,
    mode: Mode,
    width: Width,
    layout: Option<Layout>,
) -> Result<(SocketAddr, Width), TransferError> {
    let mut ahead = Ahead::default();
    destination.send_mode(mode, &mut ahead);
    source.send_mode(mode, &mut ahead);
    destination.tune(BufferSide::Receive).await?;
    destination.ask_for_markers();
    source.tune(BufferSide::Send).await?;
    if mode == Mode::Extended {
        source.send_streams(width, &mut ahead);
    }
    let mut at = None;
    if width.is_striped() {
        source.send_layout(layout, &mut ahead);
        // A host that listens and that nobody connects to never ends the transfer.
        destination.limit_stripes(width.stripes);
        let to = Box::pin(destination.ask_receivers()).await?;
        at = to.first().copied();
        if let (Some(first), true) = (at, to.len() > 1) {
            match source.ask(Command::Spor(to)).await {
                Ok(_) => {
                    ahead.settle().await?;
                    return Ok((first, width));
                }
                Err(ControlError::Refused { .. }) => {
                    destination.state.receivers = Some(Vec::new());
                    at = None;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    let at = match at {
        Some(at) => {
            ahead.settle().await?;
            at
        }
        None => {
            let mut passive = destination.send_passive();
            ahead.settle().await?;
            let to = destination.listening(&mut passive).await?;
            let first = to.first().copied();
            first.ok_or_else(|| passive.misbehaved("no address in the reply"))?
        }
    };
    source.ask(active(at)).await?;
    Ok((at, width.to_one()))
}

//! Remote to local over one control connection: retrievals pipelined, data taken in their order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode};
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSink;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::control::Replies;
use crate::copy::Stop;
use crate::copy::look::Look;
use crate::copy::pipeline::{Depth, Pipeline, Route};
use crate::copy::queue::{Kind, Taken};
use crate::copy::shared::Shared;
use crate::copy::window::{UnderWay, Window};
use crate::error::{ControlError, TransferError};
use crate::setup::Ahead;

mod ask;
mod land;
mod list;
mod mover;
mod probe;
#[cfg(test)]
mod tests;

use self::ask::Asker;
use self::land::publish;
use self::mover::Mover;
use self::probe::{patience, settle_reach};

/// Files whose data is here and whose checking and renaming is under way.
const LANDING: usize = 64;

/// A transfer that was asked for.
struct Asked {
    taken: Taken,
    sent: Sent,
}

/// What was sent for a transfer.
struct Sent {
    /// The object's facts, asked again after a failure.
    again: Option<Look>,
    rest: Option<Replies>,
    /// The part that the connection is closed behind, where no command tells the server its end.
    cut: Option<Cut>,
    replies: Replies,
    /// Tag by which the data names the transfer, where the server knows such.
    tag: Option<u64>,
    checksum: Option<Replies>,
    after: Option<After>,
    _under_way: UnderWay,
}

/// A part of a file that `RETR` brings: `REST` tells where it begins.
#[derive(Clone, Copy)]
struct Cut {
    offset: u64,
    length: u64,
}

/// A file whose data is here.
struct Landed {
    taken: Taken,
    sink: FileSink,
    size: u64,
    checksum: Option<Replies>,
    after: Option<After>,
    /// Whether the session is of no use behind it.
    is_last: bool,
}

/// The question what the source is once it has been read.
struct After {
    look: Look,
    /// Whether a part of it had come before, so that an answer is needed.
    needed: bool,
}

/// Copies from the queue until nothing is left.
pub(crate) async fn run(client: &mut Client, shared: &Arc<Shared>) -> Result<(), Stop> {
    let algorithm = shared.algorithm(&[client]).await;
    let algorithm = algorithm.map_err(Stop::of_digest)?;
    while let Some(first) = shared.queue.next(|_| true).await {
        let settled = settle_reach(client, shared).await;
        go_on(client, shared, settled)?;
        let ended = transfer(client, shared, first, algorithm, Depth::Window).await;
        go_on(client, shared, ended)?;
    }
    Ok(())
}

/// Decides whether the session can go on after a stop.
pub(crate) fn go_on(
    client: &mut Client,
    shared: &Shared,
    ended: Result<(), Stop>,
) -> Result<(), Stop> {
    match ended {
        Ok(()) => Ok(()),
        Err(Stop::Channel) => {
            client.drop_channel();
            Ok(())
        }
        Err(Stop::Unreachable { fact, session }) => {
            client.drop_channel();
            if !shared.note_unreachable(&fact) {
                let error = format!(
                    "{fact}; in MODE E the server connects to us for downloads: use --mode stream, \
                    or let it in"
                );
                return Err(Stop::Fatal(TransferError::Request(error)));
            }
            if session { Ok(()) } else { Err(Stop::Replace) }
        }
        Err(stop) => Err(stop),
    }
}

/// Copies over one data channel: `first`, and from the queue as deep as the mode allows.
async fn transfer(
    client: &mut Client,
    shared: &Arc<Shared>,
    first: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    depth: Depth,
) -> Result<(), Stop> {
    let mode = shared.mode(client);
    let streams = shared.streams(first.item(), client.round_trip());
    let fresh = mode == Mode::Extended && client.state.ready.is_none();
    let ahead = match mode {
        Mode::Extended => client.set_up_pull(streams).await.map_err(Stop::Lost)?,
        _ => match client.set_up_stream(BufferSide::Send).await {
            Ok(()) => Ahead::default(),
            Err(error @ TransferError::Control(ControlError::Refused { .. })) => {
                shared.fail(first, &error);
                return Ok(());
            }
            Err(error) => return Err(Stop::Lost(error)),
        },
    };
    let window = Window::of_files(shared.connections());
    let pipeline = Pipeline {
        shared,
        window: &window,
        depth: match mode {
            Mode::Extended => depth,
            _ => Depth::One,
        },
        kind: Kind::Any,
        streams,
        round_trip: client.round_trip(),
        backlog: LANDING.min(window.most()),
    };
    let Client {
        control,
        channel,
        options,
        abilities,
        state,
        ..
    } = client;
    let control = &*control;
    let route = Asker {
        control,
        abilities,
        tags: (abilities.tags && mode == Mode::Extended).then_some(&state.tags),
        shared,
        algorithm,
        mode,
        window: &window,
    };
    let mut mover = Mover {
        control,
        channel: channel.get(),
        shared,
        patience: fresh.then(|| patience(options)),
    };
    let ready = async { ahead.settle().await.map_err(Stop::of_set_up) };
    let states = (&mut (), &mut mover);
    Box::pin(pipeline.run(&route, states, ready, first)).await
}

impl<'a> Route for Asker<'a> {
    type Asked = Asked;
    type Passed = Landed;
    type Asking = ();
    type Passing = Mover<'a>;

    async fn ask(&self, (): &mut (), taken: Taken) -> Result<Option<Asked>, Stop> {
        Ok(Asker::ask(self, taken).await)
    }

    async fn pass(&self, mover: &mut Mover<'a>, asked: Asked) -> Result<Option<Landed>, Stop> {
        match self.mode {
            Mode::Extended => mover.take(asked).await,
            _ => mover.take_alone(self, asked).await,
        }
    }

    async fn confirm(
        &self,
        mut landed: mpsc::Receiver<Landed>,
        _broken: &CancellationToken,
    ) -> Result<(), Stop> {
        let mut ended = Ok(());
        while let Some(file) = landed.recv().await {
            if file.is_last {
                ended = Err(Stop::Replace);
            }
            publish(self.shared, file, self.algorithm).await;
        }
        ended
    }
}

/// Lists one directory, and makes jobs of what is in it.
pub(crate) async fn list_one(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
) -> Result<(), Stop> {
    settle_reach(client, shared).await?;
    transfer(client, shared, taken, None, Depth::One).await
}

pub(super) fn local(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

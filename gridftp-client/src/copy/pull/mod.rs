//! Remote to local over one control connection: retrievals pipelined, data taken in their order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ftp_wire::command::Mode;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSink;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::control::Replies;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::look::Look;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::{COMMANDS, UnderWay, Window};
use crate::error::TransferError;

mod ask;
mod land;
mod mover;
mod probe;
mod stream;
#[cfg(test)]
mod tests;

use self::ask::Asker;
use self::land::land;
use self::mover::Mover;
use self::probe::{patience, settle_reach};
use self::stream::stream;

/// Files whose data is here and whose checking and renaming is under way.
const LANDING: usize = 64;

/// A transfer that was asked for.
struct Asked {
    taken: Taken,
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
        let ended = match shared.mode(client) {
            Mode::Extended => extended(client, shared, first, algorithm).await,
            _ => stream(client, shared, first, algorithm).await,
        };
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

/// Copies over one MODE E channel as long as the next item fits its number of streams.
async fn extended(
    client: &mut Client,
    shared: &Arc<Shared>,
    first: Taken,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(), Stop> {
    let streams = shared.streams(first.item(), client.round_trip());
    let fresh = client.state.ready.is_none();
    let ahead = client.set_up_pull(streams).await.map_err(Stop::Lost)?;
    let round_trip = client.round_trip();
    let window = Window::of_files(shared.connections());
    let (asked, mut asking) = mpsc::channel(COMMANDS);
    let (landed, landing) = mpsc::channel(LANDING.min(window.most()));
    let Client {
        control,
        channel,
        options,
        abilities,
        state,
        ..
    } = client;
    let channel = channel.get();
    let control = &*control;
    let asker = Asker {
        control,
        abilities,
        tags: abilities.tags.then_some(&state.tags),
        shared,
        algorithm,
        mode: Mode::Extended,
        window: &window,
    };
    let feed = async {
        let mut next = Some(first);
        loop {
            window.room().await;
            let Ok(slot) = asked.reserve().await else {
                return;
            };
            let taken = match next.take() {
                Some(taken) => taken,
                None => {
                    let fits = |item: &Item| shared.fits(item, streams, round_trip);
                    let Some(taken) = shared.queue.next(fits).await else {
                        break;
                    };
                    taken
                }
            };
            if let Some(request) = asker.ask(taken).await {
                slot.send(request);
            }
        }
        drop(asked);
    };
    let take = async {
        ahead.settle().await.map_err(Stop::of_set_up)?;
        let mut mover = Mover {
            control,
            channel,
            shared,
            patience: fresh.then(|| patience(options)),
        };
        while let Some(request) = asking.recv().await {
            if let Some(file) = mover.take(request).await? {
                // The other end is gone only when this whole future is.
                let _gone = landed.send(file).await;
            }
        }
        drop(landed);
        Ok(())
    };
    let moved = async {
        tokio::pin!(feed, take);
        let mut feeding = true;
        loop {
            tokio::select! {
                ended = &mut take => return ended,
                () = &mut feed, if feeding => feeding = false,
            }
        }
    };
    let landed_all = land(shared, landing, algorithm);
    // `moved` owns the sending end, so that the landing ends after it.
    let (ended, ()) = tokio::join!(moved, landed_all);
    ended
}

/// Lists one directory, and makes jobs of what is in it.
pub(crate) async fn list_one(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
) -> Result<(), Stop> {
    settle_reach(client, shared).await?;
    match shared.mode(client) {
        Mode::Extended => {
            let fresh = client.state.ready.is_none();
            let ahead = client.set_up_pull(1).await.map_err(Stop::Lost)?;
            let Client {
                control,
                channel,
                options,
                abilities,
                ..
            } = client;
            let channel = channel.get();
            let asker = Asker {
                control,
                abilities,
                tags: None,
                shared,
                algorithm: None,
                mode: Mode::Extended,
                window: &Window::default(),
            };
            let Some(asked) = asker.ask(taken).await else {
                return Ok(());
            };
            ahead.settle().await.map_err(Stop::of_set_up)?;
            let patience = fresh.then(|| patience(options));
            Mover {
                control,
                channel,
                shared,
                patience,
            }
            .take(asked)
            .await
            .map(drop)
        }
        _ => stream(client, shared, taken, None).await,
    }
}

pub(super) fn local(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

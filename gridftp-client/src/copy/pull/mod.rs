//! Remote to local over one control connection: retrievals pipelined, data taken in their order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ftp_wire::command::{Command, Eret, Mode, Restart};
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSink;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::control::{Control, Replies};
use crate::copy::Stop;
use crate::copy::job::{FileJob, Item};
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::{COMMANDS, UnderWay, Window};
use crate::error::{ControlError, TransferError};
use crate::options::ConnectOptions;
use crate::url::show;

mod land;
mod mover;
mod stream;

use self::land::land;
use self::mover::Mover;
use self::stream::stream;

/// Files whose data is here and whose checking and renaming is under way.
const LANDING: usize = 64;

/// A transfer that was asked for.
struct Asked {
    taken: Taken,
    /// The object's facts, asked again after a failure.
    again: Option<Replies>,
    rest: Option<Replies>,
    replies: Replies,
    checksum: Option<Replies>,
    _under_way: UnderWay,
}

/// A file whose data is here.
struct Landed {
    taken: Taken,
    sink: FileSink,
    size: u64,
    checksum: Option<Replies>,
}

/// Copies from the queue until nothing is left.
pub(crate) async fn run(client: &mut Client, shared: &Arc<Shared>) -> Result<(), Stop> {
    let algorithm = shared.algorithm(&[client]).map_err(Stop::Fatal)?;
    while let Some(first) = shared.queue.next(|_| true).await {
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
        Err(Stop::Unreachable { session }) => {
            client.drop_channel();
            if !shared.note_unreachable(client.site()) {
                let what = "it cannot connect to us, which MODE E needs for downloads; \
                    use --mode stream, or let it through the firewall";
                let error = format!("{}: open data channel: {what}", client.site());
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
        ..
    } = client;
    let channel = channel.get();
    let control = &*control;
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
            if let Some(request) = ask(control, shared, taken, algorithm, Mode::Extended, &window) {
                slot.send(request);
            }
        }
        drop(asked);
    };
    let take = async {
        if let Err(error) = ahead.settle().await {
            return Err(match error {
                ControlError::Refused { .. } => Stop::unreachable(&error, true),
                error => Stop::Lost(error.into()),
            });
        }
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

/// How long to wait for the server to reach us: not long, where there is another way.
fn patience(options: &ConnectOptions) -> Duration {
    match options.mode {
        Some(Mode::Extended) => options.connect_within,
        _ => options.reach_within,
    }
}

/// Asks for a transfer; `None` when there is nothing to ask.
fn ask(
    control: &Control,
    shared: &Arc<Shared>,
    mut taken: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    mode: Mode,
    window: &Window,
) -> Option<Asked> {
    let path = |bytes: &[u8]| control.path(bytes);
    let (command, again, rest, checksum, bytes) = match taken.item_mut() {
        Item::Dir(job) => {
            let Some(from) = path(&job.from) else {
                let error = TransferError::BadName {
                    name: show(&job.from),
                    why: "no command to this server can carry it",
                };
                shared.totals.found(None);
                shared.fail(taken, &error);
                return None;
            };
            (Command::Mlsd(Some(from)), None, None, None, 0)
        }
        Item::File(job) => {
            if shared.options.no_clobber && local(&job.to).symlink_metadata().is_ok() {
                shared.skip(taken, "it exists");
                return None;
            }
            if shared.options.dry_run {
                shared.plan(taken);
                return None;
            }
            shared.start(job);
            let Some(from) = path(&job.from) else {
                let error = TransferError::BadName {
                    name: show(&job.from),
                    why: "no command to this server can carry it",
                };
                shared.fail(taken, &error);
                return None;
            };
            let layers = shared.through_layers();
            if layers && job.failures > 0 {
                job.forget();
            }
            let again = (!layers && (job.failures > 0 || job.facts.size.is_none()))
                .then(|| control.send(Command::Mlst(Some(from.clone()))));
            let rest = restart(job, mode).map(|rest| control.send(Command::Rest(rest)));
            let command = match (shared.options.offset, shared.options.length) {
                (None, None) => Command::Retr(from.clone()),
                (offset, length) => {
                    let offset = offset.unwrap_or(0);
                    // A length of −1 would end a GCT session.
                    let rest = job
                        .facts
                        .size
                        .unwrap_or(u64::MAX >> 1)
                        .saturating_sub(offset);
                    let length = Some(length.map_or(rest, |length| length.min(rest)));
                    Command::Eret(Eret::Partial { offset, length }, from.clone())
                }
            };
            let checksum = algorithm.map(|algorithm| Command::Cksm {
                algorithm: algorithm.name().to_owned(),
                offset: shared.options.offset.unwrap_or(0),
                length: shared.options.length,
                path: from,
            });
            (
                command,
                again,
                rest,
                checksum,
                job.facts.size.unwrap_or(1 << 20),
            )
        }
    };
    let replies = control.send(command);
    let checksum = checksum.map(|command| control.send(command));
    Some(Asked {
        taken,
        again,
        rest,
        replies,
        checksum,
        _under_way: window.enter(bytes),
    })
}

/// What to tell the server of what is held already.
fn restart(job: &mut FileJob, mode: Mode) -> Option<Restart> {
    if job.held.is_empty() {
        return None;
    }
    if mode == Mode::Extended {
        return Some(Restart::Ranges(job.held.clone()));
    }
    match job.held.first_hole() {
        0 => {
            job.forget();
            None
        }
        hole => Some(Restart::Offset(hole)),
    }
}

/// Lists one directory, and makes jobs of what is in it.
pub(crate) async fn list_one(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
) -> Result<(), Stop> {
    match shared.mode(client) {
        Mode::Extended => {
            let fresh = client.state.ready.is_none();
            let ahead = client.set_up_pull(1).await.map_err(Stop::Lost)?;
            let Client {
                control,
                channel,
                options,
                ..
            } = client;
            let channel = channel.get();
            let Some(asked) = ask(
                control,
                shared,
                taken,
                None,
                Mode::Extended,
                &Window::default(),
            ) else {
                return Ok(());
            };
            if let Err(error) = ahead.settle().await {
                return Err(Stop::unreachable(&error, true));
            }
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

//! Local to remote over one control connection: stores pipelined, data sent in their order.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{BufferSide, Command, Esto, Mode, Restart, Site, Type};
use ftp_wire::marker::Marker;
use ftp_wire::path::FtpPath;
use gridftp_data::{ErrorKind as DataErrorKind, SendPlan, Sent, Watch};
use gridftp_dsi::Source as _;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSource;
use tokio::sync::mpsc;

use super::Stop;
use super::job::{FileJob, Item};
use super::queue::Taken;
use super::shared::{Shared, Success};
use super::window::{COMMANDS, UnderWay, Window};
use crate::client::{Client, digest};
use crate::control::{Control, Replies, Step};
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::url::show;
use crate::verify;

/// Files at least this large are announced by `ALLO`, in bytes: smaller ones are not worth a command.
const ANNOUNCED: u64 = 16 << 20;

/// A store that was asked for.
struct Asked {
    taken: Taken,
    source: FileSource,
    /// Bytes of the source that are sent, in its own offsets.
    ranges: RangeSet,
    base: u64,
    rest: Option<Replies>,
    replies: Replies,
    under_way: UnderWay,
}

/// A file whose data is out.
struct Sending {
    taken: Taken,
    source: FileSource,
    base: u64,
    size: u64,
    replies: Replies,
    _under_way: UnderWay,
}

/// What follows a store that the server has confirmed.
struct Following {
    taken: Taken,
    size: u64,
    checksum: Option<Replies>,
    /// Commands that set metadata.
    meta: Vec<Replies>,
}

/// Copies from the queue until nothing is left.
pub(crate) async fn run(client: &mut Client, shared: &Arc<Shared>) -> Result<(), Stop> {
    let algorithm = shared.algorithm(&[client]).map_err(Stop::Fatal)?;
    let mut told = HashSet::new();
    while let Some(first) = shared.queue.next(|_| true).await {
        let ended = match shared.mode(client) {
            Mode::Extended => extended(client, shared, first, algorithm, &mut told).await,
            _ => stream(client, shared, first, algorithm, &mut told).await,
        };
        match ended {
            Ok(()) => {}
            Err(Stop::Channel) => client.drop_channel(),
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// Copies over one MODE E channel as long as the next item fits its number of streams.
async fn extended(
    client: &mut Client,
    shared: &Arc<Shared>,
    first: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    told: &mut HashSet<Vec<u8>>,
) -> Result<(), Stop> {
    if matches!(first.item(), Item::Dir(_)) {
        // Needs no data channel, and may be all there is.
        make_dir(&client.control, shared, first, told).await;
        return Ok(());
    }
    let streams = shared.streams(first.item(), client.round_trip());
    match client.set_up_push(streams).await {
        Ok(()) => {}
        Err(error @ TransferError::Control(ControlError::Refused { .. })) => {
            shared.fail(first, &error);
            return Ok(());
        }
        Err(error) => return Err(Stop::Lost(error)),
    }
    let round_trip = client.round_trip();
    let eager = client.state.eager;
    let window = Window::default();
    let (asked, mut asking) = mpsc::channel::<Asked>(COMMANDS);
    let (sending, sent) = mpsc::channel(COMMANDS);
    let (following, followed) = mpsc::channel(COMMANDS);
    let Client {
        control, channel, ..
    } = client;
    let channel = channel.get();
    let control = &*control;
    if !eager {
        // No data may be on the way before its store is accepted, so the connections come first.
        if let Err(cause) = channel.open(Mode::Extended, streams).await {
            let site = control.site().to_string();
            let error = TransferError::Data {
                site,
                path: "data channel".to_owned(),
                cause,
            };
            shared.fail(first, &error);
            return Err(Stop::Channel);
        }
    }
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
            if matches!(taken.item(), Item::Dir(_)) {
                make_dir(control, shared, taken, told).await;
            } else if let Some(request) =
                ask(control, shared, taken, Mode::Extended, &window, told).await
            {
                slot.send(request);
            }
        }
        drop(asked);
    };
    let send = async {
        while let Some(mut request) = asking.recv().await {
            if !settle_rest(&mut request).await? {
                let error = TransferError::Changed {
                    path: show(&file(&request.taken).from),
                };
                shared.fail(request.taken, &error);
                return Err(Stop::Channel);
            }
            if !eager {
                match request.replies.next().await {
                    Ok(Step::Preliminary(_)) => {}
                    Ok(Step::Done(_)) => {
                        let error = request
                            .replies
                            .misbehaved("the transfer ended before it began");
                        shared.fail(request.taken, &error.into());
                        return Err(Stop::Channel);
                    }
                    Err(error @ ControlError::Refused { .. }) => {
                        let of_data = error.kind() == Some(FailureKind::DataChannel);
                        shared.fail(request.taken, &error.into());
                        if of_data {
                            return Err(Stop::Channel);
                        }
                        continue;
                    }
                    Err(error) => {
                        let error = error.into();
                        shared.fail(request.taken, &error);
                        return Err(Stop::Lost(error));
                    }
                }
            }
            let size = request.ranges.total();
            let plan = SendPlan::new(Mode::Extended, Type::Image, request.ranges)
                .parallelism(streams)
                .base(request.base);
            let watch = Watch::new();
            let work = channel.send(&request.source, &plan, &watch);
            let done = shared.watched(control, &watch, work).await;
            if let Err(cause) = done {
                let error = data_failed(control, &request.taken, cause);
                let error = refine(&mut request.taken, &mut request.replies, error).await;
                shared.fail(request.taken, &error);
                return Err(Stop::Channel);
            }
            let base = request.base;
            let file = Sending {
                taken: request.taken,
                source: request.source,
                base,
                size,
                replies: request.replies,
                _under_way: request.under_way,
            };
            // The other end is gone only when this whole future is.
            let _gone = sending.send(file).await;
        }
        drop(sending);
        Ok(())
    };
    let moved = async {
        tokio::pin!(feed, send);
        let mut feeding = true;
        loop {
            tokio::select! {
                ended = &mut send => return ended,
                () = &mut feed, if feeding => feeding = false,
            }
        }
    };
    let confirmed = confirm(control, shared, sent, following, algorithm);
    let settled = follow(shared, followed, algorithm);
    let (moved, confirmed, ()) = tokio::join!(moved, confirmed, settled);
    moved.and(confirmed)
}

/// Waits for the server's word on each file, and sends what follows a good one.
async fn confirm(
    control: &Control,
    shared: &Arc<Shared>,
    mut sent: mpsc::Receiver<Sending>,
    following: mpsc::Sender<Following>,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(), Stop> {
    let mut ended = Ok(());
    while let Some(mut file) = sent.recv().await {
        if let Some(next) = confirm_one(
            control,
            shared,
            file.taken,
            &mut file.replies,
            &file.source,
            file.size,
            file.base,
            algorithm,
            &mut ended,
        )
        .await
        {
            let _gone = following.send(next).await;
        }
    }
    ended
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of one file, of which the caller keeps some"
)]
async fn confirm_one(
    control: &Control,
    shared: &Arc<Shared>,
    mut taken: Taken,
    replies: &mut Replies,
    source: &FileSource,
    size: u64,
    base: u64,
    algorithm: Option<ChecksumAlgorithm>,
    ended: &mut Result<(), Stop>,
) -> Option<Following> {
    match markers(&mut taken, replies).await {
        Ok(()) => {}
        Err(error) => {
            let lost = matches!(error, ControlError::Lost { .. });
            let of_data = error.kind() == Some(FailureKind::DataChannel);
            let error = error.into();
            shared.fail(taken, &error);
            if lost {
                *ended = Err(Stop::Lost(error));
            } else if of_data && ended.is_ok() {
                *ended = Err(Stop::Channel);
            }
            return None;
        }
    }
    if source.unchanged().await.is_err() {
        let error = TransferError::Changed {
            path: show(&file(&taken).from),
        };
        shared.fail(taken, &error);
        return None;
    }
    let job = file(&taken);
    let to = FtpPath::new(job.to.clone())?;
    let checksum = algorithm.map(|algorithm| {
        control.send(Command::Cksm {
            algorithm: algorithm.name().to_owned(),
            offset: base,
            length: shared.is_partial().then_some(size),
            path: to.clone(),
        })
    });
    let mut meta = Vec::new();
    if shared.options.preserve && !shared.is_partial() {
        if let Some(mode) = job.facts.mode {
            meta.push(control.send(Command::Site(Site::Chmod(mode, to.clone()))));
        }
        if let Some(time) = job.facts.time_val() {
            meta.push(control.send(Command::Mfmt(time, to)));
        }
    }
    let size = size.max(if job.held.is_empty() {
        0
    } else {
        source.size()
    });
    Some(Following {
        taken,
        size,
        checksum,
        meta,
    })
}

/// Reads what follows and ends the jobs.
async fn follow(
    shared: &Arc<Shared>,
    mut followed: mpsc::Receiver<Following>,
    algorithm: Option<ChecksumAlgorithm>,
) {
    while let Some(next) = followed.recv().await {
        settle_following(shared, next, algorithm).await;
    }
}

async fn settle_following(
    shared: &Arc<Shared>,
    next: Following,
    algorithm: Option<ChecksumAlgorithm>,
) {
    let Following {
        taken,
        size,
        checksum,
        meta,
    } = next;
    let mut verified = None;
    if let (Some(mut replies), Some(algorithm)) = (checksum, algorithm) {
        let job = file(&taken);
        let offset = shared.options.offset.unwrap_or(0);
        let length = shared.is_partial().then_some(size);
        let (remote, local) = tokio::join!(
            digest(&mut replies),
            verify::local(local(&job.from), algorithm, offset, length)
        );
        match (remote, local) {
            (Ok(remote), Ok(local)) if remote == local => verified = Some((algorithm, local)),
            (Ok(remote), Ok(local)) => {
                let error =
                    verify::mismatch(shared.name_destination(job), algorithm, &local, &remote);
                return shared.fail(taken, &error);
            }
            (Err(error), _) => return shared.fail(taken, &error.into()),
            (_, Err(error)) => return shared.fail(taken, &error),
        }
    }
    for mut replies in meta {
        if let Err(error) = replies.finish().await {
            return shared.fail(taken, &error.into());
        }
    }
    shared.succeed(
        taken,
        &Success {
            bytes: size,
            verified,
        },
    );
}

/// Asks for a store; `None` when there is nothing to store.
async fn ask(
    control: &Control,
    shared: &Arc<Shared>,
    mut taken: Taken,
    mode: Mode,
    window: &Window,
    told: &mut HashSet<Vec<u8>>,
) -> Option<Asked> {
    if shared.options.dry_run {
        shared.plan(taken);
        return None;
    }
    let Item::File(job) = taken.item_mut() else {
        return None;
    };
    shared.start(job);
    let Some(to) = FtpPath::new(job.to.clone()) else {
        let error = TransferError::BadName {
            name: show(&job.to),
            why: "no command can carry it",
        };
        shared.fail(taken, &error);
        return None;
    };
    if shared.options.no_clobber
        && control
            .send(Command::Mlst(Some(to.clone())))
            .finish()
            .await
            .is_ok()
    {
        shared.skip(taken, "it exists");
        return None;
    }
    let source = match FileSource::open(local(&job.from)).await {
        Ok(source) => source,
        Err(error) => {
            let error = TransferError::local("read", &job.from, error);
            shared.fail(taken, &error);
            return None;
        }
    };
    if job.facts.size != Some(source.size()) {
        job.forget();
        job.facts.size = Some(source.size());
    }
    let offset = shared.options.offset.unwrap_or(0).min(source.size());
    let length = shared
        .options
        .length
        .unwrap_or(u64::MAX)
        .min(source.size() - offset);
    // What is held, the server tells in wire offsets; the source's begin at the part's offset.
    let held = if mode == Mode::Extended {
        job.held.shift_up(offset)
    } else {
        None
    }
    .unwrap_or_default();
    let whole: RangeSet = Range64::from_len(offset, length).into_iter().collect();
    let mut ranges = whole;
    for range in &held {
        ranges.remove(range);
    }
    make_parents(control, shared, names::parent(&job.to), told);
    let restart = (!held.is_empty() && mode == Mode::Extended)
        .then(|| control.send(Command::Rest(Restart::Ranges(job.held.clone()))));
    if length >= ANNOUNCED {
        // A server that sees no use in it says so, and the store goes on.
        drop(control.send(Command::Allo(length)));
    }
    let command = if shared.is_partial() {
        Command::Esto(Esto::Adjusted { offset }, to)
    } else {
        Command::Stor(to)
    };
    let replies = control.send(command);
    let under_way = window.enter(length);
    Some(Asked {
        taken,
        source,
        ranges,
        base: offset,
        rest: restart,
        replies,
        under_way,
    })
}

/// Sends `MKD` for what is not known to be there, from the top; servers run commands in order, so
/// nothing need be awaited.
pub(crate) fn make_parents(
    control: &Control,
    shared: &Shared,
    dir: &[u8],
    told: &mut HashSet<Vec<u8>>,
) {
    let mut missing = Vec::new();
    let mut at = dir;
    while !at.is_empty() && at != b"/" && at != b"~" && !told.contains(at) && !shared.is_made(at) {
        missing.push(at);
        at = names::parent(at);
    }
    for dir in missing.into_iter().rev() {
        if let Some(path) = FtpPath::new(dir.to_vec()) {
            drop(control.send(Command::Mkd(path)));
        }
        told.insert(dir.to_vec());
    }
}

/// Makes a directory at the server.
async fn make_dir(
    control: &Control,
    shared: &Arc<Shared>,
    taken: Taken,
    told: &mut HashSet<Vec<u8>>,
) {
    let Item::Dir(job) = taken.item() else { return };
    if !shared.options.dry_run {
        make_parents(control, shared, names::trim_slashes(&job.to), told);
    }
    if let Item::Dir(job) = taken.done() {
        shared.note_dir(*job);
    }
}

/// Reads the reply to `REST`; false when the server does not hold what it said it held.
async fn settle_rest(asked: &mut Asked) -> Result<bool, Stop> {
    let Some(mut rest) = asked.rest.take() else {
        return Ok(true);
    };
    match rest.finish().await {
        Ok(_) => Ok(true),
        Err(ControlError::Refused { .. }) => Ok(false),
        Err(error) => Err(Stop::Lost(error.into())),
    }
}

/// Reads replies to the end; restart markers say what the server holds.
async fn markers(taken: &mut Taken, replies: &mut Replies) -> Result<(), ControlError> {
    loop {
        match replies.next().await? {
            Step::Done(_) => return Ok(()),
            Step::Preliminary(reply) => {
                if let (Some(Ok(Marker::Restart(ranges))), Item::File(job)) =
                    (Marker::from_reply(&reply), taken.item_mut())
                {
                    job.held.extend(&ranges);
                }
            }
        }
    }
}

/// Waits a moment for the server's own account of a failed transfer, which says more.
async fn refine(taken: &mut Taken, replies: &mut Replies, error: TransferError) -> TransferError {
    if matches!(error, TransferError::Local { .. }) {
        return error;
    }
    match tokio::time::timeout(super::ACCOUNT, markers(taken, replies)).await {
        Ok(Err(refused @ ControlError::Refused { .. })) => refused.into(),
        Ok(_) | Err(_) => error,
    }
}

fn data_failed(control: &Control, taken: &Taken, cause: gridftp_data::Error) -> TransferError {
    let job = file(taken);
    if cause.kind() == DataErrorKind::Storage {
        return TransferError::local("read", &job.from, cause);
    }
    TransferError::Data {
        site: control.site().to_string(),
        path: show(&job.to),
        cause,
    }
}

fn file(taken: &Taken) -> &FileJob {
    match taken.item() {
        Item::File(job) => job,
        Item::Dir(_) => unreachable!("directories are never asked to be stored"),
    }
}

fn local(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Copies one file over a connection of its own.
async fn stream(
    client: &mut Client,
    shared: &Arc<Shared>,
    taken: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    told: &mut HashSet<Vec<u8>>,
) -> Result<(), Stop> {
    if matches!(taken.item(), Item::Dir(_)) {
        make_dir(&client.control, shared, taken, told).await;
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
        control, channel, ..
    } = client;
    let channel = channel.get();
    let control = &*control;
    let Some(mut asked) = ask(control, shared, taken, Mode::Stream, &window, told).await else {
        return Err(Stop::Channel);
    };
    let size = asked.ranges.total();
    let plan = SendPlan::new(Mode::Stream, Type::Image, asked.ranges.clone());
    let watch = Watch::new();
    let send = channel.send(&asked.source, &plan, &watch);
    let work = async {
        tokio::pin!(send);
        tokio::select! {
            sent = &mut send => Ok(sent),
            first = asked.replies.next() => match first {
                Ok(Step::Preliminary(_)) => Ok(send.await),
                Ok(Step::Done(_)) => Err(asked.replies.misbehaved("the transfer ended before it began")),
                Err(error) => Err(error),
            },
        }
    };
    let sent: gridftp_data::Result<Sent> = match shared.watched(control, &watch, work).await {
        Ok(sent) => sent,
        Err(error) => {
            let lost = matches!(error, ControlError::Lost { .. });
            let error = error.into();
            shared.fail(asked.taken, &error);
            return if lost {
                Err(Stop::Lost(error))
            } else {
                Err(Stop::Channel)
            };
        }
    };
    if let Err(cause) = sent {
        let unmade = !watch.is_open();
        let mut error = data_failed(control, &asked.taken, cause);
        if !unmade {
            error = refine(&mut asked.taken, &mut asked.replies, error).await;
        }
        shared.fail(asked.taken, &error);
        // Without a connection the server waits for one, and replies to nothing.
        return Err(if unmade { Stop::Replace } else { Stop::Channel });
    }
    let mut ended = Ok(());
    let base = asked.base;
    let next = confirm_one(
        control,
        shared,
        asked.taken,
        &mut asked.replies,
        &asked.source,
        size,
        base,
        algorithm,
        &mut ended,
    )
    .await;
    if let Some(next) = next {
        settle_following(shared, next, algorithm).await;
    }
    ended
}

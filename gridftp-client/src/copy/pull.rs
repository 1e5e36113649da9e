//! Remote to local over one control connection: retrievals pipelined, data taken in their order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{BufferSide, Command, Eret, Mode, Restart, Type};
use gridftp_data::{ErrorKind as DataErrorKind, ReceivePlan, Received, Watch};
use gridftp_dsi::types::{ChecksumAlgorithm, Create};
use gridftp_dsi::{Finish, Sink as _};
use gridftp_dsi_posix::FileSink;
use tokio::sync::mpsc;

use super::job::{Facts, FileJob, Item};
use super::listing::{Lines, Sorter};
use super::queue::Taken;
use super::shared::{Shared, Success};
use super::window::{COMMANDS, UnderWay, Window};
use super::{Stop, settle_final};
use crate::client::{Client, digest, parse_mlst};
use crate::control::{Control, Replies, Step};
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::url::show;
use crate::verify;

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
    let window = Window::default();
    let (asked, mut asking) = mpsc::channel(COMMANDS);
    let (landed, landing) = mpsc::channel(LANDING);
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
        let mut patience = fresh.then_some(options.reach_within);
        while let Some(request) = asking.recv().await {
            let mut mover = Mover {
                control,
                channel,
                shared,
                patience: patience.take(),
            };
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

/// Asks for a transfer; `None` when there is nothing to ask.
fn ask(
    control: &Control,
    shared: &Arc<Shared>,
    mut taken: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    mode: Mode,
    window: &Window,
) -> Option<Asked> {
    let path = |bytes: &[u8]| ftp_wire::path::FtpPath::new(bytes.to_vec());
    let (command, again, rest, checksum, bytes) = match taken.item_mut() {
        Item::Dir(job) => (Command::Mlsd(path(&job.from)), None, None, None, 0),
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
                    why: "no command can carry it",
                };
                shared.fail(taken, &error);
                return None;
            };
            let again = (job.failures > 0 || job.facts.size.is_none())
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

/// Takes the data of one transfer after the other.
struct Mover<'a> {
    control: &'a Control,
    channel: &'a mut gridftp_data::DataChannel,
    shared: &'a Arc<Shared>,
    /// How long to wait for the server to reach us.
    patience: Option<Duration>,
}

impl Mover<'_> {
    /// Takes one transfer in MODE E; gives the file when its data is here.
    async fn take(&mut self, mut asked: Asked) -> Result<Option<Landed>, Stop> {
        if !self.settle_before(&mut asked).await? {
            return Ok(None);
        }
        let first = match self.patience {
            Some(patience) => match tokio::time::timeout(patience, asked.replies.next()).await {
                Ok(first) => first,
                Err(_) => return Err(Stop::Unreachable { session: false }),
            },
            None => asked.replies.next().await,
        };
        match first {
            Ok(Step::Preliminary(_)) => {}
            Ok(Step::Done(_)) => {
                let error = asked
                    .replies
                    .misbehaved("the transfer ended before it began")
                    .into();
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Channel);
            }
            Err(error @ ControlError::Refused { .. }) => {
                let of_data = error.kind() == Some(FailureKind::DataChannel);
                if of_data && self.patience.is_some() {
                    return Err(Stop::unreachable(&error, true));
                }
                self.shared.fail(asked.taken, &error.into());
                return if of_data {
                    Err(Stop::Channel)
                } else {
                    Ok(None)
                };
            }
            Err(error) => {
                let error = error.into();
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Lost(error));
            }
        }
        if matches!(asked.taken.item(), Item::Dir(_)) {
            return self.list(asked, Mode::Extended).await.map(|()| None);
        }
        let sink = match open_sink(self.shared, &mut asked.taken).await {
            Ok(sink) => sink,
            Err(error) => {
                // The connections are good: what comes is thrown away.
                let plan = ReceivePlan::new(Mode::Extended, Type::Image);
                let thrown = self.channel.discard(&plan, &Watch::new()).await;
                let _final = settle_final(&mut asked.replies).await;
                self.shared.fail(asked.taken, &error);
                return if thrown.is_ok() {
                    Ok(None)
                } else {
                    Err(Stop::Channel)
                };
            }
        };
        let plan = plan(self.shared, Mode::Extended, 0);
        let watch = Watch::new();
        let work = self.channel.receive(&sink, &plan, &watch);
        let received = self.shared.watched(self.control, &watch, work).await;
        self.end(asked, sink, &watch, received)
            .await
            .map(Some)
            .or_else(|stop| stop.map_or(Ok(None), Err))
    }

    /// Reads the replies to what was sent before the transfer command; false when it has failed.
    async fn settle_before(&mut self, asked: &mut Asked) -> Result<bool, Stop> {
        if let Some(mut again) = asked.again.take() {
            match again.finish().await {
                Ok(reply) => {
                    if let (Some((entry, known)), Item::File(job)) =
                        (parse_mlst(&reply), asked.taken.item_mut())
                    {
                        let facts = Facts::of_entry(&entry, known);
                        job.changed |= !job.held.is_empty() && facts != job.facts;
                        job.facts = facts;
                    }
                }
                Err(ControlError::Refused { .. }) => {}
                Err(error) => return Err(Stop::Lost(error.into())),
            }
        }
        if let Some(mut rest) = asked.rest.take() {
            match rest.finish().await {
                Ok(_) => {}
                Err(ControlError::Refused { .. }) => {
                    // All of it comes then.
                    if let Item::File(job) = asked.taken.item_mut() {
                        job.forget();
                    }
                }
                Err(error) => return Err(Stop::Lost(error.into())),
            }
        }
        Ok(true)
    }

    /// Takes a listing and makes jobs of it.
    async fn list(&mut self, mut asked: Asked, mode: Mode) -> Result<(), Stop> {
        let Item::Dir(job) = asked.taken.item() else {
            return Ok(());
        };
        if let Err(error) = make_dir(self.shared, &job.to).await {
            let _final = self
                .channel
                .discard(&ReceivePlan::new(mode, Type::Image), &Watch::new())
                .await;
            self.shared.fail(asked.taken, &error);
            return Err(Stop::Channel);
        }
        let mut sorter = Sorter::new(self.shared, job);
        let mut lines = Lines::new(|line: &[u8]| sorter.line(line));
        let watch = Watch::new();
        let plan = ReceivePlan::new(mode, Type::Image);
        let received = self.channel.receive_chunks(&mut lines, &plan, &watch).await;
        lines.finish();
        let end = settle_final(&mut asked.replies).await;
        match (received, end) {
            (Ok(_), Ok(())) => {
                if let Item::Dir(job) = asked.taken.done() {
                    self.shared.note_dir(*job);
                }
                Ok(())
            }
            // What was listed is being copied; asking again would copy it twice.
            (received, end) => {
                let path = show(match asked.taken.item() {
                    Item::Dir(job) => &job.from,
                    Item::File(job) => &job.from,
                });
                let error = match (end, received) {
                    (Err(error), _) => error.into(),
                    (Ok(()), Err(cause)) => TransferError::Data {
                        site: self.control.site().to_string(),
                        path: path.clone(),
                        cause,
                    },
                    (Ok(()), Ok(_)) => return Ok(()),
                };
                self.shared.totals.found(None);
                drop(asked.taken.done());
                self.shared.give_up(&path, &error);
                Err(Stop::Channel)
            }
        }
    }

    /// Judges what came of a file.
    async fn end(
        &mut self,
        mut asked: Asked,
        sink: FileSink,
        watch: &Watch,
        received: gridftp_data::Result<Received>,
    ) -> Result<Landed, Option<Stop>> {
        let end = settle_final(&mut asked.replies).await;
        let Item::File(job) = asked.taken.item_mut() else {
            return Err(None);
        };
        job.held.extend(&watch.received());
        let source = self.shared.name_source(job);
        let broken = received.is_err() || end.is_err();
        let error = match (received, end) {
            (Err(cause), _) if cause.kind() == DataErrorKind::Storage => {
                Some(TransferError::local("write", &job.to, cause))
            }
            (_, Err(error @ ControlError::Refused { .. })) => Some(error.into()),
            (Err(cause), _) => {
                let site = self.control.site().to_string();
                Some(TransferError::Data {
                    site,
                    path: show(&job.from),
                    cause,
                })
            }
            (Ok(_), Err(error)) => Some(error.into()),
            (Ok(_), Ok(())) if job.changed => Some(TransferError::Changed { path: source }),
            (Ok(_), Ok(())) => whole(self.shared, job).err(),
        };
        let Some(error) = error else {
            let size = job.held.end();
            return Ok(Landed {
                taken: asked.taken,
                sink,
                size,
                checksum: asked.checksum,
            });
        };
        // The same open file goes on at the next attempt.
        job.sink = Some(sink);
        job.changed = false;
        self.shared.fail(asked.taken, &error);
        Err(broken.then_some(Stop::Channel))
    }
}

/// Checks that all of a file is held.
fn whole(shared: &Shared, job: &FileJob) -> Result<(), TransferError> {
    let got = job.held.total();
    let expected = shared.expected(job).unwrap_or_else(|| job.held.end());
    let all = Range64::new(0, expected).is_none_or(|range| job.held.covers(range));
    if all && job.held.end() == expected {
        return Ok(());
    }
    Err(TransferError::Size {
        path: shared.name_source(job),
        expected,
        got,
    })
}

fn plan(shared: &Shared, mode: Mode, start: u64) -> ReceivePlan {
    ReceivePlan::new(mode, Type::Image)
        .base(shared.options.offset.unwrap_or(0))
        .start(start)
}

fn local(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Makes a local directory and those it is in.
pub(crate) async fn make_dir(shared: &Shared, dir: &[u8]) -> Result<(), TransferError> {
    if dir.is_empty()
        || shared.destination.is_some()
        || shared.options.dry_run
        || shared.is_made(dir)
    {
        return Ok(());
    }
    let path = local(dir).to_owned();
    let made = tokio::task::spawn_blocking(move || std::fs::create_dir_all(path)).await;
    match made.map_err(std::io::Error::other).and_then(|done| done) {
        Ok(()) => {
            shared.note_made(dir);
            Ok(())
        }
        Err(error) => Err(TransferError::local("make directory", dir, error)),
    }
}

/// Opens the file that takes the data, or the one of an earlier attempt.
async fn open_sink(shared: &Shared, taken: &mut Taken) -> Result<FileSink, TransferError> {
    let Item::File(job) = taken.item_mut() else {
        return Err(TransferError::Request(
            "transfer: a directory has no data".to_owned(),
        ));
    };
    if let Some(sink) = job.sink.take() {
        return Ok(sink);
    }
    job.held = RangeSet::new();
    make_dir(shared, names::parent(&job.to)).await?;
    let how = if shared.is_partial() {
        Create::InPlace { truncate: false }
    } else {
        Create::Whole {
            size: job.facts.size,
        }
    };
    FileSink::create(local(&job.to), how, false)
        .await
        .map_err(|error| TransferError::local("create", &job.to, error))
}

/// Checks and publishes files whose data is here.
async fn land(
    shared: &Arc<Shared>,
    mut landing: mpsc::Receiver<Landed>,
    algorithm: Option<ChecksumAlgorithm>,
) {
    while let Some(file) = landing.recv().await {
        publish(shared, file, algorithm).await;
    }
}

async fn publish(shared: &Arc<Shared>, landed: Landed, algorithm: Option<ChecksumAlgorithm>) {
    let Landed {
        taken,
        sink,
        size,
        checksum,
    } = landed;
    let Item::File(job) = taken.item() else {
        return;
    };
    let digest = match checksum {
        Some(mut replies) => match digest(&mut replies).await {
            Ok(digest) => Some(digest),
            Err(error) => return shared.fail(taken, &error.into()),
        },
        None => None,
    };
    let verified = algorithm.zip(digest);
    let mut finish = if shared.is_partial() {
        Finish::as_is()
    } else {
        Finish::whole(size)
    };
    if shared.options.preserve {
        finish.modified = job.facts.modified;
        finish.mode = job.facts.mode;
    }
    if !shared.is_partial() {
        finish.checksum.clone_from(&verified);
    }
    match sink.finish(finish).await {
        Ok(_) => {}
        Err(error) if error.kind() == gridftp_dsi::ErrorKind::Mismatch => {
            let (name, to) = (shared.name_source(job), job.to.clone());
            let error = mismatch(&name, &to, verified, &error).await;
            return shared.fail(taken, &error);
        }
        Err(error) => {
            let error = TransferError::local("publish", &job.to, error);
            return shared.fail(taken, &error);
        }
    }
    if shared.is_partial()
        && let Some((algorithm, digest)) = &verified
    {
        let offset = shared.options.offset.unwrap_or(0);
        let path = local(&job.to);
        match verify::local(path, *algorithm, offset, Some(size)).await {
            Ok(copy) if copy == *digest => {}
            Ok(copy) => {
                let error = verify::mismatch(shared.name_source(job), *algorithm, digest, &copy);
                return shared.fail(taken, &error);
            }
            Err(error) => return shared.fail(taken, &error),
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

async fn mismatch(
    name: &str,
    _to: &[u8],
    verified: Option<(ChecksumAlgorithm, String)>,
    error: &gridftp_dsi::Error,
) -> TransferError {
    match verified {
        Some((algorithm, digest)) => {
            let copy = crate::error::Chain(error).to_string();
            verify::mismatch(name.to_owned(), algorithm, &digest, &copy)
        }
        None => TransferError::Changed {
            path: name.to_owned(),
        },
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
            let patience = fresh.then_some(options.reach_within);
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

/// Copies one file, or lists one directory, over a connection of its own.
async fn stream(
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
    mover.settle_before(&mut asked).await?;
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
            match mover.end(asked, sink, &watch, received).await {
                Ok(landed) => publish(shared, landed, algorithm).await,
                Err(Some(Stop::Channel) | None) => {}
                Err(Some(stop)) => return Err(stop),
            }
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

//! Reads back the last bytes of a broken upload at a server without digests, and compares them with
//! the source, here or at another server.
//!
//! They are under the hidden name of the upload, which holds nothing but bytes of one version of one
//! source, written in their order or, in MODE E, told by markers. In a power cut or
//! with a full disk such a server loses the last of them; so [`MOST`] are read back, and those before
//! them are taken for right.

mod part;

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{BufferSide, Command, Mode, Restart, Type};
use ftp_wire::path::FtpPath;
use gridftp_data::{Consumer, ErrorKind as DataErrorKind, ReceivePlan, Wait, Watch};
use gridftp_dsi::{Error as StorageError, ErrorKind, Source as _};
use gridftp_dsi_posix::FileSource;
use tokio::sync::mpsc;

use self::part::{MOST, Part, parts};
use super::Stop;
use super::facts_query::FactsQuery;
use super::inlet::Inlet;
use super::job::{Facts, FileJob, ReadBack};
use super::kept::longest;
use super::pull::local;
use super::queue::Taken;
use super::state::CopyState;
use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::progress::Hashing;
use crate::transfer::{Failure, SessionState, Transfer};

/// Reads the bytes of an upload back, if that is due; `None` where the attempt has failed. `source` is
/// a session with the server of the source, where it is on one, and `mode` that of the upload.
pub(super) async fn read_back(
    client: &mut Client,
    mut source: Option<&mut Client>,
    mode: Mode,
    shared: &Arc<CopyState>,
    mut taken: Taken,
) -> Result<Option<Taken>, Stop> {
    if !taken.item().is_due() {
        return Ok(Some(taken));
    }
    // As before any data connection.
    let is_spent = |of: &Client| of.guard.is_spent();
    if is_spent(client) || source.as_deref().is_some_and(is_spent) {
        return Err(Stop::Replace);
    }
    let left = client.control.left.clone();
    let job = taken.file_mut();
    let compared = Box::pin(compare(client, source.as_deref_mut(), mode, shared, job));
    let failure = match left.run_until_cancelled(compared).await {
        Some(Ok(compared)) => {
            (job.held, job.recalled) = (compared.held, false);
            job.read_back = ReadBack::Done {
                ends: compared.ends,
            };
            // Behind a source that still owes a reply the file goes back as it is.
            return match compared.answered {
                true => Ok(Some(taken)),
                false => Err(Stop::Replace),
            };
        }
        Some(Err(failure)) => failure,
        None => Failure::left(),
    };
    let failure = shared.of_stack(&client.control, failure);
    // As of a store that is to go on, the last attempt begins at the start: the server may never
    // send all of them. Two servers may reach each other, and this machine none of them.
    let is_last = !shared
        .options
        .goes_on(job.failures + 2, Duration::ZERO, false);
    let is_apart = source.is_some() && !shared.relays() && is_unreachable(&failure);
    // One takes files and shows none, or knows no `REST`; of another the next attempt tells it.
    let begins_anew = is_last || is_apart || !failure.is_transient();
    let session = failure.session;
    if !begins_anew || matches!(session, SessionState::Left | SessionState::Lost) {
        return match shared.fail_transfer(taken, failure) {
            Err(Stop::Channel) => {
                drop_channels(client, source);
                Ok(None)
            }
            failed => failed.map(|()| None),
        };
    }
    job.forget();
    job.read_back = ReadBack::Refused;
    let copy = shared.name_destination(job);
    shared.note(&format!("{copy}: begun anew: {}", failure.error));
    match session {
        SessionState::Reusable => Ok(Some(taken)),
        SessionState::ChannelBroken => {
            drop_channels(client, source);
            Ok(Some(taken))
        }
        _ => Err(Stop::Replace),
    }
}

fn drop_channels(client: &mut Client, source: Option<&mut Client>) {
    client.drop_channel();
    source.into_iter().for_each(Client::drop_channel);
}

/// Says whether no data connection could be opened.
fn is_unreachable(failure: &Failure) -> bool {
    match &failure.error {
        TransferError::Data { cause, .. } => matches!(
            cause.kind(),
            DataErrorKind::NoChannel | DataErrorKind::Open | DataErrorKind::Timeout(Wait::Connect)
        ),
        TransferError::Control(error) => {
            !failure.midway && error.kind() == Some(FailureKind::DataChannel)
        }
        _ => false,
    }
}

/// The bytes of the destination that are the source's.
struct Compared {
    /// The ranges that are equal as far as they are compared.
    held: RangeSet,
    /// Whether the destination has no other bytes.
    ends: bool,
    /// Whether the server of the source owes no reply.
    answered: bool,
}

impl Compared {
    const NOTHING: Self = Self {
        held: RangeSet::new(),
        ends: false,
        answered: true,
    };
}

/// The file that is copied.
enum Copied<'a> {
    Here(FileSource),
    There(&'a mut Client, FtpPath),
}

impl<'a> Copied<'a> {
    /// Opens it; `None` where it cannot be read, of which the next attempt tells the reason, or is
    /// another file by now.
    async fn open(source: Option<&'a mut Client>, job: &FileJob) -> Result<Option<Self>, Failure> {
        let Some(server) = source else {
            let source = FileSource::open(local(&job.from)).await.ok();
            let same = source.filter(|it| Facts::of_source(it).is_same_as(&job.facts));
            return Ok(same.map(Self::Here));
        };
        let Some(path) = server.control.path(&job.from) else {
            return Ok(None);
        };
        let asked = FactsQuery::send(&server.control, &server.abilities, path.clone());
        let now = match asked.facts().await {
            Ok(now) => now,
            Err(ControlError::Refused { .. }) => None,
            Err(error) => return Err(Failure::to_begin(error)),
        };
        let is_same = now.is_some_and(|now| now.is_same_as(&job.facts));
        Ok(is_same.then_some(Self::There(server, path)))
    }
}

/// Compares the bytes of the destination with the source.
async fn compare(
    client: &mut Client,
    source: Option<&mut Client>,
    mode: Mode,
    shared: &CopyState,
    job: &FileJob,
) -> Result<Compared, Failure> {
    let (Some(at), Some(all)) = (&job.hidden, job.facts.size) else {
        return Ok(Compared::NOTHING);
    };
    let Some(mut source) = Copied::open(source, job).await? else {
        return Ok(Compared::NOTHING);
    };
    let mut asked = client.control.send(Command::Size(at.clone()));
    let size = match asked.size().await {
        Ok(Some(size)) => size,
        Ok(None) | Err(ControlError::Refused { .. }) => return Ok(Compared::NOTHING),
        Err(error) => return Err(Failure::to_begin(error)),
    };
    let in_order = !client.abilities.extended;
    let there = match (in_order, mode == Mode::Stream) {
        // A longer file is not cut by a store that goes on with it.
        (true, _) if size > all => RangeSet::new(),
        (true, _) => RangeSet::up_to(size),
        // Streams side by side leave holes.
        (false, true) => RangeSet::up_to(job.held.first_hole()),
        (false, false) => longest(&job.held),
    };
    let known = Range64::new(0, size.min(all));
    let there = known.map_or_else(RangeSet::new, |known| there.clip(known));
    let parts = parts(&there, size, client.abilities.eret);
    let total: u64 = parts.iter().map(|part| part.range.end() - part.start).sum();
    let mut hashing = Hashing::new(&shared.totals, Some(total));
    let mut done = 0;
    let mut compared = Compared {
        ends: true,
        ..Compared::NOTHING
    };
    for part in parts {
        let comparing = Comparing {
            source: SourceBytes::Over,
            part,
            done: &mut done,
            failed: None,
            hashing: &mut hashing,
        };
        let from = (&*job.from, all);
        let (part, answered) = read(client, (at, size), &mut source, from, comparing).await?;
        compared.ends &= !part.goes_beyond();
        compared.held.extend(part.equal());
        compared.answered = answered;
        if !answered {
            break;
        }
    }
    compared.ends &= compared.held.first_hole() == size;
    Ok(compared)
}

/// Reads a part of the file `at`, which has `size` bytes, and compares it with the source, a file
/// `from` of `all` bytes; says whether the server of the source has answered all commands.
async fn read(
    client: &mut Client,
    at: (&FtpPath, u64),
    source: &mut Copied<'_>,
    (from, all): (&[u8], u64),
    mut comparing: Comparing<'_, '_>,
) -> Result<(Part, bool), Failure> {
    match source {
        Copied::Here(source) => {
            comparing.source = SourceBytes::File(source);
            let read = retrieve(client, at, comparing.part, &mut comparing).await;
            match comparing.failed {
                Some(cause) => read.map_err(|failure| Failure {
                    error: TransferError::local("read", from, cause),
                    ..failure
                }),
                None => read,
            }?;
            Ok((comparing.part, true))
        }
        Copied::There(server, path) => {
            let (to, sent) = mpsc::channel(1);
            comparing.source = SourceBytes::Sent(sent, Bytes::new());
            let sending = send(server, (path, all), comparing.part, to);
            let reading = async {
                let read = retrieve(client, at, comparing.part, &mut comparing).await;
                // The source need not send the rest.
                comparing.source = SourceBytes::Over;
                read.map(|()| comparing.part)
            };
            match tokio::join!(Box::pin(sending), Box::pin(reading)) {
                (Ok(answered), Ok(part)) => Ok((part, answered)),
                (Err(failure), Ok(_)) => Err(failure),
                (Ok(true), Err(failure)) => Err(failure),
                (sent, Err(mut failure)) => {
                    let source = sent.map_or_else(|of| of.session, |_| SessionState::Unanswered);
                    failure.session = failure.session.max(source);
                    Err(failure)
                }
            }
        }
    }
}

/// Has the server of the source send a part of a file, as far as it is taken; says whether it has
/// answered all commands.
async fn send(
    server: &mut Client,
    of: (&FtpPath, u64),
    part: Part,
    to: mpsc::Sender<Option<Bytes>>,
) -> Result<bool, Failure> {
    let mut inlet = Inlet { to, hasher: None };
    match retrieve(server, of, part, &mut inlet).await {
        Err(failure) if inlet.to.is_closed() => {
            server.drop_channel();
            Ok(failure.session <= SessionState::ChannelBroken)
        }
        sent => sent.map(|()| true),
    }
}

/// Has a server send a part of the file `at`, which has `size` bytes; without `ERET` all that is behind
/// the part follows it.
async fn retrieve(
    client: &mut Client,
    (at, size): (&FtpPath, u64),
    part: Part,
    to: &mut impl Consumer,
) -> Result<(), Failure> {
    // Without a data channel nothing is said of the file.
    let set_up = client.set_up_stream(BufferSide::Send).await;
    set_up.map_err(|error| Failure {
        midway: true,
        ..Failure::from(error)
    })?;
    let (start, end) = (part.start, part.range.end());
    let region = (client.abilities.eret && end < size).then_some((start, Some(end - start)));
    if region.is_none() && start > 0 {
        let mut rest = client.control.send(Command::Rest(Restart::Offset(start)));
        rest.finish().await.map_err(Failure::to_begin)?;
    }
    let command = Command::retrieve(at.clone(), region, None);
    let mut transfer = Transfer::download(client.control.send(command), at.as_bytes());
    let (watch, plan) = (Watch::new(), ReceivePlan::new(Mode::Stream, Type::Image));
    let (control, channel) = (&client.control, client.channel.get());
    let data = Box::pin(channel.receive_chunks(to, &plan, &watch));
    let work = Box::pin(transfer.run(&watch, data));
    control.watched(&watch, |_| (), work).await.map(drop)
}

/// The bytes of the source, in order from the start of a part.
enum SourceBytes<'a> {
    File(&'a FileSource),
    /// Those that its server sends, and the last of them.
    Sent(mpsc::Receiver<Option<Bytes>>, Bytes),
    /// No more are needed.
    Over,
}

impl SourceBytes<'_> {
    /// Up to `len` bytes at `offset`, behind those of the last call; none at the end of the source.
    async fn next(&mut self, offset: u64, len: usize) -> Result<Bytes, StorageError> {
        match self {
            Self::File(source) => {
                let read = source.read_at(offset, BytesMut::with_capacity(len)).await?;
                let mut read = read.freeze();
                read.truncate(len);
                Ok(read)
            }
            Self::Sent(from, rest) => {
                if rest.is_empty() {
                    *rest = from.recv().await.flatten().unwrap_or_default();
                }
                Ok(rest.split_to(len.min(rest.len())))
            }
            Self::Over => Ok(Bytes::new()),
        }
    }
}

/// The comparison of the bytes of a server with those of a source.
struct Comparing<'a, 'h> {
    source: SourceBytes<'a>,
    part: Part,
    /// Bytes of all parts that have come.
    done: &'a mut u64,
    /// The failure of the source.
    failed: Option<StorageError>,
    hashing: &'a mut Hashing<'h>,
}

impl Consumer for Comparing<'_, '_> {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let part = &mut self.part;
        part.received += bytes.len() as u64;
        *self.done += bytes.len() as u64;
        self.hashing.note(*self.done);
        // An upload of a killed client may still be added to it, but not for long.
        if part.received > part.range.end() - part.start + MOST {
            return Err(StorageError::new(ErrorKind::Io, "read"));
        }
        let mut there: &[u8] = &bytes;
        while !there.is_empty() && part.left() > 0 {
            let len = usize::try_from(part.left()).map_or(there.len(), |n| n.min(there.len()));
            let here = match self.source.next(part.equal, len).await {
                Ok(here) => here,
                Err(error) => {
                    self.failed = Some(error);
                    return Err(StorageError::new(ErrorKind::Io, "read"));
                }
            };
            let (now, rest) = there.split_at(here.len());
            if now.is_empty() {
                // The source has become shorter.
                part.differs = true;
            }
            part.note(now, &here);
            there = rest;
        }
        if part.left() == 0 {
            self.source = SourceBytes::Over;
        }
        Ok(())
    }

    // The server of a source may take its time.
    fn is_patient(&self) -> bool {
        matches!(self.source, SourceBytes::Sent(..))
    }
}

#[cfg(test)]
mod tests;

//! Reads back the last bytes of a broken upload at a server without digests, and compares them with
//! the source, here or at another server.
//!
//! They are under the hidden name of the upload, which holds nothing but bytes of one version of one
//! source, written in their order or, in MODE E, told by markers. In a power cut or
//! with a full disk such a server loses the last of them; so [`MOST`] are read back, and those before
//! them are taken for right.

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{BufferSide, Command, Mode, Restart, Type};
use ftp_wire::path::FtpPath;
use gridftp_data::{Consumer, ReceivePlan, Watch};
use gridftp_dsi::{Error as StorageError, ErrorKind, Source as _};
use gridftp_dsi_posix::FileSource;
use tokio::sync::mpsc;

use super::Stop;
use super::facts_query::FactsQuery;
use super::job::{Facts, FileJob, ReadBack};
use super::kept::longest;
use super::pull::local;
use super::queue::Taken;
use super::state::CopyState;
use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::progress::Hashing;
use crate::transfer::{Failure, SessionState, Transfer};

/// Most bytes that are compared of a file, of all its ranges together.
const MOST: u64 = 64 << 20;
/// Size of the aligned steps by which an upload goes back before a difference, in bytes.
const STEP: u64 = 1 << 20;

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
    let compared = left.run_until_cancelled(compared).await;
    let failure = match compared.unwrap_or_else(|| Err(Failure::left())) {
        Ok((held, ends)) => {
            (job.held, job.recalled) = (held, false);
            job.read_back = ReadBack::Done { ends };
            return Ok(Some(taken));
        }
        Err(failure) => shared.of_stack(&client.control, failure),
    };
    let is_broken = failure.session == SessionState::ChannelBroken;
    // As of a store that is to go on, the last attempt begins at the start: the server may never
    // send all of them.
    let is_last = !shared
        .options
        .goes_on(job.failures + 2, Duration::ZERO, false);
    let is_usable = failure.session <= SessionState::ChannelBroken;
    let back = if is_usable && (is_last || is_refused(&failure)) {
        job.forget();
        job.read_back = ReadBack::Refused;
        let copy = shared.name_destination(job);
        shared.note(&format!("{copy}: begun anew: {}", failure.error));
        Some(taken)
    } else {
        match shared.fail_transfer(taken, failure) {
            Ok(()) | Err(Stop::Channel) => None,
            Err(stop) => return Err(stop),
        }
    };
    if is_broken {
        client.drop_channel();
        source.into_iter().for_each(Client::drop_channel);
    }
    Ok(back)
}

/// Says whether the server sends no such bytes, as one that takes files and shows none.
fn is_refused(failure: &Failure) -> bool {
    let kind = failure.error.reply().map(FailureKind::of);
    !failure.midway && kind.is_some_and(|kind| kind != FailureKind::DataChannel)
}

/// The source of an upload.
enum Original<'a> {
    Here(FileSource),
    There(&'a mut Client, FtpPath),
}

impl<'a> Original<'a> {
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

/// The ranges of the server's bytes that are equal as far as they are compared, and whether it has
/// no others.
async fn compare(
    client: &mut Client,
    source: Option<&mut Client>,
    mode: Mode,
    shared: &CopyState,
    job: &FileJob,
) -> Result<(RangeSet, bool), Failure> {
    let nothing = (RangeSet::new(), false);
    let (Some(at), Some(all)) = (&job.hidden, job.facts.size) else {
        return Ok(nothing);
    };
    let Some(mut original) = Original::open(source, job).await? else {
        return Ok(nothing);
    };
    let mut asked = client.control.send(Command::Size(at.clone()));
    let size = match asked.size().await {
        Ok(Some(size)) => size,
        Ok(None) | Err(ControlError::Refused { .. }) => return Ok(nothing),
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
    let (mut done, mut held, mut ends) = (0, RangeSet::new(), true);
    for part in parts {
        let comparing = Comparing {
            source: InOrder::End,
            part,
            done: &mut done,
            failed: None,
            hashing: &mut hashing,
        };
        let from = (&*job.from, all);
        let part = read(client, (at, size), &mut original, from, comparing).await?;
        ends &= !part.goes_beyond();
        held.extend(part.equal());
    }
    ends &= held.first_hole() == size;
    Ok((held, ends))
}

/// The parts to read of a file of `size` bytes: the last of each range, which a server without
/// partial retrievals sends with all that is behind it.
fn parts(there: &RangeSet, size: u64, is_partial: bool) -> Vec<Part> {
    let ranges = there.len().max(1) as u64;
    let most = (MOST / ranges).max(STEP) / STEP * STEP;
    let parts = there.iter().map(|range| Part::last(range, most));
    parts
        .filter(|part| is_partial || size.saturating_sub(part.start) <= MOST)
        .collect()
}

/// Reads a part of the file `at`, which has `size` bytes, and compares it with the original, a file
/// `from` of `all` bytes.
async fn read(
    client: &mut Client,
    at: (&FtpPath, u64),
    original: &mut Original<'_>,
    (from, all): (&[u8], u64),
    mut comparing: Comparing<'_, '_>,
) -> Result<Part, Failure> {
    match original {
        Original::Here(source) => {
            comparing.source = InOrder::File(source);
            let read = retrieve(client, at, comparing.part, &mut comparing).await;
            match comparing.failed {
                Some(cause) => read.map_err(|failure| Failure {
                    error: TransferError::local("read", from, cause),
                    ..failure
                }),
                None => read,
            }?;
            Ok(comparing.part)
        }
        Original::There(server, path) => {
            let (to, sent) = mpsc::channel(1);
            comparing.source = InOrder::Sent(sent, Bytes::new());
            let sending = send(server, (path, all), comparing.part, to);
            let read = async {
                let read = retrieve(client, at, comparing.part, &mut comparing).await;
                // The source need not send the rest.
                comparing.source = InOrder::End;
                read.map(|()| comparing.part)
            };
            let (sent, read) = tokio::join!(Box::pin(sending), Box::pin(read));
            match (sent, read) {
                (Ok(()), read) => read,
                (Err(failure), Ok(_)) => Err(failure),
                (Err(source), Err(failure)) => Err(Failure {
                    session: failure.session.max(source.session),
                    ..failure
                }),
            }
        }
    }
}

/// Has the server of the source send a part of a file, as far as it is taken.
async fn send(
    server: &mut Client,
    of: (&FtpPath, u64),
    part: Part,
    to: mpsc::Sender<Bytes>,
) -> Result<(), Failure> {
    let mut outlet = Outlet(to);
    match retrieve(server, of, part, &mut outlet).await {
        Err(failure) if outlet.0.is_closed() && failure.session <= SessionState::ChannelBroken => {
            server.drop_channel();
            Ok(())
        }
        sent => sent,
    }
}

/// Has a server send a part of the file `at`, which has `size` bytes, or more behind it.
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

/// The last bytes of a range, and how far they are equal at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    range: Range64,
    /// First byte that is compared.
    start: u64,
    /// Bytes that have come.
    received: u64,
    /// One past the last byte that is equal.
    equal: u64,
    /// Whether one of them is not zero.
    has_data: bool,
    differs: bool,
}

impl Part {
    /// At most `most` bytes of a range, which is at least a [`STEP`].
    fn last(range: Range64, most: u64) -> Self {
        let start = match range.end() - range.len().min(most) {
            start if start == range.start() => start,
            start => start.next_multiple_of(STEP),
        };
        Self {
            range,
            start,
            received: 0,
            equal: start,
            has_data: false,
            differs: false,
        }
    }

    /// Number of bytes that are still to be compared.
    fn left(&self) -> u64 {
        match self.differs {
            true => 0,
            false => self.range.end() - self.equal,
        }
    }

    /// Compares the next bytes of both ends.
    fn note(&mut self, there: &[u8], here: &[u8]) {
        let equal = match there == here {
            true => there.len(),
            false => there.iter().zip(here).take_while(|(a, b)| a == b).count(),
        };
        self.has_data = self.has_data || here.iter().take(equal).any(|byte| *byte != 0);
        self.equal += equal as u64;
        self.differs |= equal < there.len();
    }

    /// Says whether more came than was there.
    fn goes_beyond(&self) -> bool {
        self.received > self.range.end() - self.start
    }

    /// The bytes of the range to go on with: all, or those before the step of the first difference,
    /// unless that leaves none which were compared, or they prove nothing of those before them.
    fn equal(&self) -> Option<Range64> {
        let end = match self.equal == self.range.end() {
            true => self.equal,
            false => self.equal - self.equal % STEP,
        };
        // Zeros are also there where nothing was written.
        let is_proven = self.has_data || self.start == self.range.start();
        Range64::new(self.range.start(), end).filter(|_| is_proven && end > self.start)
    }
}

/// The bytes of a source, in order from the start of a part.
enum InOrder<'a> {
    File(&'a FileSource),
    /// Those that its server sends, and the last of them.
    Sent(mpsc::Receiver<Bytes>, Bytes),
    End,
}

impl InOrder<'_> {
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
                    *rest = from.recv().await.unwrap_or_default();
                }
                Ok(rest.split_to(len.min(rest.len())))
            }
            Self::End => Ok(Bytes::new()),
        }
    }
}

/// The consumer of the source's bytes.
struct Outlet(mpsc::Sender<Bytes>);

impl Consumer for Outlet {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let gone = |_| StorageError::new(ErrorKind::Io, "read");
        self.0.send(bytes).await.map_err(gone)
    }
}

/// The comparison of the bytes of a server with those of a source.
struct Comparing<'a, 'h> {
    source: InOrder<'a>,
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
        Ok(())
    }

    fn is_patient(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;

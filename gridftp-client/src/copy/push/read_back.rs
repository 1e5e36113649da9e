//! Reads back the last bytes of a broken upload at a server without digests, and compares them with
//! the source.
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

use crate::client::Client;
use crate::copy::Stop;
use crate::copy::job::{Facts, FileJob, ReadBack};
use crate::copy::kept::longest;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::error::{ControlError, TransferError};
use crate::progress::Hashing;
use crate::transfer::{Failure, SessionState, Transfer};

use super::local;

/// Most bytes that are compared of a file, of all its ranges together.
const MOST: u64 = 64 << 20;
/// Size of the aligned steps by which an upload goes back before a difference, in bytes.
const STEP: u64 = 1 << 20;

/// Reads the bytes of an upload back, if that is due; `None` where the attempt has failed.
pub(super) async fn read_back(
    client: &mut Client,
    shared: &Arc<CopyState>,
    mut taken: Taken,
) -> Result<Option<Taken>, Stop> {
    if !taken.item().is_due() {
        return Ok(Some(taken));
    }
    // As before any data connection.
    if client.guard.is_spent() {
        return Err(Stop::Replace);
    }
    let left = client.control.left.clone();
    let job = taken.file_mut();
    let compared = Box::pin(compare(client, shared, job));
    let compared = left.run_until_cancelled(compared).await;
    let failure = match compared.unwrap_or_else(|| Err(Failure::left())) {
        Ok((held, ends)) => {
            (job.held, job.recalled) = (held, false);
            job.read_back = ReadBack::Done { ends };
            return Ok(Some(taken));
        }
        Err(failure) => shared.of_stack(&client.control, failure),
    };
    // As of a store that is to go on, the last attempt begins at the start: the server may never
    // send all of them.
    let is_last = !shared
        .options
        .goes_on(job.failures + 2, Duration::ZERO, false);
    let is_usable = failure.session <= SessionState::ChannelBroken;
    if is_usable && (is_last || is_refused(&failure)) {
        job.forget();
        job.read_back = ReadBack::Refused;
        let copy = shared.name_destination(job);
        shared.note(&format!("{copy}: begun anew: {}", failure.error));
        if failure.session == SessionState::ChannelBroken {
            client.drop_channel();
        }
        return Ok(Some(taken));
    }
    match shared.fail_transfer(taken, failure) {
        Ok(()) => Ok(None),
        Err(Stop::Channel) => {
            client.drop_channel();
            Ok(None)
        }
        Err(stop) => Err(stop),
    }
}

/// Says whether the server sends no such bytes, as one that takes files and shows none.
fn is_refused(failure: &Failure) -> bool {
    let kind = failure.error.reply().map(FailureKind::of);
    !failure.midway && kind.is_some_and(|kind| kind != FailureKind::DataChannel)
}

/// The ranges of the server's bytes that are equal as far as they are compared, and whether it has
/// no others.
async fn compare(
    client: &mut Client,
    shared: &CopyState,
    job: &FileJob,
) -> Result<(RangeSet, bool), Failure> {
    let nothing = (RangeSet::new(), false);
    // The next attempt tells why it cannot be read.
    let (Some(at), Ok(source)) = (&job.hidden, FileSource::open(local(&job.from)).await) else {
        return Ok(nothing);
    };
    if !Facts::of_source(&source).is_same_as(&job.facts) {
        return Ok(nothing);
    }
    let mut asked = client.control.send(Command::Size(at.clone()));
    let size = match asked.size().await {
        Ok(Some(size)) => size,
        Ok(None) | Err(ControlError::Refused { .. }) => return Ok(nothing),
        Err(error) => return Err(Failure::to_begin(error)),
    };
    let in_order = !client.abilities.extended;
    let is_one = shared.mode(client) == Mode::Stream;
    let there = match (in_order, is_one) {
        // A longer file is not cut by a store that goes on with it.
        (true, _) if size > source.size() => RangeSet::new(),
        (true, _) => RangeSet::up_to(size),
        // Streams side by side leave holes.
        (false, true) => RangeSet::up_to(job.held.first_hole()),
        (false, false) => longest(&job.held),
    };
    let known = Range64::new(0, size.min(source.size()));
    let there = known.map_or_else(RangeSet::new, |known| there.clip(known));
    let parts = parts(&there, size, client.abilities.eret);
    let total: u64 = parts.iter().map(|part| part.range.end() - part.start).sum();
    let mut comparing = Comparing {
        source: &source,
        part: None,
        done: 0,
        failed: None,
        hashing: Hashing::new(&shared.totals, Some(total)),
    };
    let (mut held, mut ends) = (RangeSet::new(), true);
    for part in parts {
        let read = read(client, (at, size), part, &mut comparing).await;
        let part = read.map_err(|failure| match comparing.failed.take() {
            Some(cause) => Failure {
                error: TransferError::local("read", &job.from, cause),
                ..failure
            },
            None => failure,
        })?;
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

/// Has the server send a part of the file `at`, which has `size` bytes, and compares it.
async fn read(
    client: &mut Client,
    (at, size): (&FtpPath, u64),
    part: Part,
    comparing: &mut Comparing<'_>,
) -> Result<Part, Failure> {
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
    comparing.part = Some(part);
    let (control, channel) = (&client.control, client.channel.get());
    let data = Box::pin(channel.receive_chunks(comparing, &plan, &watch));
    let work = Box::pin(transfer.run(&watch, data));
    let _received = control.watched(&watch, |_| (), work).await?;
    Ok(comparing.part.take().unwrap_or(part))
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

/// The comparison of the bytes of a server with those of a source.
struct Comparing<'a> {
    source: &'a FileSource,
    part: Option<Part>,
    /// Bytes of all parts that have come.
    done: u64,
    /// The failure of the source.
    failed: Option<StorageError>,
    hashing: Hashing<'a>,
}

impl Consumer for Comparing<'_> {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        part.received += bytes.len() as u64;
        self.done += bytes.len() as u64;
        self.hashing.note(self.done);
        // An upload of a killed client may still be added to it, but not for long.
        if part.received > part.range.end() - part.start + MOST {
            return Err(StorageError::new(ErrorKind::Io, "read"));
        }
        let mut there: &[u8] = &bytes;
        while !there.is_empty() && part.left() > 0 {
            let len = usize::try_from(part.left()).map_or(there.len(), |n| n.min(there.len()));
            let here = self
                .source
                .read_at(part.equal, BytesMut::with_capacity(len));
            let here = match here.await {
                Ok(here) => here,
                Err(error) => {
                    self.failed = Some(error);
                    return Err(StorageError::new(ErrorKind::Io, "read"));
                }
            };
            let len = here.len().min(len);
            let (now, rest) = there.split_at(len);
            if len == 0 {
                // The source has become shorter.
                part.differs = true;
            }
            part.note(now, here.get(..len).unwrap_or_default());
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

//! Local to local: each file is opened as for an upload, read and written here, and landed as a
//! download.

pub(super) mod in_order;

use std::sync::{Arc, Weak};

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_data::Watch;
use gridftp_dsi::types::Attribute;
use gridftp_dsi::types::ChecksumAlgorithm::{self, Blake3};
use gridftp_dsi::{Sink as _, Source as _};
use gridftp_dsi_posix::FileSink;
use gridftp_dsi_posix::checksum::Hasher;

use super::job::{FileJob, Item};
use super::kept::Digest;
use super::outlive::leaves_bytes;
use super::pull::land::{Digests, land, make_dir, open_sink, whole};
use super::pull::{admit, local, resume};
use super::queue::Taken;
use super::source::LocalSource;
use super::state::CopyState;
use super::tuning::Worker;
use super::{Stop, blocking};
use crate::error::TransferError;
use crate::names::trim_slashes;
use crate::options::Verify;

/// Bytes that are read, hashed and written at a time.
const PIECE: u64 = 256 << 10;
/// Bytes that the kernel copies at a time.
const STEP: u64 = 64 << 20;

/// Copies from the queue until nothing is left.
pub(crate) async fn run(worker: &Worker) -> Result<(), Stop> {
    let shared = &worker.shared;
    let algorithm = algorithm(shared).await.map_err(Stop::of_digest)?;
    while !worker.leaves()
        && let Some(taken) = shared.queue.next(|_| true).await
    {
        match taken.item() {
            Item::Dir(_) => make(shared, taken).await,
            Item::File(_) => Box::pin(copy(shared, taken, algorithm)).await,
        }
    }
    Ok(())
}

/// The algorithm that copies are compared with, if they are.
///
/// # Errors
/// When it is not known here.
async fn algorithm(shared: &CopyState) -> Result<Option<ChecksumAlgorithm>, TransferError> {
    let algorithm = match shared.options.verify {
        Verify::Auto => Some(Blake3),
        _ => shared.algorithm(&[]).await?,
    };
    match algorithm.filter(|algorithm| Hasher::new(*algorithm).is_none()) {
        Some(unknown) => {
            let what = format!("verify: {} is not known here", unknown.name());
            Err(TransferError::request(what, ""))
        }
        None => Ok(algorithm),
    }
}

impl CopyState {
    /// Waits until so many bytes may move on this machine.
    pub(in crate::copy) async fn limit(&self, bytes: usize) {
        if let Some(limit) = &self.options.connect.rate_limit {
            limit.pass(bytes).await;
        }
    }
}

/// Makes a directory.
async fn make(shared: &CopyState, taken: Taken) {
    let Item::Dir(job) = taken.item() else { return };
    let dir = trim_slashes(&job.to);
    let made = async {
        shared.check_parents(dir, None).await?;
        let path = local(dir).to_owned();
        let spared = shared.spare_sources(dir, true).await;
        if spared.is_err() && blocking(move || Ok(path.is_dir())).await.unwrap_or(false) {
            // The source stays as it is, and each file that would be written there fails.
            return Ok(false);
        }
        spared?;
        make_dir(shared, dir).await.map(|()| true)
    };
    match made.await {
        Ok(is_ours) => taken.done(|item| {
            if let (Item::Dir(job), true) = (item, is_ours) {
                shared.note_dir(*job);
            }
        }),
        Err(error) => shared.fail(taken, &error),
    }
}

/// Copies a file.
async fn copy(shared: &Arc<CopyState>, taken: Taken, algorithm: Option<ChecksumAlgorithm>) {
    let Some(mut taken) = admit(shared, taken, None).await else {
        return;
    };
    let job = taken.file_mut();
    shared.start(job);
    let (source, sink) = match open(shared, job).await {
        Ok(opened) => opened,
        Err(error) => return shared.fail(taken, &error),
    };
    match move_bytes(shared, job, (&source, &sink), algorithm).await {
        Ok((digest, attributes)) => {
            let size = job.held.end();
            let digests = Digests {
                source: digest,
                is_read: true,
                proven: None,
            };
            land(shared, (taken, sink), size, digests, attributes).await;
        }
        Err(error) => {
            if leaves_bytes(&error) {
                resume::keep(shared, job, &sink).await;
            }
            job.sink = Some(sink);
            shared.fail(taken, &error);
        }
    }
}

/// The attributes of a source, or the reason for which it tells none.
type Told = Result<Vec<Attribute>, TransferError>;

/// Moves the bytes of an open file; gives their digest, and the attributes of the source.
async fn move_bytes(
    shared: &CopyState,
    job: &mut FileJob,
    (source, sink): (&LocalSource, &FileSink),
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(Option<Digest>, Told), TransferError> {
    // Size and time alone do not tell whether an earlier run has read the same bytes.
    let algorithm = algorithm.or_else(|| job.recalled.then_some(Blake3));
    let watch = Watch::new();
    let held = job.held.total();
    shared.show(job, held, Weak::new());
    let before = resume::before(shared, job, sink);
    let running = job.running.clone();
    let mut bytes = BytesOnTheWay {
        shared,
        job,
        source,
        sink,
        watch: &watch,
        done: 0,
    };
    let work = bytes.run(algorithm);
    let moved = resume::recorded(shared, (running, before), (sink, &watch), work).await;
    job.held.extend(&watch.received());
    let digest = moved?;
    if source.file.unchanged().await.is_err() {
        return Err(changed(shared, job));
    }
    whole(shared, job)?;
    let attributes = shared.source_attributes((&source.file, &job.from)).await;
    Ok((digest, attributes))
}

/// Opens both ends of a file.
async fn open(
    shared: &CopyState,
    job: &mut FileJob,
) -> Result<(LocalSource, FileSink), TransferError> {
    let source = shared.open_source(job).await?;
    if job.sink.is_none() {
        job.forget();
    }
    let sink = open_sink(shared, job, true).await?;
    job.begun = true;
    Ok((source, sink))
}

fn changed(shared: &CopyState, job: &FileJob) -> TransferError {
    let path = shared.name_source(job);
    TransferError::Changed { path }
}

/// The bytes of a file between its open ends.
struct BytesOnTheWay<'a> {
    shared: &'a CopyState,
    job: &'a FileJob,
    source: &'a LocalSource,
    sink: &'a FileSink,
    watch: &'a Watch,
    /// Bytes of the part that are at the destination, from its start on.
    done: u64,
}

impl BytesOnTheWay<'_> {
    /// Moves the bytes that are not held; gives the digest of the part, where one is asked for.
    async fn run(
        &mut self,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<Option<Digest>, TransferError> {
        let (offset, length) = self.source.part;
        let part: RangeSet = Range64::from_len(offset, length).into_iter().collect();
        let missing = self.missing(&part).await?;
        let mut hasher = algorithm.and_then(Hasher::new);
        // A digest is of all bytes; else only those that are written are looked at.
        let (passing, by_kernel) = match &hasher {
            Some(_) => (&part, false),
            None => (&missing, self.sink.takes_pipes()),
        };
        let is_limited = self.shared.options.connect.rate_limit.is_some();
        let most = match by_kernel && !is_limited {
            true => STEP,
            false => PIECE,
        };
        for piece in passing.iter().flat_map(|range| pieces(range, most)) {
            if by_kernel {
                self.copy_by_kernel(piece).await?;
            } else {
                self.copy_by_hand(piece, &missing, &mut hasher).await?;
            }
            // Both may be done without a wait, and others have work too.
            tokio::task::yield_now().await;
        }
        let held = self.job.held.total();
        let holes = length.saturating_sub(held).saturating_sub(missing.total());
        self.shared.count(self.job, holes);
        self.note_all_before(offset + length);
        Ok(algorithm.zip(hasher.map(Hasher::finish)))
    }

    /// The bytes to write, in offsets of the file: those of `part` without the held ones and, in a
    /// new file, the holes.
    async fn missing(&self, part: &RangeSet) -> Result<RangeSet, TransferError> {
        let to = local(&self.job.to).to_owned();
        let replaces = blocking(move || Ok(to.metadata().map_or(true, |there| there.is_file())));
        let data = match !self.shared.is_partial() && replaces.await.unwrap_or(false) {
            true => self.source.file.data().await,
            false => Ok(None),
        };
        let data = data.map_err(|error| TransferError::local("read", &self.job.from, error))?;
        // The last byte gives a file that ends in a hole its length.
        let last = part.last();
        let last = last.and_then(|last| Range64::new(last.end() - 1, last.end()));
        let mut missing: RangeSet = match data {
            Some(data) => data.intersect(part).iter().chain(last).collect(),
            None => part.clone(),
        };
        // Those count from the start of the part.
        for range in self.job.held.shift_up(self.source.part.0).iter().flatten() {
            missing.remove(range);
        }
        Ok(missing)
    }

    /// Reads and hashes a piece, and writes the missing bytes of it.
    async fn copy_by_hand(
        &mut self,
        piece: Range64,
        missing: &RangeSet,
        hasher: &mut Option<Hasher>,
    ) -> Result<(), TransferError> {
        let mut bytes = self.read(piece).await?;
        if let Some(hasher) = hasher {
            hasher.update(&bytes);
        }
        let mut at = piece.start();
        for range in &missing.clip(piece) {
            let mut split = |to: u64| {
                let len = usize::try_from(to - at).unwrap_or(usize::MAX);
                at = to;
                bytes.split_to(len.min(bytes.len()))
            };
            drop(split(range.start()));
            let part = split(range.end());
            self.shared.limit(part.len()).await;
            let written = self.sink.write_at(range.start(), part).await;
            written.map_err(|error| TransferError::local("write", &self.job.to, error))?;
            self.note(range);
        }
        Ok(())
    }

    /// Reads all of a piece.
    async fn read(&self, piece: Range64) -> Result<Bytes, TransferError> {
        let len = usize::try_from(piece.len()).unwrap_or(usize::MAX);
        let mut bytes = BytesMut::with_capacity(len);
        while bytes.len() < len {
            let before = bytes.len();
            let at = piece.start() + before as u64;
            let read = self.source.file.read_at(at, bytes).await;
            bytes = read.map_err(|error| TransferError::local("read", &self.job.from, error))?;
            if bytes.len() == before {
                return Err(changed(self.shared, self.job));
            }
        }
        bytes.truncate(len);
        Ok(bytes.freeze())
    }

    /// Has the kernel copy a range.
    async fn copy_by_kernel(&mut self, range: Range64) -> Result<(), TransferError> {
        let len = usize::try_from(range.len()).unwrap_or(usize::MAX);
        self.shared.limit(len).await;
        match self.sink.take_file(&self.source.file, range).await {
            Ok(()) => {
                self.note(range);
                Ok(())
            }
            Err(failed) if !failed.is_of_source => {
                Err(TransferError::local("write", &self.job.to, failed.error))
            }
            Err(failed) => match self.source.file.unchanged().await {
                Ok(()) => Err(TransferError::local("read", &self.job.from, failed.error)),
                Err(_) => Err(changed(self.shared, self.job)),
            },
        }
    }

    /// Notes a written range; the bytes before it are there already, or a hole.
    fn note(&mut self, range: Range64) {
        self.shared.count(self.job, range.len());
        self.note_all_before(range.end());
    }

    /// Notes that all bytes before `offset` are at the destination.
    fn note_all_before(&mut self, offset: u64) {
        let end = offset.saturating_sub(self.source.part.0);
        let more: RangeSet = Range64::new(self.done, end).into_iter().collect();
        // They are one range.
        let _few = self.watch.record(&more);
        self.done = self.done.max(end);
    }
}

/// The pieces of a range, of `most` bytes at most, with borders at multiples of that.
fn pieces(range: Range64, most: u64) -> impl Iterator<Item = Range64> {
    let mut rest = Some(range);
    std::iter::from_fn(move || {
        let border = rest?.start() / most * most + most;
        let (piece, behind) = rest?.split_at(border);
        rest = behind;
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_multiples_and_leave_nothing_out() {
        let found: Vec<_> = pieces(Range64::new(5, 31).unwrap(), 10).collect();
        let wanted = [(5, 10), (10, 20), (20, 30), (30, 31)];
        let wanted = wanted.map(|(start, end)| Range64::new(start, end).unwrap());
        assert_eq!(found, wanted);
    }
    #[tokio::test]
    async fn a_held_range_counts_from_the_start_of_its_part() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        std::fs::write(&from, b"0123456789").unwrap();
        let [from, to] = [from, to].map(|path| path.into_os_string().into_encoded_bytes());
        let mut shared = CopyState::plain();
        (shared.options.offset, shared.options.length) = (Some(4), Some(5));
        let mut job = FileJob::new(from, to);
        let (source, sink) = open(&shared, &mut job).await.unwrap();
        job.held = RangeSet::up_to(2);
        let bytes = BytesOnTheWay {
            shared: &shared,
            job: &job,
            source: &source,
            sink: &sink,
            watch: &Watch::new(),
            done: 0,
        };
        let part = Range64::new(4, 9).into_iter().collect();
        let missing = bytes.missing(&part).await.unwrap();
        assert_eq!(missing, Range64::new(6, 9).into_iter().collect());
    }
}

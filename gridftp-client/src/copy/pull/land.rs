//! Where downloads land: opening the local file, checking it, publishing it.

use std::path::Path;
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use ftp_wire::attribute::Attribute;
use ftp_wire::command::{Mode, Type};
use gridftp_data::ReceivePlan;
use gridftp_dsi::types::{Attribute as FileAttribute, ChecksumAlgorithm, Create};
use gridftp_dsi::{Finish, Sink as _};
use gridftp_dsi_posix::FileSink;

use crate::copy::ending::Success;
use crate::copy::job::{Facts, FileJob};
use crate::copy::kept::Digest;
use crate::copy::outlive::leaves_bytes;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::error::TransferError;
use crate::names;
use crate::options::Verify;
use crate::verify;

use super::{Landed, local, resume};

/// Checks that all of a file is held.
pub(in crate::copy) fn whole(shared: &CopyState, job: &FileJob) -> Result<(), TransferError> {
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

pub(super) fn plan(shared: &CopyState, mode: Mode, held: RangeSet) -> ReceivePlan {
    ReceivePlan::new(mode, Type::Image)
        .base(shared.options.offset.unwrap_or(0))
        .held(held)
}

/// Makes a local directory and those it is in, or tells them in a dry run.
pub(crate) async fn make_dir(shared: &CopyState, dir: &[u8]) -> Result<(), TransferError> {
    if dir.is_empty() || shared.destination.is_some() || shared.is_made(dir) {
        return Ok(());
    }
    if shared.options.dry_run {
        return shared.plan_dirs(dir, None).await;
    }
    let (path, sync) = (local(dir).to_owned(), shared.options.syncs());
    let made = tokio::task::spawn_blocking(move || make_dirs(&path, sync)).await;
    match made.map_err(std::io::Error::other).and_then(|done| done) {
        Ok(()) => {
            shared.note_made(dir);
            Ok(())
        }
        Err(error) => Err(TransferError::local("make directory", dir, error)),
    }
}

/// Makes a directory and those it is in; with `sync`, their names are on the medium then, that of
/// the directory itself also where another worker has just made it.
pub(in crate::copy) fn make_dirs(path: &Path, sync: bool) -> std::io::Result<()> {
    let unsynced = |dir: &&Path| sync && (*dir == path || !dir.exists());
    let unsynced: Vec<_> = path.ancestors().filter(unsynced).collect();
    std::fs::create_dir_all(path)?;
    for dir in unsynced {
        let above = match dir.parent() {
            Some(above) if above != Path::new("") => above,
            _ => Path::new("."),
        };
        std::fs::File::open(above)?.sync_all()?;
    }
    Ok(())
}

/// Opens the file that takes the data, or the one of an earlier attempt; `proves` says whether a
/// digest will prove the copy.
pub(in crate::copy) async fn open_sink(
    shared: &CopyState,
    job: &mut FileJob,
    proves: bool,
) -> Result<FileSink, TransferError> {
    if let Some(sink) = job.sink.take() {
        return Ok(sink);
    }
    job.held = RangeSet::new();
    make_dir(shared, names::parent(&job.to)).await?;
    resume::sweep_later(shared, job);
    // A part goes into the file that is there, and is a new file as any other where none is.
    let how = match shared.is_partial() {
        true if local(&job.to).exists() => Some(Create::InPlace { truncate: false }),
        true => Some(Create::Whole { size: None }),
        false => None,
    };
    let opened = match how {
        Some(how) => FileSink::create(local(&job.to), how, shared.options.syncs()).await,
        None => resume::open(shared, job, proves).await,
    };
    let sink = opened.map_err(|error| TransferError::local("create", &job.to, error))?;
    if shared.options.sparse {
        sink.leave_holes();
    }
    Ok(sink)
}

/// A received file whose session ended before it told the facts, the digest and the attributes: the next
/// session asks for these alone.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(super) size: u64,
    /// The digest that both ends computed while the bytes passed.
    pub(super) proven: Option<Digest>,
    /// The BLAKE3 digest of the received bytes, where it is known.
    pub(super) received: Option<String>,
    /// The digest of the source that was asked for, and whether the copy fails without it.
    pub(super) digest: Option<(ChecksumAlgorithm, bool)>,
    /// Whether some bytes are of another transfer, so that the source has to be the same as before.
    pub(super) is_joined: bool,
}

/// Checks and publishes a received file.
pub(super) async fn publish(shared: &Arc<CopyState>, landed: Landed) {
    let Landed {
        mut taken,
        sink,
        size,
        proven,
        received,
        checksum,
        after,
        attributes,
        asks_again,
        ..
    } = landed;
    let job = taken.file();
    let digest = (checksum.as_ref()).map(|asked| (asked.algorithm(), asked.is_needed()));
    let is_joined = after.as_ref().is_some_and(|after| after.needed);
    let mut is_digest_over = false;
    let confirmed = async {
        if let Some(after) = after
            && !after.confirm(&job.facts).await?
        {
            let path = shared.name_source(job);
            return Err(TransferError::Changed { path });
        }
        let digest = match checksum {
            Some(asked) => asked.digest(shared, Some(size)).await?,
            None => None,
        };
        is_digest_over = true;
        match shared.told_attributes(attributes).await {
            Err(error) if error.is_transient() => Err(error),
            told => Ok((digest, told)),
        }
    };
    let (verified, attributes) = match confirmed.await {
        Ok(confirmed) => confirmed,
        Err(error) => {
            // Of a server that resets the session over CKSM, the reply before it may be lost too.
            if let (true, Some((_, false)), Some(lost)) = (asks_again, digest, error.control())
                && error.is_gone()
                && !is_digest_over
            {
                let _ = shared.does_without(lost);
            }
            // The bytes are here, and only the word on them is missing.
            if leaves_bytes(&error) {
                resume::keep(shared, job, &sink).await;
            }
            let job = taken.file_mut();
            job.held = resume::resumable(std::mem::take(&mut job.held), size);
            job.sink = Some(sink);
            job.arrived = error.is_gone().then(|| {
                Box::new(Arrived {
                    size,
                    proven,
                    received,
                    digest,
                    is_joined,
                })
            });
            return shared.fail(taken, &error);
        }
    };
    let digests = Digests {
        // What was hashed on arrival is not read again; where it does not agree, all of it is.
        is_read: (verified.as_ref()).is_some_and(|told| !verify::is(told, received.as_deref())),
        source: verified,
        proven,
    };
    let parts = |all: Vec<_>| all.into_iter().map(Attribute::into_parts).collect();
    let attributes = attributes.map(parts);
    land(shared, (taken, sink), size, digests, attributes).await;
}

/// The digests of a file with all its bytes.
pub(in crate::copy) struct Digests {
    /// That of the source, where it is known.
    pub(in crate::copy) source: Option<Digest>,
    /// Whether the written bytes are read again to compare them with it.
    pub(in crate::copy) is_read: bool,
    /// That on which both ends agree already.
    pub(in crate::copy) proven: Option<Digest>,
}

/// Gives a file of `size` bytes its name, its facts and its attributes, if its digests agree, and
/// ends its job.
pub(in crate::copy) async fn land(
    shared: &CopyState,
    (taken, sink): (Taken, FileSink),
    size: u64,
    digests: Digests,
    attributes: Result<Vec<FileAttribute>, TransferError>,
) {
    let job = taken.file();
    let published = async {
        let expected = digests.source.clone().filter(|_| digests.is_read);
        let into = (&sink, job.to.as_slice());
        let set = shared.land_attributes(attributes, into).await;
        let keeps_time = shared.keeps_times() && set.is_ok();
        let there = finish(shared, job, (sink, size), expected, keeps_time).await?;
        compare_part(shared, job, size, digests.source.as_ref()).await?;
        set.map(|()| (digests.source.or(digests.proven), there))
    };
    match published.await {
        Ok((verified, there)) => {
            let success = Success {
                bytes: size,
                verified,
                sized: shared.expected(taken.file()).is_some(),
                there: Some(there),
            };
            shared.succeed(taken, &success);
        }
        Err(error) => shared.fail(taken, &error),
    }
}

/// Gives a file its name, its time and its mode, if it has the `expected` digest; returns its facts.
async fn finish(
    shared: &CopyState,
    job: &FileJob,
    (sink, size): (FileSink, u64),
    expected: Option<Digest>,
    keeps_time: bool,
) -> Result<Facts, TransferError> {
    let mut finish = match shared.is_partial() {
        true => Finish::as_is(),
        false => Finish::whole(size),
    };
    finish.exclusive = shared.options.keeps_existing() && !shared.is_partial();
    shared.warn_untold(&job.from, &job.facts);
    finish.modified = job.facts.modified.filter(|_| keeps_time);
    finish.mode = job.facts.mode.filter(|_| shared.preserves());
    if !shared.is_partial() {
        finish.checksum.clone_from(&expected);
    }
    match sink.finish(finish).await {
        Ok(stat) => Ok(Facts {
            size: Some(stat.size),
            modified: Some(stat.modified),
            mode: Some(stat.mode),
        }),
        Err(error) if error.kind() == gridftp_dsi::ErrorKind::Mismatch => {
            Err(mismatch(shared.name_source(job), expected.as_ref()))
        }
        Err(error) => Err(TransferError::local("publish", &job.to, error)),
    }
}

/// Compares a part that lies in the file with the digest of the source.
async fn compare_part(
    shared: &CopyState,
    job: &FileJob,
    size: u64,
    verified: Option<&Digest>,
) -> Result<(), TransferError> {
    let Some((algorithm, digest)) = verified.filter(|_| shared.is_partial()) else {
        return Ok(());
    };
    let offset = shared.options.offset.unwrap_or(0);
    if shared.options.verify == Verify::Disk {
        // The file is synced. Best effort: the kernel may keep pages, which then serve the reads.
        let dropped = std::fs::File::open(local(&job.to))
            .map(|file| rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed));
        drop(dropped);
    }
    let copy = verify::local(local(&job.to), *algorithm, offset, Some(size)).await?;
    if copy == *digest {
        return Ok(());
    }
    let path = shared.name_source(job);
    Err(verify::mismatch(path, *algorithm, digest, &copy))
}

/// The error of a file that differs from the announced one, and is gone.
fn mismatch(path: String, verified: Option<&Digest>) -> TransferError {
    match verified {
        Some((algorithm, digest)) => {
            let copy = "another, so that it was thrown away";
            verify::mismatch(path, *algorithm, digest, copy)
        }
        None => TransferError::Changed { path },
    }
}

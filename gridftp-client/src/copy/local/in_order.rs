//! Copies standard input, a FIFO, a device or a file that does not tell its size to a place on this
//! machine, or any file here to standard output, in order and once.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::{Arc, Weak};

use gridftp_dsi::Sink as _;
use gridftp_dsi_posix::FileSink;
use gridftp_dsi_posix::checksum::Hasher;

use super::algorithm;
use crate::copy::blocking;
use crate::copy::ending::Success;
use crate::copy::job::FileJob;
use crate::copy::kept::Digest;
use crate::copy::pull::land::{Digests, land, open_sink};
use crate::copy::pull::{admit, local};
use crate::copy::queue::Taken;
use crate::copy::state::{CopyState, beyond};
use crate::copy::stdio::{input, output, read, write};
use crate::error::TransferError;
use crate::names;
use crate::url::{Location, show};

/// Copies the file `source`. Its bytes come only once, so that there is no second try.
pub(in crate::copy) async fn copy(
    shared: &CopyState,
    mut taken: Taken,
    source: &Location,
) -> Result<(), TransferError> {
    name(taken.file_mut(), source)?;
    let Some(mut taken) = admit(shared, taken, None).await else {
        return Ok(());
    };
    if shared.carries_attributes() {
        shared.warn_unkept("a pipe or a device");
    }
    let job = taken.file_mut();
    shared.start(job);
    let copied = async {
        let input = open(shared, job, source).await?;
        let sink = open_sink(shared, job, false).await?;
        shared.show(job, 0, Weak::new());
        let (size, source) = move_bytes(shared, job, &input, &sink).await?;
        Ok((sink, size, source))
    };
    match copied.await {
        Ok((sink, size, source)) => {
            let digests = Digests {
                source,
                is_read: true,
                proven: None,
            };
            land(shared, (taken, sink), size, digests, Ok(Vec::new())).await;
        }
        Err(error) => shared.fail(taken, &error),
    }
    Ok(())
}

/// Gives a file that goes into a directory its name there.
fn name(job: &mut FileJob, source: &Location) -> Result<(), TransferError> {
    if !job.to.ends_with(b"/") && !local(&job.to).is_dir() {
        return Ok(());
    }
    if !matches!(source, Location::Local(from) if from.is_file()) {
        let what = format!(
            "destination: {}: a pipe has no name of its own",
            show(&job.to)
        );
        return Err(TransferError::request(what, "name the file"));
    }
    job.to = names::join(names::trim_slashes(&job.to), names::last(&job.from));
    Ok(())
}

/// Opens the file at the offset that the copy begins at.
async fn open(
    shared: &CopyState,
    job: &FileJob,
    source: &Location,
) -> Result<Arc<File>, TransferError> {
    let (source, offset) = (source.clone(), shared.options.offset.unwrap_or(0));
    let opened = blocking(move || {
        let mut input = match &source {
            // A FIFO waits for its writer, and has no offsets.
            Location::Local(path) if offset > 0 && path.metadata()?.file_type().is_fifo() => {
                return Err(io::ErrorKind::NotSeekable.into());
            }
            Location::Local(path) => File::open(path)?,
            _ => input()?,
        };
        if offset > 0 {
            input.seek(SeekFrom::Start(offset))?;
        }
        Ok(Arc::new(input))
    });
    opened.await.map_err(|error| match error.kind() {
        io::ErrorKind::NotSeekable => {
            let what = "it has no offsets, and is read from its start only";
            TransferError::source(show(&job.from), what, "leave out --offset")
        }
        _ => TransferError::local("read", &job.from, error),
    })
}

/// Writes the file `source` to standard output, once: written bytes cannot be taken back for another
/// attempt.
pub(in crate::copy) async fn write_out(shared: &CopyState, mut taken: Taken, source: &Location) {
    let job = taken.file_mut();
    shared.start(job);
    match write_bytes(shared, job, source).await {
        Ok(bytes) => {
            let success = Success {
                bytes,
                verified: None,
                sized: false,
                there: None,
            };
            shared.succeed(taken, &success);
        }
        Err(error) => taken.done(|item| shared.give_up_item(&item, &error)),
    }
}

/// Writes all bytes to standard output, or as many as are wanted; gives their number.
async fn write_bytes(
    shared: &CopyState,
    job: &mut FileJob,
    source: &Location,
) -> Result<u64, TransferError> {
    let input = open(shared, job, source).await?;
    let out = output()?;
    check(shared, job, [&input, &out]).await?;
    shared.show(job, 0, Weak::new());
    let most = shared.options.length.unwrap_or(u64::MAX);
    let mut bytes = 0;
    loop {
        let piece = read(&input, most - bytes).await;
        let piece = piece.map_err(|error| TransferError::local("read", &job.from, error))?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        let len = piece.len();
        shared.limit(len).await;
        let written = write(&out, piece.freeze()).await;
        written.map_err(|error| TransferError::local("write", "-", error))?;
        bytes += len as u64;
        shared.count(job, len as u64);
    }
}

/// Refuses a file that ends before the wanted part, and one that standard output is: it would grow as
/// fast as it is read.
async fn check(
    shared: &CopyState,
    job: &FileJob,
    ends: [&Arc<File>; 2],
) -> Result<(), TransferError> {
    let [input, out] = ends.map(Arc::clone);
    let looked = blocking(move || Ok((input.metadata()?, out.metadata()?))).await;
    let (input, out) = looked.map_err(|error| TransferError::local("read", &job.from, error))?;
    if !input.is_file() {
        return Ok(());
    }
    let (offset, size) = (shared.options.offset.unwrap_or(0), input.len());
    // Some files do not tell their size.
    if size > 0 && offset > size {
        return Err(beyond(&shared.name_source(job), offset, size));
    }
    match (input.dev(), input.ino()) == (out.dev(), out.ino()) {
        true => {
            let what = "is standard output itself";
            Err(TransferError::source(
                show(&job.from),
                what,
                "write to another file",
            ))
        }
        false => Ok(()),
    }
}

/// Moves all bytes, or as many as are wanted; gives their number and their digest.
async fn move_bytes(
    shared: &CopyState,
    job: &FileJob,
    input: &Arc<File>,
    sink: &FileSink,
) -> Result<(u64, Option<Digest>), TransferError> {
    let unreadable = |error| TransferError::local("read", &job.from, error);
    let algorithm = algorithm(shared).await?;
    let mut hasher = algorithm.and_then(Hasher::new);
    let offset = shared.options.offset.unwrap_or(0);
    let most = shared.options.length.unwrap_or(u64::MAX);
    let mut size = 0;
    loop {
        let piece = read(input, most - size).await.map_err(unreadable)?;
        if piece.is_empty() {
            return Ok((size, algorithm.zip(hasher.map(Hasher::finish))));
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(&piece);
        }
        let len = piece.len();
        shared.limit(len).await;
        let written = sink.write_at(offset + size, piece.freeze()).await;
        written.map_err(|error| TransferError::local("write", &job.to, error))?;
        size += len as u64;
        shared.count(job, len as u64);
    }
}

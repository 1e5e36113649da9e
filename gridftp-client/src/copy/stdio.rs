//! Copies of something that is read or written in order: `-`, a FIFO, a device.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use ftp_wire::command::Mode;
use ftp_wire::facts::Fact;

use self::put::{Hash, Input, failure, gone, put};
use super::ending::Success;
use super::engine::connect_to;
use super::job::{Facts, FileJob};
use super::local::in_order;
use super::queue::Taken;
use super::resolve::{is_dir, site};
use super::source_roots::SourceRoots;
use super::state::{CopyState, beyond};
use super::{MAY_NOT_SYNC, NO_HOLES, blocking, web};
use crate::client::Client;
use crate::error::{Class, TransferError};
use crate::file::ReadOptions;
use crate::names;
use crate::options::{CopyOptions, Verify};
use crate::progress::{Observer, Totals};
use crate::url::{Location, Remote};

pub(super) mod put;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;

/// The path of standard input, by which it is told from its destination.
const STDIN: &[u8] = b"/dev/stdin";

/// Copies the one source; there is no second try, since the bytes that were read or written are
/// gone.
pub(crate) async fn run(
    sources: &[Location],
    destination: &Location,
    mut options: CopyOptions,
    observer: &Arc<dyn Observer>,
    totals: &Arc<Totals>,
) -> Result<Option<Class>, TransferError> {
    let [source] = sources else {
        let what = "usage: a pipe takes exactly one source";
        return Err(TransferError::request(what, ""));
    };
    // Over one connection bytes come in their order.
    options.connect.mode = Some(Mode::Stream);
    if *destination == Location::Stdio && !matches!(source, Location::Remote(_)) {
        if !matches!(options.verify, Verify::Auto | Verify::No) {
            let what = "usage: --verify: nobody tells a digest of standard output";
            return Err(TransferError::request(what, "leave it out"));
        }
        options.verify = Verify::No;
    }
    let (observer, totals) = (Arc::clone(observer), Arc::clone(totals));
    let (from, to) = (site(source), site(destination));
    let sources_here = SourceRoots::of(sources, &options).await;
    let mut shared = CopyState::new(options, observer, totals, from, to, None);
    shared.roots = sources_here;
    let from = match (source, destination) {
        // A file here may have the name -.
        (Location::Stdio, Location::Local(_)) => STDIN.to_vec(),
        _ => path(source),
    };
    shared.found(FileJob::new(from, path(destination)));
    let Some(taken) = shared.queue.next(|_| true).await else {
        return Ok(shared.worst());
    };
    if shared.options.dry_run {
        shared.plan_file(taken);
    } else {
        Box::pin(copy(&shared, taken, source, destination)).await?;
    }
    Ok(shared.worst())
}

fn path(location: &Location) -> Vec<u8> {
    match location {
        Location::Stdio => b"-".to_vec(),
        Location::Local(path) => path.as_os_str().as_bytes().to_vec(),
        Location::Remote(remote) => remote.path.clone(),
    }
}

async fn copy(
    shared: &CopyState,
    mut taken: Taken,
    source: &Location,
    destination: &Location,
) -> Result<(), TransferError> {
    if shared.is_of_web() {
        web::output::copy(shared, taken).await;
        return Ok(());
    }
    let (mut remote, local) = match (source, destination) {
        (Location::Remote(remote), _) => (remote.clone(), None),
        (local, Location::Remote(remote)) => (remote.clone(), Some(local)),
        (local, Location::Local(_)) => return in_order::copy(shared, taken, local).await,
        (local, Location::Stdio) => {
            in_order::write_out(shared, taken, local).await;
            return Ok(());
        }
    };
    let client = connect_to(&remote.site, &shared.options, &shared.observer).await?;
    if let Some(local) = local {
        if shared.options.syncs() && !client.abilities.durable {
            shared.warn(MAY_NOT_SYNC);
        }
        if shared.options.sparse {
            shared.warn(NO_HOLES);
        }
        remote = within(&client, local, remote).await?;
    }
    let needed = shared.algorithm(&[&client]).await?;
    let optional = shared.without_receipt(&[(&client.control, &client.abilities)]);
    if shared.options.no_clobber && local.is_some() && client.exists(&remote.path).await? {
        shared.skip(taken, "it exists");
        return Ok(());
    }
    if shared.carries_attributes() {
        shared.warn_unkept("a pipe or a device");
    }
    let job = taken.file_mut();
    shared.start(job);
    let hash = Hash::new(needed, optional);
    let copied = match local {
        None => get(*client, shared, job, &remote, hash).await,
        Some(local) => match Pipe::open(local) {
            Ok(mut pipe) => Box::pin(put(*client, shared, job, &mut pipe, &remote, hash)).await,
            Err(error) => Err(error),
        },
    };
    match copied {
        Ok((client, success)) => {
            shared.succeed(taken, &success);
            client.close().await;
        }
        Err(error) => taken.done(|item| shared.give_up_item(&item, &error)),
    }
    Ok(())
}

/// Reads at most `most` bytes; none is the end.
pub(super) async fn read(file: &Arc<File>, most: u64) -> std::io::Result<BytesMut> {
    let want = usize::try_from(most).unwrap_or(PIECE).min(PIECE);
    let file = Arc::clone(file);
    blocking(move || {
        let mut piece = BytesMut::zeroed(want);
        loop {
            match (&*file).read(&mut piece) {
                Ok(n) => {
                    piece.truncate(n);
                    return Ok(piece);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    })
    .await
}

/// Standard input.
pub(super) fn input() -> std::io::Result<File> {
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    input.map(File::from)
}

/// Standard output.
pub(super) fn output() -> Result<Arc<File>, TransferError> {
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| TransferError::local("write", "-", error))?;
    Ok(Arc::new(File::from(out)))
}

pub(super) async fn write(file: &Arc<File>, piece: Bytes) -> std::io::Result<()> {
    let file = Arc::clone(file);
    let written = blocking(move || (&*file).write_all(&piece)).await;
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => std::io::Error::other("its reader is gone, and with it the rest"),
        _ => error,
    })
}

async fn get(
    client: Client,
    shared: &CopyState,
    job: &mut FileJob,
    remote: &Remote,
    mut hash: Hash,
) -> Result<(Client, Success), TransferError> {
    let (entry, known) = client.stat(&remote.path).await?;
    if is_dir(entry.kind) {
        let what = format!("source: {remote}: is a directory; a pipe takes one file");
        return Err(TransferError::request(what, ""));
    }
    let path = client.path(&remote.path)?;
    let (offset, length) = (shared.options.offset, shared.options.length);
    let begin = offset.unwrap_or(0);
    if known.contains(Fact::Size) && begin > entry.size {
        return Err(beyond(&remote.to_string(), begin, entry.size));
    }
    shared.update(job, Some(Facts::of_entry(&entry, known)));
    let out = output()?;
    let mut options = ReadOptions::default();
    (options.offset, options.length) = (begin, length);
    shared.show(job, 0, Weak::new());
    let mut reader = client.into_reader(remote.path.clone(), options);
    loop {
        let piece = reader.piece().await;
        let piece = piece.map_err(|error| failure(error, remote))?;
        if piece.is_empty() {
            break;
        }
        hash.update(&piece);
        shared.count(job, piece.len() as u64);
        let written = write(&out, piece).await;
        written.map_err(|error| TransferError::local("write", "-", error))?;
    }
    let bytes = reader.position() - begin;
    if let Some(expected) = shared.expected(job).filter(|expected| *expected != bytes) {
        return Err(TransferError::Size {
            path: remote.to_string(),
            expected,
            got: bytes,
        });
    }
    let client = reader.stop().await.ok_or_else(gone)?;
    let part = (offset, length.map(|_| bytes));
    let verified = hash.compare((&client, shared), remote, &path, part).await?;
    let success = Success {
        bytes,
        verified,
        sized: shared.expected(job).is_some(),
        there: None,
    };
    Ok((client, success))
}

/// Standard input, a FIFO or a device.
struct Pipe<'a> {
    local: &'a Location,
    file: Arc<File>,
}

impl<'a> Pipe<'a> {
    fn open(local: &'a Location) -> Result<Self, TransferError> {
        let file = match local {
            Location::Local(path) => File::open(path),
            _ => input(),
        };
        let file = Arc::new(file.map_err(|error| unreadable(local, error))?);
        Ok(Self { local, file })
    }
}

impl Input for Pipe<'_> {
    async fn piece(&mut self, most: u64) -> Result<BytesMut, TransferError> {
        let piece = read(&self.file, most).await;
        piece.map_err(|error| unreadable(self.local, error))
    }
}

fn unreadable(local: &Location, error: std::io::Error) -> TransferError {
    TransferError::local("read", path(local), error)
}

/// The file that is written: in a directory, one of the name of the source, if that has one.
async fn within(
    client: &Client,
    local: &Location,
    mut remote: Remote,
) -> Result<Remote, TransferError> {
    let named = match local {
        Location::Local(path) => std::fs::metadata(path).is_ok_and(|meta| meta.is_file()),
        _ => false,
    };
    let is_dir = remote.path.ends_with(b"/")
        || (named
            && matches!(client.stat(&remote.path).await, Ok((entry, _)) if is_dir(entry.kind)));
    match local {
        _ if !is_dir => {}
        Location::Local(path) if named => {
            let name = names::last(path.as_os_str().as_bytes());
            remote.path = names::join(&remote.path, name);
        }
        _ => {
            let what = format!("destination: {remote}: a pipe has no name of its own");
            return Err(TransferError::request(what, "name the file"));
        }
    }
    Ok(remote)
}

#[cfg(test)]
mod tests;

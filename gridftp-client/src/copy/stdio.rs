//! Copies of something that is read or written in order: `-`, a FIFO, a device.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use ftp_wire::command::Mode;
use ftp_wire::facts::Fact;
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::checksum::Hasher;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::digests::DigestQuery;
use super::ending::Success;
use super::engine::connect_to;
use super::hidden::{Hidden, may_be_for_name};
use super::job::{Facts, FileJob};
use super::kept::Digest;
use super::known::Known;
use super::local::in_order;
use super::making::make_parents;
use super::queue::Taken;
use super::resolve::{is_dir, site};
use super::source_roots::SourceRoots;
use super::state::{CopyState, beyond};
use super::{MAY_NOT_SYNC, NO_HOLES, blocking};
use crate::client::Client;
use crate::error::{Class, TransferError};
use crate::file::{ReadOptions, WriteFrom, WriteOptions, Writer};
use crate::names;
use crate::options::CopyOptions;
use crate::progress::{Observer, Totals};
use crate::transfer::ACCOUNT;
use crate::url::{Location, Remote, show};
use crate::verify;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;

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
    let (observer, totals) = (Arc::clone(observer), Arc::clone(totals));
    let (from, to) = (site(source), site(destination));
    let sources_here = SourceRoots::of(sources, &options).await;
    let mut shared = CopyState::new(options, observer, totals, from, to, None);
    shared.roots = sources_here;
    shared.found(FileJob::new(path(source), path(destination)));
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
    let (mut remote, local) = match (source, destination) {
        (Location::Remote(remote), _) => (remote.clone(), None),
        (local, Location::Remote(remote)) => (remote.clone(), Some(local)),
        (Location::Local(from), _) => return in_order::copy(shared, taken, from).await,
        _ => {
            let what = "usage: one end must be an ftp:// URL";
            return Err(TransferError::request(what, ""));
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
        Some(local) => put(*client, shared, job, local, &remote, hash).await,
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

/// The digest of bytes on their way.
struct Hash {
    /// The algorithm of the digest without which the copy fails.
    needed: Option<ChecksumAlgorithm>,
    /// The algorithm of the optional digest.
    optional: Option<ChecksumAlgorithm>,
    hasher: Option<Hasher>,
    bytes: u64,
}

impl Hash {
    fn new(needed: Option<ChecksumAlgorithm>, optional: Option<ChecksumAlgorithm>) -> Self {
        Self {
            needed,
            optional,
            hasher: needed.or(optional).and_then(Hasher::new),
            bytes: 0,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    /// Compares with the server's digest from `offset` on.
    async fn compare(
        self,
        (client, shared): (&Client, &CopyState),
        remote: &Remote,
        at: &FtpPath,
        (offset, length): (Option<u64>, Option<u64>),
    ) -> Result<Option<Digest>, TransferError> {
        let (optional, part) = (
            self.optional.filter(|_| self.bytes > 0),
            (offset.unwrap_or(0), length),
        );
        let asked = DigestQuery::send(&client.control, self.needed, optional, part, at.clone());
        let (Some(hasher), Some(asked)) = (self.hasher, asked) else {
            return Ok(None);
        };
        let Some((algorithm, there)) = asked.digest(shared, Some(self.bytes)).await? else {
            return Ok(None);
        };
        let here = hasher.finish();
        if there != here {
            let path = remote.to_string();
            return Err(verify::mismatch(path, algorithm, &there, &here));
        }
        Ok(Some((algorithm, here)))
    }
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

async fn write(file: &Arc<File>, piece: Bytes) -> std::io::Result<()> {
    let file = Arc::clone(file);
    let written = blocking(move || (&*file).write_all(&piece)).await;
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => std::io::Error::other("its reader is gone, and with it the rest"),
        _ => error,
    })
}

/// The failure of a reader or a writer of `remote`.
fn failure(error: std::io::Error, remote: &Remote) -> TransferError {
    let path = remote.to_string();
    let error = match error.downcast() {
        Ok(TransferError::Cut { cause, .. }) => *cause,
        Ok(error) => error,
        Err(error) => return TransferError::local("copy", path, error),
    };
    match error {
        TransferError::Size { expected, got, .. } => TransferError::Size {
            path,
            expected,
            got,
        },
        error => error,
    }
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
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| TransferError::local("write", "-", error))?;
    let out = Arc::new(File::from(out));
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

async fn put(
    client: Client,
    shared: &CopyState,
    job: &mut FileJob,
    local: &Location,
    remote: &Remote,
    mut hash: Hash,
) -> Result<(Client, Success), TransferError> {
    let input = match local {
        Location::Local(path) => File::open(path),
        _ => std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(File::from),
    };
    let input = Arc::new(input.map_err(|error| unreadable(local, error))?);
    let to = client.path(&remote.path)?;
    let (control, parent) = (&client.control, names::parent(to.as_bytes()));
    drop(make_parents(control, shared, parent, &mut Known::default()));
    let (mut writer, hidden) = begin(client, shared, job, remote, &to).await?;
    job.hidden.clone_from(&hidden);
    shared.show(job, 0, Weak::new());
    let (file, input) = ((shared, &*job), (local, &input));
    let stored = store(&mut writer, file, input, remote, &mut hash).await;
    let client = writer.into_client();
    let at = hidden.as_ref().unwrap_or(&to);
    let proven = match (stored, &client) {
        (Ok(bytes), Some(client)) => {
            job.leaves_no_part();
            let offset = shared.options.offset;
            let part = (offset, offset.map(|_| bytes));
            let verified = hash.compare((client, shared), remote, at, part).await;
            verified.map(|verified| Success {
                bytes,
                verified,
                sized: offset.is_none() && !shared.through_layers(),
                there: None,
            })
        }
        (stored, _) => Err(stored.err().unwrap_or_else(gone)),
    };
    match (client, proven) {
        (Some(client), Ok(success)) => {
            if let Some(at) = hidden {
                name(&client, shared, remote, (at, to)).await?;
            }
            Ok((client, success))
        }
        (client, proven) => {
            if let Some(at) = hidden {
                remove(client, shared, remote, at).await;
            }
            Err(proven.err().unwrap_or_else(gone))
        }
    }
}

/// Gives a file that is whole its own name.
async fn name(
    client: &Client,
    shared: &CopyState,
    remote: &Remote,
    (at, to): (FtpPath, FtpPath),
) -> Result<(), TransferError> {
    let (control, shown) = (&client.control, show(at.as_bytes()));
    let hidden = Hidden::ask(control, client.abilities.mlst, at, to);
    let named = match hidden
        .rename(control, shared.options.keeps_existing())
        .await
    {
        Ok(renaming) => renaming.done(control, &shared.hiding).await,
        Err(error) => Err(error),
    };
    let why = match named {
        Ok(true) => return Ok(()),
        Ok(false) => "the server does not give the file its name",
        Err(TransferError::Source { .. }) => "another file appeared there, and is left alone",
        Err(error) => return Err(error),
    };
    let what = format!("destination: {remote}: {why}; all of the copy is there as {shown}");
    Err(TransferError::request(what, ""))
}

/// Stores the input; gives the number of bytes.
async fn store(
    writer: &mut Writer,
    (shared, job): (&CopyState, &FileJob),
    (local, input): (&Location, &Arc<File>),
    remote: &Remote,
    hash: &mut Hash,
) -> Result<u64, TransferError> {
    let refused = |error| failure(error, remote);
    let length = shared.options.length.unwrap_or(u64::MAX);
    loop {
        let piece = read(input, length - writer.written()).await;
        let piece = piece.map_err(|error| unreadable(local, error))?;
        if piece.is_empty() {
            writer.shutdown().await.map_err(refused)?;
            return Ok(writer.written());
        }
        hash.update(&piece);
        shared.count(job, piece.len() as u64);
        writer.put(piece).await.map_err(refused)?;
    }
}

/// Asks the server to take the file, under a hidden name where it can have one; gives that. Nothing
/// is read before: the data comes only once.
async fn begin(
    mut client: Client,
    shared: &CopyState,
    job: &mut FileJob,
    remote: &Remote,
    path: &FtpPath,
) -> Result<(Writer, Option<FtpPath>), TransferError> {
    let (control, abilities) = (&client.control, &client.abilities);
    job.to.clone_from(&remote.path);
    let mut hidden = shared.hide(control, abilities, job).await;
    if let Some(at) = hidden.take() {
        let there = Hidden::ask(control, abilities.mlst, at.clone(), path.clone());
        if there.bars_rename().await? {
            shared.hiding.over(&at);
        } else {
            hidden = Some(at);
        }
    }
    let mut options = WriteOptions::default();
    options.from = shared.options.offset.map_or(WriteFrom::Anew, WriteFrom::At);
    loop {
        options.exclusive =
            shared.options.keeps_existing() && options.from == WriteFrom::Anew && hidden.is_none();
        let at = hidden.as_ref().unwrap_or(path);
        let mut writer = client.into_writer(at.as_bytes(), options.clone());
        let Err(error) = writer.begin().await else {
            return Ok((writer, hidden));
        };
        let error = failure(error, remote);
        let for_name = error.control().is_some_and(may_be_for_name);
        match writer.into_client() {
            Some(again) if for_name && hidden.take().is_some() => client = again,
            client => {
                // The server may have made the file before the data connection failed.
                if let Some(at) = hidden {
                    remove(client, shared, remote, at).await;
                }
                return Err(error);
            }
        }
    }
}

/// Removes a hidden file that is given up, over another session where its own has ended.
async fn remove(client: Option<Client>, shared: &CopyState, remote: &Remote, at: FtpPath) {
    shared.hiding.leave(at);
    if let Some(client) = client {
        let _told = timeout(ACCOUNT, shared.hiding.clean(&client.control)).await;
    }
    let options = Arc::new(shared.options.connect.clone());
    if shared.hiding.has_left()
        && let Ok(again) = Client::connect(&remote.site, options).await
    {
        shared.hiding.clean(&again.control).await;
        again.close().await;
    }
}

fn unreadable(local: &Location, error: std::io::Error) -> TransferError {
    TransferError::local("read", path(local), error)
}

/// The failure of a copy that lost its session behind the data.
fn gone() -> TransferError {
    TransferError::request("transfer: the session ended before the copy was proven", "")
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

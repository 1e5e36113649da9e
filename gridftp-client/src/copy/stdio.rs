//! Copies between a server and something that is read or written in order: `-`, a FIFO, a device.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use ftp_wire::command::{BufferSide, Command, Mode, Spot, Type};
use ftp_wire::facts::Fact;
use ftp_wire::path::FtpPath;
use gridftp_data::{Chunks, Consumer, ReceivePlan, SendPlan, Watch};
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi::{Error as StorageError, ErrorKind};
use gridftp_dsi_posix::checksum::Hasher;

use super::hidden::{Hidden, may_be_for_name};
use super::job::{Facts, FileJob};
use super::resolve::{connect, is_dir};
use super::shared::{Shared, beyond};
use crate::client::Client;
use crate::control::Replies;
use crate::error::{Class, TransferError};
use crate::options::CopyOptions;
use crate::progress::{Event, Observer, Totals};
use crate::transfer::{ACCOUNT, accepted, settle, settle_final, settle_stored, unless_refused};
use crate::url::{Location, Remote, show};
use crate::verify;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;

/// Copies the one source; there is no second try, since what was read or written is gone.
pub(crate) async fn run(
    sources: &[Location],
    destination: &Location,
    options: CopyOptions,
    observer: &Arc<dyn Observer>,
    totals: &Arc<Totals>,
) -> Result<Option<Class>, TransferError> {
    let [source] = sources else {
        return Err(TransferError::Request(
            "usage: a pipe takes exactly one source".to_owned(),
        ));
    };
    let begun = Instant::now();
    let (from, to) = (source.to_string(), destination.to_string());
    totals.found(None);
    if options.dry_run {
        totals.skipped();
        observer.event(&Event::Planned {
            source: &from,
            destination: &to,
            size: None,
        });
        return Ok(None);
    }
    let (remote, local) = match (source, destination) {
        (Location::Remote(remote), _) => (remote, None),
        (local, Location::Remote(remote)) => (remote, Some(local)),
        _ => {
            return Err(TransferError::Request(
                "usage: one end must be an ftp:// URL".to_owned(),
            ));
        }
    };
    let mut client = connect(&remote.site, &options, observer).await?;
    let remote = match local {
        Some(local) => &within(&client, local, remote).await?,
        None => remote,
    };
    let shared = Shared::new(
        options,
        Arc::clone(observer),
        Arc::clone(totals),
        None,
        None,
        None,
    );
    let algorithm = shared.algorithm(&[&client]).await?;
    if shared.options.no_clobber && local.is_some() && client.exists(&remote.path).await? {
        totals.skipped();
        observer.event(&Event::Skipped {
            source: &from,
            why: "it exists",
        });
        return Ok(None);
    }
    observer.event(&Event::Started {
        source: &from,
        destination: &to,
        size: None,
    });
    let done = match local {
        None => get(&mut client, &shared, remote, algorithm).await,
        Some(local) => put(&mut client, &shared, local, remote, algorithm).await,
    };
    match done {
        Ok((bytes, digest)) => {
            totals.done();
            let verified = algorithm.map(|a| a.name()).zip(digest.as_deref());
            observer.event(&Event::Finished {
                source: &from,
                destination: &to,
                bytes,
                took: begun.elapsed(),
                verified,
            });
            client.close().await;
            Ok(None)
        }
        Err(error) => {
            shared.give_up(&from, &error);
            Ok(shared.worst())
        }
    }
}

/// Bytes in order, hashed on their way.
#[derive(Clone)]
struct Pipe {
    file: Arc<File>,
    hasher: Option<(ChecksumAlgorithm, Arc<Mutex<Hasher>>)>,
    left: u64,
}

impl Pipe {
    fn new(file: File, algorithm: Option<ChecksumAlgorithm>, left: u64) -> Self {
        let hasher = algorithm.and_then(|algorithm| {
            let hasher = Hasher::new(algorithm)?;
            Some((algorithm, Arc::new(Mutex::new(hasher))))
        });
        Self {
            file: Arc::new(file),
            hasher,
            left,
        }
    }

    fn hash(&self, bytes: &[u8]) {
        if let Some((_, hasher)) = &self.hasher {
            hasher
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .update(bytes);
        }
    }

    fn digest(self) -> Option<(ChecksumAlgorithm, String)> {
        let (algorithm, hasher) = self.hasher?;
        let hasher = hasher
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Some((algorithm, hasher.finish()))
    }
}

async fn blocking<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, StorageError> {
    let done = tokio::task::spawn_blocking(work)
        .await
        .map_err(std::io::Error::other)
        .and_then(|done| done);
    done.map_err(|error| StorageError::new(ErrorKind::Io, op).because(error))
}

impl Consumer for Pipe {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        use std::io::Write as _;
        self.hash(&bytes);
        let file = Arc::clone(&self.file);
        blocking("write", move || {
            (&*file)
                .write_all(&bytes)
                .map_err(|error| match error.kind() {
                    std::io::ErrorKind::BrokenPipe => {
                        std::io::Error::other("its reader is gone, and with it the rest")
                    }
                    _ => error,
                })
        })
        .await
    }
}

impl Chunks for Pipe {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        use std::io::Read as _;
        let want = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE);
        if want == 0 {
            return Ok(None);
        }
        let file = Arc::clone(&self.file);
        let piece = blocking("read", move || {
            let mut piece = BytesMut::zeroed(want);
            loop {
                match (&*file).read(&mut piece) {
                    Ok(n) => {
                        piece.truncate(n);
                        return Ok(piece.freeze());
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        })
        .await?;
        self.left -= piece.len() as u64;
        self.hash(&piece);
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }
}

async fn get(
    client: &mut Client,
    shared: &Shared,
    remote: &Remote,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(u64, Option<String>), TransferError> {
    let (entry, known) = client.stat(&remote.path).await?;
    if is_dir(entry.kind) {
        let what = format!("source: {remote}: is a directory; a pipe takes one file");
        return Err(TransferError::Request(what));
    }
    let path = client.path(&remote.path)?;
    let begin = shared.options.offset.unwrap_or(0);
    if known.contains(Fact::Size) && begin > entry.size {
        return Err(beyond(&remote.to_string(), begin, entry.size));
    }
    let (offset, length) = (shared.options.offset, shared.options.length);
    let mut job = FileJob::new(Vec::new(), Vec::new());
    job.facts = Facts::of_entry(&entry, known);
    let expected = shared.expected(&job);
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| TransferError::local("write", "-", error))?;
    let mut pipe = Pipe::new(out.into(), algorithm, u64::MAX);
    client.set_up_stream(BufferSide::Send).await?;
    let command = Command::retrieve(path, shared.region(&job), None);
    let mut replies = client.control.send(command);
    let watch = Watch::new();
    let Client {
        control, channel, ..
    } = client;
    let channel = channel.get();
    let plan = ReceivePlan::new(Mode::Stream, Type::Image);
    let work = channel.receive_chunks(&mut pipe, &plan, &watch);
    let work = Box::pin(unless_refused(&mut replies, work));
    let received = shared.watched(control, &watch, work).await?;
    let end = settle_final(&mut replies, received.is_ok()).await;
    let received = settle(received, end, control.site(), &remote.path, ("write", "-"))?;
    if let Some(expected) = expected
        && received.bytes != expected
    {
        return Err(TransferError::Size {
            path: remote.to_string(),
            expected,
            got: received.bytes,
        });
    }
    let length = length.map(|_| received.bytes);
    let path = client.path(&remote.path)?;
    let digest = compare(client, remote, &path, (offset, length), pipe).await?;
    Ok((received.bytes, digest))
}

async fn put(
    client: &mut Client,
    shared: &Shared,
    local: &Location,
    remote: &Remote,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<(u64, Option<String>), TransferError> {
    let input = match local {
        Location::Local(path) => File::open(path),
        _ => std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(File::from),
    };
    let input = input.map_err(|error| TransferError::local("read", local.to_string(), error))?;
    let length = shared.options.length.unwrap_or(u64::MAX);
    let pipe = Pipe::new(input, algorithm, length);
    let path = client.path(&remote.path)?;
    make_parents(client, &path);
    let mut job = FileJob::new(Vec::new(), remote.path.clone());
    let mlst = client.abilities.mlst;
    let mut hidden = shared
        .hide(&client.control, &client.abilities, &mut job)
        .await;
    if let Some(at) = hidden.take() {
        // The data comes only once, so it is settled before where it can go.
        let there = Hidden::ask(&client.control, mlst, at.clone(), path.clone());
        hidden = (!there.bars_rename().await?).then_some(at);
    }
    let at = hidden.as_ref().unwrap_or(&path);
    let begun = match begin(client, shared, at).await {
        Err(TransferError::Control(refusal)) if hidden.is_some() && may_be_for_name(&refusal) => {
            hidden = None;
            client.drop_channel();
            begin(client, shared, &path).await?
        }
        begun => begun?,
    };
    let at = hidden.clone().unwrap_or_else(|| path.clone());
    let stored = store(client, shared, (local, remote), &at, pipe, begun).await;
    let Some(at) = hidden else {
        return stored;
    };
    if stored.is_err() {
        client.drop_channel();
        shared.hiding.leave(at);
        let _told = tokio::time::timeout(ACCOUNT, shared.hiding.clean(&client.control)).await;
        if shared.hiding.has_left()
            && let Ok(again) = Client::connect(&remote.site, Arc::clone(&client.options)).await
        {
            shared.hiding.clean(&again.control).await;
            again.close().await;
        }
        return stored;
    }
    let named = Hidden::ask(&client.control, mlst, at.clone(), path);
    let renaming = named
        .rename(&client.control, shared.options.no_clobber)
        .await?;
    if renaming.done(&client.control, &shared.hiding).await? {
        return stored;
    }
    let at = show(at.as_bytes());
    Err(TransferError::Request(format!(
        "destination: {remote}: the server does not give the file its name; all of it is there as {at}"
    )))
}

/// A store in MODE S that was asked for, and whether its connection is there.
type Begun = (Replies, gridftp_data::Result<()>);

/// Asks for a store and waits until the server takes it; nothing is read before.
async fn begin(client: &mut Client, shared: &Shared, at: &FtpPath) -> Result<Begun, TransferError> {
    client.set_up_stream(BufferSide::Receive).await?;
    let spot = shared.options.offset.map_or(Spot::Whole, Spot::At);
    let command = Command::store(at.clone(), spot, None);
    let mut replies = client.control.send(command);
    let within = client.options.reply_within;
    let open = client.channel.get().open(Mode::Stream, 1);
    let opened = accepted(&mut replies, within, open).await?;
    Ok((replies, opened))
}

/// Stores what comes, and proves it.
async fn store(
    client: &mut Client,
    shared: &Shared,
    (local, remote): (&Location, &Remote),
    at: &FtpPath,
    mut pipe: Pipe,
    (mut replies, opened): Begun,
) -> Result<(u64, Option<String>), TransferError> {
    let offset = shared.options.offset;
    let watch = Watch::new();
    let Client {
        control, channel, ..
    } = client;
    let channel = channel.get();
    let plan = SendPlan::new(Mode::Stream, Type::Image, byte_ranges::RangeSet::new());
    let from = local.to_string();
    let sent = match opened {
        Ok(()) => {
            let work = channel.send_chunks(&mut pipe, &plan, &watch);
            let work = Box::pin(unless_refused(&mut replies, work));
            shared.watched(control, &watch, work).await?
        }
        Err(cause) => Err(cause),
    };
    let end = settle_stored(&mut replies, sent.is_ok()).await;
    let sent = settle(sent, end, control.site(), &remote.path, ("read", &from))?;
    if offset.is_none() {
        let mut size = client.control.send(Command::Size(at.clone()));
        verify::stored(&mut size, sent.bytes..=sent.bytes, || remote.to_string()).await?;
    }
    let length = offset.map(|_| sent.bytes);
    let digest = compare(client, remote, at, (offset, length), pipe).await?;
    Ok((sent.bytes, digest))
}

/// The file that is written: in a directory, one of the name of the source, if that has one.
async fn within(
    client: &Client,
    local: &Location,
    remote: &Remote,
) -> Result<Remote, TransferError> {
    let named = match local {
        Location::Local(path) => std::fs::metadata(path).is_ok_and(|meta| meta.is_file()),
        _ => false,
    };
    let is_dir = remote.path.ends_with(b"/")
        || (named
            && matches!(client.stat(&remote.path).await, Ok((entry, _)) if is_dir(entry.kind)));
    let mut remote = remote.clone();
    match local {
        _ if !is_dir => {}
        Location::Local(path) if named => {
            let name = crate::names::last(path.as_os_str().as_bytes());
            remote.path = crate::names::join(&remote.path, name);
        }
        _ => {
            let what =
                format!("destination: {remote}: a pipe has no name of its own; name the file");
            return Err(TransferError::Request(what));
        }
    }
    Ok(remote)
}

/// Makes the directories a file is to be in; a real failure shows when the file is stored.
fn make_parents(client: &Client, path: &FtpPath) {
    let shared = Shared::new(
        CopyOptions::default(),
        Arc::new(crate::progress::Silent::default()),
        Arc::new(Totals::default()),
        None,
        None,
        None,
    );
    let parent = crate::names::parent(path.as_bytes());
    let _made = super::making::make_parents(
        &client.control,
        &shared,
        parent,
        &mut super::known::Known::default(),
    );
}

/// Compares what went through the pipe with what the server has.
async fn compare(
    client: &Client,
    remote: &Remote,
    at: &FtpPath,
    (offset, length): (Option<u64>, Option<u64>),
    pipe: Pipe,
) -> Result<Option<String>, TransferError> {
    let Some((algorithm, here)) = pipe.digest() else {
        return Ok(None);
    };
    let offset = offset.unwrap_or(0);
    let mut asked = verify::ask(&client.control, algorithm, offset, length, at.clone());
    let there = asked.digest().await?;
    if there == here {
        return Ok(Some(here));
    }
    Err(verify::mismatch(
        remote.to_string(),
        algorithm,
        &there,
        &here,
    ))
}

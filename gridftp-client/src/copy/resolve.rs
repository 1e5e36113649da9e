//! Works out what each source and the destination are, by the rules of rsync, and runs the copies.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ftp_wire::facts::{Entry, EntryKind};

use super::engine::{self, Session};
use super::job::{DirJob, Facts, FileJob, Item};
use super::shared::{Shared, Targets};
use super::{dirs, stdio};
use crate::client::Client;
use crate::error::{Class, ConnectError, TransferError};
use crate::glob;
use crate::local::{self, Found};
use crate::names;
use crate::options::CopyOptions;
use crate::progress::{Event, Observer, Totals};
use crate::url::{Location, Remote, Site, show};

/// Where everything goes.
struct Destination {
    site: Option<Site>,
    path: Vec<u8>,
    /// Whether it is a directory, or has to become one.
    dir: bool,
    /// Whether something is there.
    exists: bool,
    client: Option<Box<Client>>,
}

/// Copies all sources; the class of the failures, if there were any.
pub(crate) async fn run(
    sources: &[Location],
    destination: &Location,
    options: CopyOptions,
    observer: &Arc<dyn Observer>,
    totals: &Arc<Totals>,
) -> Result<Option<Class>, TransferError> {
    check(sources, destination, &options)?;
    if matches!(destination, Location::Stdio)
        || matches!(sources, [Location::Stdio])
        || special(sources)
    {
        return stdio::run(sources, destination, options, observer, totals).await;
    }
    let many = |source: &Location| pattern(source).is_some();
    let to_dir = sources.len() > 1 || destination.means_contents() || sources.iter().any(many);
    let mut to = look(destination, to_dir, &options, observer).await?;
    let mut worst = None;
    // One tree, or one file, has no two files for one name.
    let targets = (sources.len() > 1).then(Arc::<Targets>::default);
    for group in sources.chunk_by(|a, b| site(a) == site(b)) {
        let first = group.first().and_then(site);
        let mut client = match &first {
            Some(site) => Some(connect(site, &options, observer).await?),
            None => None,
        };
        let shared = Arc::new(Shared::new(
            options.clone(),
            Arc::clone(observer),
            Arc::clone(totals),
            first.clone(),
            to.site.clone(),
            targets.clone(),
        ));
        if to.exists && to.dir {
            shared.note_made(names::trim_slashes(&to.path));
        }
        let producer = shared.queue.producer();
        for source in group {
            if let Err(error) = add(&shared, client.as_deref_mut(), source, &to).await {
                totals.found(None);
                shared.give_up(&source.to_string(), &error);
            }
        }
        drop(producer);
        let session = match (client, to.client.take()) {
            (Some(source), Some(destination)) => Session::Third(source, destination),
            (Some(source), None) if to.site.is_none() => Session::Pull(source),
            (None, Some(destination)) => Session::Push(destination),
            _ => engine::connect(&shared).await?,
        };
        engine::run(&shared, session).await;
        dirs::settle(&shared).await;
        worst = match (worst, shared.worst()) {
            (Some(Class::Verify), _) | (_, None) => worst,
            (_, failed) => failed,
        };
    }
    Ok(worst)
}

/// Refuses what cannot make sense, before anything is connected.
fn check(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
) -> Result<(), TransferError> {
    let remote = |location: &Location| matches!(location, Location::Remote(_));
    let refuse = |what: &str| Err(TransferError::Request(what.to_owned()));
    if sources.is_empty() {
        return refuse("usage: no source; write SOURCE... DEST");
    }
    if !sources.iter().chain([destination]).any(remote) {
        return refuse(
            "usage: no server at either end; one of source and destination must be an ftp:// URL",
        );
    }
    if !remote(destination) && !sources.iter().all(remote) {
        return refuse("usage: a source without a server needs an ftp:// destination");
    }
    if sources.len() > 1 && (sources.contains(&Location::Stdio) || *destination == Location::Stdio)
    {
        return refuse("usage: standard input or output takes exactly one source");
    }
    if *destination == Location::Stdio && sources.iter().any(|source| pattern(source).is_some()) {
        return refuse("usage: standard output takes one file, not a pattern");
    }
    if options.recursive && (options.offset.is_some() || options.length.is_some()) {
        return refuse("usage: --offset and --length copy a part of a file, not of a tree");
    }
    Ok(())
}

/// Says whether the one source is a local FIFO or device, which is read like standard input.
fn special(sources: &[Location]) -> bool {
    match sources {
        [Location::Local(path)] => {
            std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
        }
        _ => false,
    }
}

fn site(location: &Location) -> Option<Site> {
    match location {
        Location::Remote(remote) => Some(remote.site.clone()),
        Location::Local(_) | Location::Stdio => None,
    }
}

pub(super) async fn connect(
    site: &Site,
    options: &CopyOptions,
    observer: &Arc<dyn Observer>,
) -> Result<Box<Client>, ConnectError> {
    let connect = Arc::new(options.connect.clone());
    let mut failures = 0;
    loop {
        match Box::pin(Client::connect_with(
            site,
            Arc::clone(&connect),
            Arc::clone(observer),
        ))
        .await
        {
            Ok(client) => return Ok(Box::new(client)),
            // Only a server that is there but busy is worth waiting for, before anything was copied.
            Err(error @ ConnectError::Busy { .. })
                if error.is_transient() && failures < options.retries =>
            {
                failures += 1;
                tokio::time::sleep(options.pause(failures)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Looks at the destination.
async fn look(
    destination: &Location,
    to_dir: bool,
    options: &CopyOptions,
    observer: &Arc<dyn Observer>,
) -> Result<Destination, TransferError> {
    match destination {
        Location::Stdio => Err(TransferError::Request(
            "usage: standard output takes one file".to_owned(),
        )),
        Location::Local(path) => {
            let meta = std::fs::metadata(path).ok();
            let is_dir = meta.as_ref().is_some_and(std::fs::Metadata::is_dir);
            let path = path.as_os_str().as_bytes().to_vec();
            not_a_directory(meta.is_some() && !is_dir && to_dir, &path)?;
            Ok(Destination {
                site: None,
                path,
                dir: to_dir || is_dir,
                exists: meta.is_some(),
                client: None,
            })
        }
        Location::Remote(Remote { site, path, .. }) => {
            let client = connect(site, options, observer).await?;
            let (exists, is_dir) = match client.stat(path).await {
                Ok((entry, _)) => (true, is_dir(entry.kind)),
                Err(error) if error.reply().is_some() => (false, false),
                Err(error) => return Err(error.into()),
            };
            not_a_directory(exists && !is_dir && to_dir, path)?;
            Ok(Destination {
                site: Some(site.clone()),
                path: path.clone(),
                dir: to_dir || is_dir,
                exists,
                client: Some(client),
            })
        }
    }
}

fn not_a_directory(wrong: bool, path: &[u8]) -> Result<(), TransferError> {
    if wrong {
        let path = show(path);
        let what =
            format!("destination: {path}: is a file, and a directory is needed; name another");
        return Err(TransferError::Request(what));
    }
    Ok(())
}

pub(super) fn is_dir(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir)
}

/// Adds one source to the work.
async fn add(
    shared: &Arc<Shared>,
    client: Option<&mut Client>,
    source: &Location,
    to: &Destination,
) -> Result<(), TransferError> {
    let contents = source.means_contents();
    match (source, client) {
        (Location::Remote(remote), Some(client)) => {
            if let Some(pattern) = &remote.pattern {
                return add_matches(shared, client, remote, pattern, to).await;
            }
            let path = names::trim_slashes(&remote.path);
            if contents || path == b"/" || path == b"~" {
                return add_dir(shared, path, true, to);
            }
            let (entry, known) = client.stat(path).await?;
            if is_dir(entry.kind) {
                return add_dir(shared, path, false, to);
            }
            add_file(shared, path, Facts::of_entry(&entry, known), to)
        }
        (Location::Local(path), _) => {
            let bytes = path.as_os_str().as_bytes();
            let meta = std::fs::metadata(path)
                .map_err(|error| TransferError::local("read", bytes, error))?;
            if meta.is_dir() {
                let here = contents || names::last(bytes) == b"." || names::last(bytes) == b"..";
                return add_tree(shared, names::trim_slashes(bytes), here, to);
            }
            if !meta.is_file() {
                return Err(TransferError::local(
                    "read",
                    bytes,
                    "neither a file nor a directory",
                ));
            }
            let item = local::Item::new(path.clone(), Vec::new(), &meta);
            add_file(shared, bytes, Facts::of_local(&item), to)
        }
        _ => Err(TransferError::Request(
            "usage: this source needs a file of its own".to_owned(),
        )),
    }
}

/// Adds what matches the wildcards of a source.
async fn add_matches(
    shared: &Arc<Shared>,
    client: &mut Client,
    remote: &Remote,
    pattern: &[u8],
    to: &Destination,
) -> Result<(), TransferError> {
    let dir = names::parent(&remote.path);
    let mut found = Vec::new();
    let take = |entry: Entry, known| {
        if glob::matches(pattern, &entry.name) {
            found.push((entry, known));
        }
    };
    client.list(dir, take).await?;
    if found.is_empty() {
        return Err(TransferError::Source {
            path: remote.to_string(),
            what: "no name there matches; in a name, write * ? and [ as %2A, %3F and %5B"
                .to_owned(),
        });
    }
    for (entry, known) in found {
        let path = names::join(dir, &entry.name);
        let added = match names::check(&entry.name) {
            Err(error) => Err(error),
            Ok(()) if is_dir(entry.kind) && shared.options.recursive => {
                add_dir(shared, &path, false, to)
            }
            Ok(()) if is_dir(entry.kind) => {
                shared.totals.skipped();
                shared.observer.event(&Event::Skipped {
                    source: &shared.describe_source(&path),
                    why: "it is a directory, and --recursive was not given",
                });
                Ok(())
            }
            Ok(()) => add_file(shared, &path, Facts::of_entry(&entry, known), to),
        };
        if let Err(error) = added {
            shared.totals.found(None);
            shared.give_up(&shared.describe_source(&path), &error);
        }
    }
    Ok(())
}

fn pattern(location: &Location) -> Option<&[u8]> {
    match location {
        Location::Remote(remote) => remote.pattern.as_deref(),
        Location::Local(_) | Location::Stdio => None,
    }
}

fn add_file(
    shared: &Shared,
    from: &[u8],
    facts: Facts,
    to: &Destination,
) -> Result<(), TransferError> {
    let target = if to.dir {
        let name = names::last(from);
        names::check(name)?;
        names::join(&to.path, name)
    } else {
        to.path.clone()
    };
    shared.found(FileJob::new(from.to_vec(), target).with_facts(facts));
    Ok(())
}

/// The directory that a directory is copied to.
fn target(
    shared: &Shared,
    from: &[u8],
    contents: bool,
    to: &Destination,
) -> Result<Vec<u8>, TransferError> {
    if !shared.options.recursive {
        let what = format!(
            "source: {}: is a directory; add --recursive to copy it",
            show(from)
        );
        return Err(TransferError::Request(what));
    }
    not_a_directory(to.exists && !to.dir, &to.path)?;
    let base = names::trim_slashes(&to.path);
    if contents {
        return Ok(base.to_vec());
    }
    let name = names::last(from);
    names::check(name)?;
    Ok(names::join(base, name))
}

fn add_dir(
    shared: &Shared,
    from: &[u8],
    contents: bool,
    to: &Destination,
) -> Result<(), TransferError> {
    let target = target(shared, from, contents, to)?;
    shared
        .queue
        .push(Item::Dir(Box::new(DirJob::new(from.to_vec(), target))));
    Ok(())
}

/// Walks a local tree into the queue, as fast as the queue is emptied.
fn add_tree(
    shared: &Arc<Shared>,
    from: &[u8],
    contents: bool,
    to: &Destination,
) -> Result<(), TransferError> {
    let target = target(shared, from, contents, to)?;
    let shared = Arc::clone(shared);
    let producer = shared.queue.producer();
    let mut walk = local::walk(Path::new(OsStr::from_bytes(from)).to_owned());
    tokio::spawn(async move {
        while let Some(found) = walk.recv().await {
            shared.queue.room().await;
            match found {
                Found::Dir(item) => {
                    let facts = Facts::of_local(&item);
                    let from = item.path.as_os_str().as_bytes().to_vec();
                    let job = DirJob::new(from, names::join(&target, &item.relative));
                    shared
                        .queue
                        .push(Item::Dir(Box::new(DirJob { facts, ..job })));
                }
                Found::File(item) => {
                    let from = item.path.as_os_str().as_bytes().to_vec();
                    let job = FileJob::new(from, names::join(&target, &item.relative));
                    shared.found(job.with_facts(Facts::of_local(&item)));
                }
                Found::Special(path) => {
                    let name = path.as_os_str().as_bytes();
                    let error =
                        TransferError::local("read", name, "neither a file nor a directory");
                    shared.totals.found(None);
                    shared.give_up(&show(name), &error);
                }
                Found::Error(path, error) => {
                    shared.totals.found(None);
                    shared.give_up(&show(path.as_os_str().as_bytes()), &error);
                }
            }
        }
        drop(producer);
    });
    Ok(())
}

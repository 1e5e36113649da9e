//! Resolves the sources and the destination by the rules of rsync, and runs the copies.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use ftp_wire::facts::EntryKind;

use super::done_record::DoneRecord;
use super::engine::{self, Session, connect_to};
use super::job::{DirJob, Facts, Item};
use super::roots::{Root, add_chosen, list_tree, walk_tree};
use super::same::{Ancestry, Kin, Object};
use super::source_roots::SourceRoots;
use super::state::CopyState;
use super::targets::Targets;
use super::{MAY_NOT_SYNC, NO_HOLES, dirs, links, named, pull, stdio, surplus, web};
use crate::client::Client;
use crate::error::{Class, ControlError, TransferError};
use crate::local;
use crate::names;
use crate::options::CopyOptions;
use crate::progress::{Event, Observer, Totals};
use crate::url::{Location, Remote, Site, show, url_path};

/// Where everything goes.
pub(super) struct Destination {
    site: Option<Site>,
    pub(super) path: Vec<u8>,
    /// Whether it is a directory, or has to become one.
    pub(super) dir: bool,
    /// Whether something is there.
    exists: bool,
    client: Option<Box<Client>>,
    /// Its relation to the sources at hand.
    kin: Kin,
}

/// Copies all sources but the files that are in the record; the class of the failures, if any.
pub(crate) async fn run(
    sources: &[Location],
    destination: &Location,
    (mut options, done): (CopyOptions, Option<Arc<DoneRecord>>),
    observer: &Arc<dyn Observer>,
    totals: &Arc<Totals>,
) -> Result<Option<Class>, TransferError> {
    web::check(sources, destination, &options)?;
    check(sources, destination, &options)?;
    let in_order = sources.first() == Some(&Location::Stdio) || special(sources);
    if in_order && matches!(destination, Location::Local(_)) {
        options.retries = 0;
    }
    if in_order || *destination == Location::Stdio {
        return Box::pin(stdio::run(sources, destination, options, observer, totals)).await;
    }
    let many = sources.len() > 1 || sources.iter().any(|source| pattern(source).is_some());
    let names = options.choice.names.is_some();
    let to_dir = many || names || destination.means_contents();
    let mut to = look(destination, to_dir, &options, observer).await?;
    if let (Some(done), Some(server)) = (&done, &to.client) {
        done.note_server(&server.abilities);
    }
    let (mut worst, mut roots, planned_dirs) = (None, Vec::new(), Arc::default());
    // One tree, or one file, has no two files for one name.
    let targets =
        (sources.len() > 1 || names || options.manner.delete).then(Arc::<Targets>::default);
    let sources_here = SourceRoots::of(sources, &options).await;
    let mut groups = sources.chunk_by(|a, b| site(a) == site(b)).peekable();
    while let Some(group) = groups.next() {
        let (first, mut client) = (group.first().and_then(site), None);
        let is_web = first.as_ref().is_some_and(|site| site.scheme.is_web());
        // Web servers have no sessions.
        let source = first.as_ref().filter(|_| !is_web);
        for (site, client) in [(source, &mut client), (to.site.as_ref(), &mut to.client)] {
            if let (Some(site), None) = (site, &client) {
                *client = Some(connect_to(site, &options, observer).await?);
            }
        }
        to.kin = match is_web {
            true => Kin::Apart,
            false => Kin::of(
                client.as_deref().zip(first.as_ref()),
                to.client.as_deref().zip(to.site.as_ref()),
            ),
        };
        let mut shared = CopyState::new(
            options.clone(),
            Arc::clone(observer),
            Arc::clone(totals),
            first.clone(),
            to.site.clone(),
            targets.clone(),
        );
        shared.root = names::trim_slashes(&to.path).to_vec();
        shared.roots = Arc::clone(&sources_here);
        shared.done.clone_from(&done);
        shared.planned_dirs = Arc::clone(&planned_dirs);
        shared.check_backup_dir(to.dir).await?;
        let shared = Arc::new(shared);
        if to.exists && to.dir {
            shared.note_made(names::trim_slashes(&to.path));
        }
        if let Some(client) = &client {
            shared.warn_of_links(client);
        }
        add_group(&shared, client.as_deref(), group, &to).await;
        let session = Session::of(&shared, client, to.client.take()).of_copy(&shared)?;
        engine::run(&shared, session, groups.peek().is_none()).await;
        let is_last = groups.peek().is_none();
        finish(&shared, destination, &mut roots, is_last && worst.is_none()).await;
        if worst != Some(Class::Verify) {
            worst = shared.worst().or(worst);
        }
        if shared.stopped.is_cancelled() {
            break;
        }
        shared.end_stack();
    }
    Ok(worst)
}

/// Queues the files of a group of sources at one place.
async fn add_group(
    shared: &Arc<CopyState>,
    client: Option<&Client>,
    group: &[Location],
    to: &Destination,
) {
    let _producer = shared.queue.producer();
    for source in group {
        let added = match &shared.options.choice.names {
            Some(names) => named::add(shared, client, source, names, to).await,
            None => add(shared, client, source, to).await,
        };
        if let Err(error) = added {
            let names = shared.options.choice.names.is_some() || pattern(source).is_some();
            let name: &[u8] = match names || source.means_contents() {
                true => b"",
                false => last(source),
            };
            shared.give_up_found(&source.to_string(), name, &error);
        }
        if shared.stopped.is_cancelled() {
            break;
        }
    }
}

/// Does what follows on the files: makes links, removes names where that is wanted, and what is kept
/// of old copies, both if `may_remove` says so, and gives directories their times.
async fn finish(
    shared: &Arc<CopyState>,
    destination: &Location,
    roots: &mut Vec<Vec<u8>>,
    may_remove: bool,
) {
    Box::pin(links::settle(shared)).await;
    roots.extend(shared.take_roots());
    if shared.options.manner.delete && may_remove && shared.worst().is_none() {
        let removed = surplus::remove(shared, std::mem::take(roots));
        if let Err(error) = Box::pin(removed).await {
            shared.give_up_found(&destination.to_string(), b"", &error);
        }
    }
    dirs::settle(shared).await;
    // The next run goes on with what is kept of files that failed or were not reached.
    if may_remove && shared.worst().is_none() && !shared.stopped.is_cancelled() {
        match shared.destination {
            None => pull::sweep(shared).await,
            Some(_) => {
                shared.sweep_uploads().await;
                Box::pin(engine::clean(shared)).await;
            }
        }
    }
}

/// Refuses requests that make no sense, before anything is connected.
fn check(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
) -> Result<(), TransferError> {
    let refuse = |what, remedy| Err(TransferError::request(format!("usage: {what}"), remedy));
    if sources.is_empty() {
        return refuse("no source", "write SOURCE... DEST");
    }
    let has_stdio = sources.contains(&Location::Stdio) || *destination == Location::Stdio;
    if *destination == Location::Stdio && sources.contains(&Location::Stdio) {
        let what = "standard input is the source, and standard output the destination";
        return refuse(what, "name a file or a URL at one end");
    }
    if sources.len() > 1 && has_stdio {
        return refuse("standard input or output takes exactly one source", "");
    }
    if *destination == Location::Stdio && sources.iter().any(|source| pattern(source).is_some()) {
        return refuse("standard output takes one file, not a pattern", "");
    }
    let is_directory = |source: &Location| pattern(source).is_none() && *source != Location::Stdio;
    if options.choice.names.is_some() && (sources.len() > 1 || !sources.iter().all(is_directory)) {
        return refuse("the names of --files-from are of one source directory", "");
    }
    let trees = options.recursive && options.choice.names.is_none();
    if options.manner.delete && !(trees && sources.len() == 1 && sources.iter().all(is_directory)) {
        let what = "--delete compares a whole directory with its source";
        return refuse(
            what,
            "name one source directory, with --recursive and without wildcards",
        );
    }
    if options.recursive && (options.offset.is_some() || options.length.is_some()) {
        let what = "--offset and --length copy a part of a file, not of a tree";
        return refuse(what, "");
    }
    if !options.manner.is_plain() {
        return refuse(
            "--backup-dir: no name of a directory without . and ..",
            "name a directory of the destination's end",
        );
    }
    let in_part = options.offset.is_some() || options.length.is_some();
    if options.manner.looks() && (has_stdio || in_part) {
        let what = "files that are there already are compared with whole files, and not with parts \
                    of them or standard input";
        return refuse(what, "leave out --sync and the like");
    }
    Ok(())
}

/// Says whether the one source is a local FIFO or device, or a file that tells its size only when
/// it is read: it is read like standard input.
fn special(sources: &[Location]) -> bool {
    let [Location::Local(path)] = sources else {
        return false;
    };
    std::fs::metadata(path).is_ok_and(|meta| match meta.is_file() {
        true => meta.len() == 0 && local::holds_something(path).unwrap_or(false),
        false => !meta.is_dir(),
    })
}

pub(super) fn site(location: &Location) -> Option<Site> {
    match location {
        Location::Remote(remote) => Some(remote.site.clone()),
        Location::Local(_) | Location::Stdio => None,
    }
}

/// Looks at the destination.
async fn look(
    destination: &Location,
    to_dir: bool,
    options: &CopyOptions,
    observer: &Arc<dyn Observer>,
) -> Result<Destination, TransferError> {
    let (site, path, client, there) = match destination {
        Location::Stdio => {
            let what = "usage: standard output takes one file";
            return Err(TransferError::request(what, ""));
        }
        Location::Local(path) => {
            let there = std::fs::metadata(path).ok().map(|meta| meta.is_dir());
            (None, path.as_os_str().as_bytes().to_vec(), None, there)
        }
        Location::Remote(Remote { site, path, .. }) => {
            let client = connect_to(site, options, observer).await?;
            if options.syncs() && !client.abilities.durable {
                observer.event(&Event::Warning(MAY_NOT_SYNC));
            }
            if options.sparse {
                observer.event(&Event::Warning(NO_HOLES));
            }
            let there = match client.stat(path).await {
                Ok((entry, _)) => Some(is_dir(entry.kind)),
                Err(error) if error.reply().is_some() => None,
                Err(error) => return Err(error.into()),
            };
            (Some(site.clone()), path.clone(), Some(client), there)
        }
    };
    not_a_directory(there == Some(false) && to_dir, &path)?;
    Ok(Destination {
        site,
        path,
        dir: to_dir || there == Some(true),
        exists: there.is_some(),
        client,
        kin: Kin::Apart,
    })
}

fn not_a_directory(wrong: bool, path: &[u8]) -> Result<(), TransferError> {
    if wrong {
        let path = show(path);
        let what = format!("destination: {path}: is a file, and a directory is needed");
        return Err(TransferError::request(what, "name another"));
    }
    Ok(())
}

pub(super) fn is_dir(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir)
}

/// Adds one source to the work.
async fn add(
    shared: &Arc<CopyState>,
    client: Option<&Client>,
    source: &Location,
    to: &Destination,
) -> Result<(), TransferError> {
    match (source, client) {
        (Location::Remote(remote), _) if shared.is_of_web() => web::add(shared, remote, to).await,
        (Location::Remote(remote), Some(client)) => match &remote.pattern {
            Some(pattern) => add_matches(shared, client, remote, pattern, to).await,
            None => add_remote(shared, client, remote, source.means_contents(), to).await,
        },
        (Location::Local(path), _) => {
            let bytes = path.as_os_str().as_bytes();
            let meta = std::fs::metadata(path)
                .map_err(|error| TransferError::local("read", bytes, error))?;
            let object = Object::of_local(path, &meta);
            if meta.is_dir() {
                let contents = source.means_contents();
                let here = contents || names::last(bytes) == b"." || names::last(bytes) == b"..";
                let root = tree(shared, names::trim_slashes(bytes), here, &object, to)?;
                return walk_tree(shared, root, to).await;
            }
            if !meta.is_file() {
                return Err(TransferError::local(
                    "read",
                    bytes,
                    "neither a file nor a directory",
                ));
            }
            let item = local::Item::new(path.clone(), Vec::new(), &meta);
            add_file(shared, bytes, Facts::of_local(&item), &object, to).await
        }
        _ => {
            let what = "usage: this source needs a file of its own";
            Err(TransferError::request(what, ""))
        }
    }
}

async fn add_remote(
    shared: &Arc<CopyState>,
    client: &Client,
    remote: &Remote,
    contents: bool,
    to: &Destination,
) -> Result<(), TransferError> {
    let path = names::trim_slashes(&remote.path);
    let contents = contents || path == b"/" || path == b"~";
    let (entry, known) = match client.stat(path).await {
        Ok(told) => told,
        // Not all servers tell of objects that they list.
        Err(error @ ControlError::Refused { .. }) if contents && !error.is_not_found() => {
            let object = Object::named(path);
            return list_tree(shared, tree(shared, path, true, &object, to)?, to).await;
        }
        Err(error) => return Err(error.into()),
    };
    let object = Object::of_entry(path, &entry, known);
    if is_dir(entry.kind) {
        let root = tree(shared, path, contents, &object, to)?;
        return list_tree(shared, root, to).await;
    }
    if contents {
        let what = format!("source: {remote}: is a file");
        return Err(TransferError::request(
            what,
            "name it without the / at its end",
        ));
    }
    add_file(shared, path, Facts::of_entry(&entry, known), &object, to).await
}

/// Adds the objects that match the wildcards of a source.
async fn add_matches(
    shared: &Arc<CopyState>,
    client: &Client,
    remote: &Remote,
    pattern: &[u8],
    to: &Destination,
) -> Result<(), TransferError> {
    let dir = names::parent(&remote.path);
    let object = match client.stat(dir).await {
        Ok((entry, known)) => Object::of_entry(dir, &entry, known),
        Err(error @ ControlError::Lost { .. }) => return Err(error.into()),
        Err(_) => Object::named(dir),
    };
    let avoid = to.refuse(shared, &object, &to.path, dir, false).await?;
    let job = DirJob {
        avoid,
        pattern: Some(pattern.to_vec()),
        ..DirJob::new(dir.to_vec(), names::trim_slashes(&to.path).to_vec())
    };
    shared.queue.push(Item::Dir(Box::new(job)));
    Ok(())
}

impl Destination {
    /// Refuses a source that is its own `target`, or a tree that this lies in; gives the directory
    /// that must not be entered.
    pub(super) async fn refuse(
        &self,
        shared: &CopyState,
        source: &Object,
        target: &[u8],
        from: &[u8],
        tree: bool,
    ) -> Result<Option<(u64, u64)>, TransferError> {
        if self.kin == Kin::Apart {
            return Ok(None);
        }
        if shared.options.manner.delete && tree && shared.lies_in(from, target).await {
            let source = shared.describe_source(from);
            let what = "it lies in the destination, where --delete would remove it";
            return Err(TransferError::source(source, what, "copy it elsewhere"));
        }
        let ancestry = Ancestry::at(target, tree, self.client.as_deref()).await?;
        ancestry.refuse(source, tree, self.kin, &shared.describe_source(from))
    }
}

/// The last component of a source.
fn last(location: &Location) -> &[u8] {
    match location {
        Location::Remote(remote) if remote.site.scheme.is_web() => {
            names::last(url_path(&remote.path))
        }
        Location::Remote(remote) => names::last(&remote.path),
        Location::Local(path) => names::last(path.as_os_str().as_bytes()),
        Location::Stdio => b"",
    }
}

fn pattern(location: &Location) -> Option<&[u8]> {
    match location {
        Location::Remote(remote) => remote.pattern.as_deref(),
        Location::Local(_) | Location::Stdio => None,
    }
}

async fn add_file(
    shared: &CopyState,
    from: &[u8],
    facts: Facts,
    object: &Object,
    to: &Destination,
) -> Result<(), TransferError> {
    let target = if to.dir {
        let name = names::last(from);
        names::check_component(name)?;
        names::join(&to.path, name)
    } else {
        to.path.clone()
    };
    let relative = names::last(from);
    let root = Root {
        from,
        relative,
        target,
        object,
    };
    add_chosen(shared, root, facts, to).await
}

/// A directory, and the one that it is copied to.
fn tree<'a>(
    shared: &CopyState,
    from: &'a [u8],
    contents: bool,
    object: &'a Object,
    to: &Destination,
) -> Result<Root<'a>, TransferError> {
    if !shared.options.recursive {
        let from = shared.describe_source(from);
        let what = format!("source: {from}: is a directory");
        return Err(TransferError::request(what, "add --recursive to copy it"));
    }
    not_a_directory(to.exists && !to.dir, &to.path)?;
    let base = names::trim_slashes(&to.path);
    let target = if contents {
        base.to_vec()
    } else {
        let name = names::last(from);
        names::check_component(name)?;
        names::join(base, name)
    };
    let relative = b"";
    Ok(Root {
        from,
        relative,
        target,
        object,
    })
}

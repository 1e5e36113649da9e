//! The sources that a list names, below one directory.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use ftp_wire::command::Command;

use super::job::Facts;
use super::listing::looped;
use super::resolve::{Destination, is_dir};
use super::roots::{Root, add_chosen, list_tree, walk_tree};
use super::same::{Object, Unique};
use super::state::CopyState;
use super::window::COMMANDS;
use crate::client::{Client, parse_mlst};
use crate::error::{ControlError, TransferError};
use crate::filter::Verdict;
use crate::local;
use crate::names;
use crate::options::Links;
use crate::url::{Location, show};

/// Adds the objects in the directory `source` that have one of `listed` as their path there.
pub(super) async fn add(
    shared: &Arc<CopyState>,
    client: Option<&Client>,
    source: &Location,
    listed: &[Vec<u8>],
    to: &Destination,
) -> Result<(), TransferError> {
    let mut seen = HashSet::new();
    let mut relatives = Vec::new();
    for name in listed {
        match relative(name) {
            Ok(relative) if seen.insert(relative.clone()) => relatives.push(relative),
            Ok(_) => {}
            Err(error) => shared.give_up_found(&show(name), name, &error),
        }
    }
    match (source, client) {
        (Location::Remote(remote), Some(client)) => {
            let dir = names::trim_slashes(&remote.path);
            add_remote(shared, client, dir, &relatives, to).await
        }
        (Location::Local(dir), _) => {
            let dir = names::trim_slashes(dir.as_os_str().as_bytes());
            for relative in &relatives {
                let path = names::join(dir, relative);
                if let Err(error) = add_local(shared, &path, relative, to).await {
                    shared.give_up_found(&show(&path), relative, &error);
                }
            }
            Ok(())
        }
        _ => {
            let what = "usage: the names of --files-from are of a directory";
            Err(TransferError::request(what, ""))
        }
    }
}

/// Reads a name of the list as a path that does not leave the directory. It may have a line end,
/// which commands refuse, as names on this machine do.
fn relative(name: &[u8]) -> Result<Vec<u8>, TransferError> {
    let mut path = Vec::new();
    for component in name.split(|b| *b == b'/') {
        if !matches!(component, b"" | b".") {
            names::check_component(component)?;
            path = names::join(&path, component);
        }
    }
    names::check_component(names::last(&path)).map(|()| path)
}

async fn add_local(
    shared: &Arc<CopyState>,
    from: &[u8],
    relative: &[u8],
    to: &Destination,
) -> Result<(), TransferError> {
    let path = Path::new(OsStr::from_bytes(from));
    let follows = shared.options.links == Links::Follow;
    if let (false, Ok(target)) = (follows, std::fs::read_link(path)) {
        let target = target.into_os_string().into_vec();
        shared.named_link((from, relative), Some(target), to);
        return Ok(());
    }
    let meta = std::fs::metadata(path);
    let meta = meta.map_err(|error| TransferError::local("read", from, error))?;
    let object = Object::of_local(path, &meta);
    let root = root(shared, (from, relative), &object, meta.is_dir(), to)?;
    let Some(root) = root else {
        return Ok(());
    };
    if meta.is_dir() {
        let levels = relative.split(|b| *b == b'/').count();
        if leads_back(path, levels, &object) {
            return Err(looped(from));
        }
        return walk_tree(shared, root, to).await;
    }
    if !meta.is_file() {
        let what = "neither a file nor a directory";
        return Err(TransferError::local("read", from, what));
    }
    let item = local::Item::new(path.to_owned(), Vec::new(), &meta);
    add_chosen(shared, root, Facts::of_local(&item), to).await
}

/// Says whether a directory of this machine is one of those it is in, so many levels up.
fn leads_back(path: &Path, levels: usize, object: &Object) -> bool {
    let is_same = |above: &Path| {
        let above = match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        };
        let meta = std::fs::metadata(above);
        meta.is_ok_and(|meta| Object::of_local(above, &meta).unique() == object.unique())
    };
    path.ancestors().skip(1).take(levels).any(is_same)
}

/// The directories of a server that named ones are in, each asked for once.
struct Parents<'a> {
    client: &'a Client,
    dir: &'a [u8],
    known: HashMap<Vec<u8>, Option<Unique>>,
}

impl Parents<'_> {
    /// Says whether the directory `relative` is one of those it is in.
    async fn has(&mut self, relative: &[u8], object: &Object) -> Result<bool, ControlError> {
        let Some(unique) = object.unique() else {
            return Ok(false);
        };
        let mut at = relative;
        while !at.is_empty() {
            at = names::parent(at);
            let above = match self.known.get(at) {
                Some(above) => *above,
                None => {
                    let above = self.ask(at).await?;
                    self.known.insert(at.to_vec(), above);
                    above
                }
            };
            if above == Some(unique) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn ask(&self, relative: &[u8]) -> Result<Option<Unique>, ControlError> {
        let path = names::join(self.dir, relative);
        let Some(wire) = self.client.control.path(&path) else {
            return Ok(None);
        };
        let mut look = self.client.control.send(Command::Mlst(Some(wire)));
        let told = look.told().await?;
        let told = told.as_ref().and_then(parse_mlst);
        Ok(told.and_then(|(entry, known)| Object::of_entry(&path, &entry, known).unique()))
    }
}

/// Adds objects of a server, which is asked for the facts of many at once.
async fn add_remote(
    shared: &Arc<CopyState>,
    client: &Client,
    dir: &[u8],
    relatives: &[Vec<u8>],
    to: &Destination,
) -> Result<(), TransferError> {
    let mut parents = Parents {
        client,
        dir,
        known: HashMap::new(),
    };
    for some in relatives.chunks(COMMANDS) {
        let mut sent = Vec::with_capacity(some.len());
        for relative in some {
            let from = names::join(dir, relative);
            let wire = client.control.path(&from);
            let look = wire.map(|path| client.control.send(Command::Mlst(Some(path))));
            sent.push((from, relative, look));
        }
        for (from, relative, look) in sent {
            let added = async {
                let told = match look {
                    Some(mut look) => look.told().await?,
                    None => return Err(TransferError::unsendable(&from)),
                };
                let (entry, known) = match told.as_ref().and_then(parse_mlst) {
                    Some(told) => told,
                    // It has another way to tell, or the reason.
                    None => client.stat(&from).await?,
                };
                if shared.is_link(&entry) {
                    shared.named_link((&from, relative), entry.target, to);
                    return Ok(());
                }
                let object = Object::of_entry(&from, &entry, known);
                let is_dir = is_dir(entry.kind);
                match root(shared, (&from, relative), &object, is_dir, to)? {
                    Some(_) if is_dir && parents.has(relative, &object).await? => {
                        Err(looped(&from))
                    }
                    Some(root) if is_dir => list_tree(shared, root, to).await,
                    Some(root) => {
                        add_chosen(shared, root, Facts::of_entry(&entry, known), to).await
                    }
                    None => Ok(()),
                }
            };
            match added.await {
                Ok(()) => {}
                Err(error) if error.is_gone() => return Err(error),
                Err(error) => {
                    shared.give_up_found(&shared.describe_source(&from), relative, &error);
                }
            }
        }
    }
    Ok(())
}

/// The place of an object in the copy; `None` for a directory that is left out.
fn root<'a>(
    shared: &CopyState,
    (from, relative): (&'a [u8], &'a [u8]),
    object: &'a Object,
    is_dir: bool,
    to: &Destination,
) -> Result<Option<Root<'a>>, TransferError> {
    if is_dir && !shared.options.recursive {
        let from = shared.describe_source(from);
        let what = format!("source: {from}: is a directory");
        return Err(TransferError::request(what, "add --recursive to copy it"));
    }
    if is_dir && shared.options.choice.dir(relative) == Verdict::Leave {
        return Ok(None);
    }
    Ok(Some(Root {
        from,
        relative,
        target: names::join(names::trim_slashes(&to.path), relative),
        object,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_directory() {
        for (name, path) in [
            ("a", "a"),
            ("/a/b/", "a/b"),
            ("./a//b", "a/b"),
            ("a\nb\r", "a\nb\r"),
        ] {
            assert_eq!(relative(name.as_bytes()).unwrap(), path.as_bytes());
        }
        for bad in ["", "/", ".", "..", "a/../../b", "a\0b"] {
            assert!(relative(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}

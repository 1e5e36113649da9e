//! `SourceRoots`: the sources on this machine, into which a copy to this machine never writes.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::known::Known;
use super::pull::local;
use super::same::{Unique, normal};
use super::state::CopyState;
use super::surplus::is_below;
use super::{blocking, lock};
use crate::error::TransferError;
use crate::names;
use crate::options::{CopyOptions, Links};
use crate::url::{Location, Site};

/// The files and directories that a run was told to copy, by device and inode: a link or a bind
/// mount at the destination may lead into them.
#[derive(Debug, Default)]
pub(super) struct SourceRoots {
    objects: HashSet<Unique>,
    /// Directories that are in none of them.
    outside: Mutex<Known>,
}

impl SourceRoots {
    /// Looks at the `sources` on this machine, or at the objects that the options name in one.
    pub(super) async fn of(sources: &[Location], options: &CopyOptions) -> Arc<Self> {
        let mut paths = Vec::new();
        for source in sources {
            match (source, &options.choice.names) {
                (Location::Local(path), None) => paths.push(path.clone()),
                (Location::Local(dir), Some(names)) => paths.extend(names.iter().map(|name| {
                    let path = names::join(dir.as_os_str().as_bytes(), name);
                    PathBuf::from(OsStr::from_bytes(&path))
                })),
                _ => {}
            }
        }
        let follows = options.choice.names.is_none() || options.links == Links::Follow;
        let look = move || {
            let mut objects = HashSet::new();
            for path in paths {
                objects.extend(unique(path.symlink_metadata()));
                objects.extend(unique(path.metadata()).filter(|_| follows));
            }
            Ok(objects)
        };
        Arc::new(Self {
            // A source that cannot be looked at cannot be copied either.
            objects: blocking(look).await.unwrap_or_default(),
            outside: Mutex::default(),
        })
    }

    /// Says whether `path` is one of them or in one; where it is a link, that is said of its target
    /// as well if the write `follows` it.
    fn hold(&self, path: &Path, follows: bool) -> bool {
        let meta = match follows {
            true => path.metadata(),
            false => path.symlink_metadata(),
        };
        if unique(meta).is_some_and(|object| self.objects.contains(&object)) {
            return true;
        }
        let target = match follows {
            true => target(path),
            false => None,
        };
        [Some(path), target.as_deref()]
            .into_iter()
            .flatten()
            .filter_map(Path::parent)
            .any(|dir| self.hold_dir(dir))
    }

    /// Says whether a directory is one of them or in one; of a directory that is still to be made,
    /// the nearest one above it.
    fn hold_dir(&self, dir: &Path) -> bool {
        let name = dir.as_os_str().as_bytes();
        if lock(&self.outside).contains(name) {
            return false;
        }
        let mut is_there = true;
        let real = dir.ancestors().find_map(|at| {
            let real = nonempty(at).canonicalize().ok();
            is_there &= real.is_some();
            real
        });
        let holds = real.iter().flat_map(|real| real.ancestors()).any(|above| {
            unique(above.metadata()).is_some_and(|object| self.objects.contains(&object))
        });
        if is_there && !holds {
            lock(&self.outside).insert(name);
        }
        holds
    }
}

fn unique(meta: io::Result<Metadata>) -> Option<Unique> {
    meta.ok().map(|meta| (meta.dev(), meta.ino()))
}

/// The device of the nearest directory that is there, among `path` and those above it.
fn device(path: &Path) -> Option<u64> {
    let mut dirs = path.ancestors().map(nonempty);
    dirs.find_map(|dir| dir.metadata().ok())
        .map(|meta| meta.dev())
}

/// The path that a link leads to, which need not be there.
fn target(link: &Path) -> Option<PathBuf> {
    let text = link.read_link().ok()?;
    let real = link.canonicalize();
    Some(real.unwrap_or_else(|_| link.parent().unwrap_or(link).join(text)))
}

/// The rest of the absolute path `dir` below the directory `root`, where it leads there; empty for
/// `root` itself.
fn inside(root: &Path, dir: &Path) -> Option<PathBuf> {
    let root = nonempty(root);
    let roots = [std::path::absolute(root).ok(), root.canonicalize().ok()];
    // It need not be there itself.
    let real = dir.ancestors().find_map(|at| {
        let rest = dir.strip_prefix(at).ok()?;
        Some(at.canonicalize().ok()?.join(rest))
    });
    let dirs = [Some(dir.to_owned()), real];
    let mut pairs = dirs
        .iter()
        .flatten()
        .flat_map(|dir| roots.iter().flatten().map(move |root| (dir, root)));
    pairs.find_map(|(dir, root)| Some(dir.strip_prefix(root).ok()?.to_owned()))
}

/// The error of a directory for replaced files that is the one they are in.
pub(super) fn backup_in_place() -> TransferError {
    let what = "--backup-dir: it is the directory of the destination itself";
    TransferError::request(what, "name another one")
}

fn nonempty(path: &Path) -> &Path {
    match path == Path::new("") {
        true => Path::new("."),
        false => path,
    }
}

impl CopyState {
    /// Refuses to replace, move or remove the object at `path` of the destination where that is, or
    /// lies in, a source on this machine; a link at `path` counts as its target if the write
    /// `follows` it.
    pub(super) async fn spare_sources(
        &self,
        path: &[u8],
        follows: bool,
    ) -> Result<(), TransferError> {
        if self.destination.is_some() || self.roots.objects.is_empty() {
            return Ok(());
        }
        let (roots, at) = (Arc::clone(&self.roots), local(path).to_owned());
        let looked = blocking(move || Ok(roots.hold(&at, follows))).await;
        match looked.map_err(|error| TransferError::local("look at", path, error))? {
            true => {
                let path = self.describe_destination(path);
                let what = "it leads into a source of this copy, which would be changed";
                Err(TransferError::source(
                    path,
                    what,
                    "name another destination",
                ))
            }
            false => Ok(()),
        }
    }

    /// Refuses a directory for replaced files that is the destination itself or a source, or lies in
    /// one, or is on another file system than the destination: files are renamed into it, which
    /// replaces nothing by halves. Paths are compared by their bytes: double slashes of its name
    /// become one, and one in the destination on this machine is named from there afterwards.
    pub(super) async fn check_backup_dir(&mut self, is_dir: bool) -> Result<(), TransferError> {
        if let Some(dir) = &mut self.options.manner.backup_dir {
            dir.dedup_by(|next, before| *next == b'/' && *before == b'/');
        }
        let root = match is_dir {
            true => self.root.clone(),
            false => names::parent(&self.root).to_vec(),
        };
        let Some(mut dir) = self.backup_dir(&root) else {
            return Ok(());
        };
        if self.destination.is_none() && dir.starts_with(b"/") {
            let [at, named] = [&root, &dir].map(|path| local(path).to_owned());
            let below = blocking(move || Ok(inside(&at, &named))).await;
            let below = below.map_err(|error| TransferError::local("look at", &dir, error))?;
            if let Some(below) = below {
                let below = below.into_os_string().into_encoded_bytes();
                if below.is_empty() {
                    return Err(backup_in_place());
                }
                dir = names::join(&root, &below);
                self.options.manner.backup_dir = Some(below);
            }
        }
        self.spare_sources(&dir, true).await?;
        if self.destination.is_some() {
            return Ok(());
        }
        let [from, to] = [&root, &dir].map(|path| local(path).to_owned());
        let look = move || {
            let root = unique(nonempty(&from).metadata());
            // A link may lead to the destination.
            let is_root = root.is_some() && root == unique(to.metadata());
            Ok((is_root, device(&from) == device(&to)))
        };
        let looked = blocking(look).await;
        match looked.map_err(|error| TransferError::local("look at", &dir, error))? {
            (true, _) => Err(backup_in_place()),
            (false, true) => Ok(()),
            (false, false) => Err(self.on_another_device(&dir)),
        }
    }

    /// The error of the directory for replaced files that no file of the destination can be renamed
    /// into.
    pub(super) fn on_another_device(&self, dir: &[u8]) -> TransferError {
        let dir = self.describe_destination(dir);
        let what = format!("--backup-dir: {dir} is on another file system than the destination");
        TransferError::request(what, "name a directory on that one")
    }

    /// Says whether the source directory `from` lies in the directory `target`, on one server or one
    /// machine.
    pub(super) async fn lies_in(&self, from: &[u8], target: &[u8]) -> bool {
        if self.is_local() {
            let [from, target] = [from, target].map(|path| local(path).to_owned());
            let lies = move || {
                let (real, target) = (from.canonicalize()?, unique(target.metadata()));
                let mut above = real.ancestors().skip(1);
                Ok(target.is_some() && above.any(|above| unique(above.metadata()) == target))
            };
            // A source that is not there is told by its walk.
            return blocking(lies).await.unwrap_or_default();
        }
        let whole = async |site: &Option<Site>, path: &[u8]| match site {
            Some(_) => normal(path),
            None => {
                let path = local(path).to_owned();
                let real =
                    blocking(move || path.canonicalize().or_else(|_| std::path::absolute(path)));
                normal(real.await.unwrap_or_default().as_os_str().as_bytes())
            }
        };
        let from = whole(&self.source, from).await;
        let target = whole(&self.destination, target).await;
        from != target && is_below(&from, &target)
    }
}

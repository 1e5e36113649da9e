//! Looks at the destination of a file, by whose object a copy goes on, ends, or moves that aside.

use std::io;
use std::path::Path;

use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;

use super::digests::padded;
use super::facts_query::FactsQuery;
use super::inventory::{Inventory, Told};
use super::job::{Facts, FileJob};
use super::known::Known;
use super::making::make_parents;
use super::pull::local;
use super::queue::Taken;
use super::same::must_differ;
use super::source_roots::backup_in_place;
use super::state::CopyState;
use super::surplus::is_below;
use crate::abilities::Abilities;
use crate::client::parse_mlst;
use crate::control::Control;
use crate::error::{ControlError, TransferError};
use crate::manner::{Decision, Target};
use crate::names;
use crate::options::Links;
use crate::verify;

/// A session with a server, and its features.
pub(crate) type Server<'a> = (&'a Control, &'a Abilities);

/// Both ends of a file; one without a server is on this machine, or a source on the web.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) source: Option<Server<'a>>,
    pub(crate) destination: Option<Server<'a>>,
}

impl CopyState {
    /// Decides by the object at its destination whether a file is copied, and ends its job
    /// otherwise; an object that is replaced moves to the directory for that first.
    pub(crate) async fn judge(&self, mut taken: Taken, ends: Ends<'_>) -> Option<Taken> {
        let manner = &self.options.manner;
        let job = taken.file_mut();
        if !job.judged && self.was_done(job, ends.destination).await {
            self.leave_same(taken, "it was copied by the run before");
            return None;
        }
        let looks = manner.looks() || self.keeps_links(&job.to) || self.is_local();
        if job.judged || !looks {
            return Some(taken);
        }
        match self.decide(job, ends).await {
            Ok(Decision::Copy) => {
                job.judged = !self.options.dry_run;
                Some(taken)
            }
            Ok(Decision::Refuse(why)) => {
                let path = self.name_source(job);
                let remedy = "leave out --immutable to replace it";
                self.fail(taken, &TransferError::source(path, why, remedy));
                None
            }
            Ok(Decision::Skip(why)) => {
                self.skip(taken, why);
                None
            }
            Ok(Decision::Same | Decision::AskDigests) => {
                self.leave_same(taken, "its copy is the same");
                None
            }
            Err(error) => {
                self.fail(taken, &error);
                None
            }
        }
    }

    async fn decide(&self, job: &mut FileJob, ends: Ends<'_>) -> Result<Decision, TransferError> {
        let manner = &self.options.manner;
        let parent = names::parent(&job.to);
        self.spare_backups(&job.from, &job.to)?;
        self.check_parents(parent, ends.destination).await?;
        let target = self.target(&job.to, ends.destination).await?;
        if let (Target::File(_), None, Some((control, abilities))) =
            (target, job.facts.modified, ends.source)
            && manner.comparison().is_some()
        {
            // Not every listing tells times.
            let now = facts(control, abilities, &job.from).await?;
            self.update(job, now);
        }
        let mut decision = manner.decide(&job.facts, &target);
        if decision == Decision::AskDigests {
            let [source, copy] = self.digests(job, ends).await?;
            decision = manner.decide_by_digests([&source, &copy]);
        }
        let is_there = !matches!(target, Target::Nothing | Target::Link);
        if decision == Decision::Copy && is_there && self.is_local() {
            must_differ(&job.from, &job.to).await?;
        }
        if decision == Decision::Copy {
            self.spare_sources(&job.to, target != Target::Link).await?;
        }
        match target {
            _ if decision != Decision::Copy => {}
            Target::File(_) | Target::Link if self.options.dry_run => job.replaces = true,
            Target::File(_) => self.set_aside(&job.to, ends.destination).await?,
            Target::Link if manner.backup_dir.is_some() => {
                self.set_aside(&job.to, ends.destination).await?;
            }
            Target::Link => unlink(&job.to, ends.destination).await?,
            Target::Nothing | Target::Dir | Target::Other => {}
        }
        Ok(decision)
    }

    /// The object at `to` of the destination.
    pub(super) async fn target(
        &self,
        to: &[u8],
        destination: Option<Server<'_>>,
    ) -> Result<Target, TransferError> {
        let follows = !self.keeps_links(to);
        let (Some((control, abilities)), Some(inventory)) = (destination, self.inventory()) else {
            return Ok(local_target(local(to), follows));
        };
        let path = control.path(to);
        let path = path.ok_or_else(|| TransferError::unsendable(to))?;
        if self.hiding.is_new(&path) {
            return Ok(Target::Nothing);
        }
        match inventory.at(to).await? {
            Told::Target(target) if !follows || target != Target::Link => Ok(target),
            Told::Unlisted if !follows && is_link(control, path.clone()).await? => Ok(Target::Link),
            _ => match facts(control, abilities, to).await? {
                Some(facts) => Ok(Target::File(facts)),
                None if control.exists(&path).await? => Ok(Target::Other),
                None => Ok(Target::Nothing),
            },
        }
    }

    /// The digests of a file and of its copy.
    async fn digests(&self, job: &FileJob, ends: Ends<'_>) -> Result<[String; 2], TransferError> {
        let servers = [ends.source, ends.destination];
        let knows = |algorithm: &ChecksumAlgorithm| {
            let mut servers = servers.iter().flatten();
            servers.all(|(_, abilities)| abilities.knows(*algorithm))
        };
        let algorithm = match self.options.manner.algorithm {
            Some(named) => Some(named).filter(knows),
            None => verify::PROOFS.into_iter().find(knows),
        };
        let algorithm = algorithm.ok_or_else(|| {
            let what = "--checksum: the ends of the copy have no digest in common";
            TransferError::request(what, "use --sync, which compares sizes and times")
        })?;
        if self.is_of_web() {
            return self.web_digests(job, ends.destination).await;
        }
        let digest = async |server: Option<Server<'_>>, path: &[u8]| match server {
            None => verify::local(local(path), algorithm, 0, None).await,
            Some((control, _)) => {
                let wire = control.path(path);
                let wire = wire.ok_or_else(|| TransferError::unsendable(path))?;
                let mut asked = verify::ask(control, algorithm, 0, None, wire);
                Ok(padded(algorithm, asked.digest(|_| ()).await?))
            }
        };
        let source = digest(ends.source, &job.from);
        let copy = digest(ends.destination, &job.to);
        tokio::try_join!(source, copy).map(<[String; 2]>::from)
    }

    /// Moves the object at `path` of the destination to the directory for such, where there is one.
    pub(super) async fn set_aside(
        &self,
        path: &[u8],
        destination: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        let Some(to) = self.aside(path)? else {
            return Ok(());
        };
        // An earlier run may have moved a link there.
        if let Some(root) = self.backup_root(path) {
            let parent = names::parent(&to);
            self.check_parents_below(&root, parent, destination).await?;
        }
        match destination {
            None => {
                self.spare_sources(path, false).await?;
                self.spare_sources(&to, false).await?;
                let (from, into) = (local(path).to_owned(), local(&to).to_owned());
                let moved = tokio::task::spawn_blocking(move || rename(&from, &into)).await;
                let moved = moved.map_err(io::Error::other).and_then(|done| done);
                moved.map_err(|error| match error.kind() {
                    // A directory of the destination, or among the backups, is a mount of its own.
                    io::ErrorKind::CrossesDevices => self.on_another_device(names::parent(&to)),
                    _ => TransferError::local("move to --backup-dir", path, error),
                })
            }
            Some((control, _)) => {
                let wire = |path| {
                    control
                        .path(path)
                        .ok_or_else(|| TransferError::unsendable(path))
                };
                drop(make_parents(
                    control,
                    self,
                    names::parent(&to),
                    &mut Known::default(),
                ));
                Ok(moved(control, wire(path)?, wire(&to)?).await?)
            }
        }
    }

    /// The name that the object at `path` of the destination moves to before it is replaced, where
    /// there is a directory for such.
    pub(super) fn aside(&self, path: &[u8]) -> Result<Option<Vec<u8>>, TransferError> {
        let below = match path == self.root {
            true => names::last(path),
            false => self.below_root(path),
        };
        let root = self.backup_root(path);
        let to = root.map(|root| names::join(&root, below));
        if to.as_deref() == Some(path) {
            return Err(backup_in_place());
        }
        Ok(to)
    }

    /// Refuses to copy `from` to a name among the replaced files of the destination: the one that
    /// moves there would replace the copy.
    pub(super) fn spare_backups(&self, from: &[u8], to: &[u8]) -> Result<(), TransferError> {
        let root = &self.root;
        let is_inside = |dir: &Vec<u8>| dir != root && (root.is_empty() || is_below(dir, root));
        let dir = self.backup_root(to).filter(is_inside);
        if dir.is_none_or(|dir| !is_below(to, &dir)) {
            return Ok(());
        }
        let what = "its copy would be among the replaced files of --backup-dir";
        let remedy = "exclude it, or name another --backup-dir";
        let from = self.describe_source(from);
        Err(TransferError::source(from, what, remedy))
    }

    /// The directory that the object at `path` of the destination moves below.
    fn backup_root(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.backup_dir(match path == self.root {
            true => names::parent(&self.root),
            false => &self.root,
        })
    }

    /// The directory that replaced files move to, of a destination that is `root`.
    pub(super) fn backup_dir(&self, root: &[u8]) -> Option<Vec<u8>> {
        let dir = names::trim_slashes(self.options.manner.backup_dir.as_deref()?);
        Some(match dir.first() {
            Some(b'/') => dir.to_vec(),
            // A shell reads it as a home directory before this program does.
            Some(b'~') if self.destination.is_some() => dir.to_vec(),
            _ => names::join(root, dir),
        })
    }

    /// Notes whether the next store of a file has to replace nothing, and says so.
    pub(crate) fn must_replace_nothing(
        &self,
        abilities: &Abilities,
        job: &mut FileJob,
        is_hidden: bool,
    ) -> bool {
        let is_own = !is_hidden && !self.is_partial() && !job.placed;
        job.exclusive = is_own && self.options.keeps_existing() && abilities.exclusive;
        job.exclusive
    }

    /// Asks a server for the directories of the destination; none where it is on this machine.
    pub(super) fn start_inventory(&self) -> Option<Inventory> {
        let site = self.destination.clone()?;
        let options = std::sync::Arc::new(self.options.connect.clone());
        let observer = std::sync::Arc::clone(&self.observer);
        let follows = self.options.links != Links::Copy;
        Some(Inventory::start(site, options, observer, follows))
    }
}

fn local_target(path: &Path, follows: bool) -> Target {
    let is_link = || path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    match std::fs::metadata(path) {
        _ if !follows && is_link() => Target::Link,
        Ok(meta) if meta.is_file() => {
            let item = crate::local::Item::new(path.to_owned(), Vec::new(), &meta);
            Target::File(Facts::of_local(&item))
        }
        Ok(meta) if meta.is_dir() => Target::Dir,
        Ok(_) => Target::Other,
        // A link that leads nowhere is replaced.
        Err(_) => Target::Nothing,
    }
}

/// Says whether a server tells of a link at `path`.
async fn is_link(control: &Control, path: FtpPath) -> Result<bool, ControlError> {
    let told = control.send(Command::Mlst(Some(path))).told().await?;
    let entry = told.as_ref().and_then(parse_mlst);
    Ok(entry.is_some_and(|(entry, _)| entry.is_link()))
}

/// Removes a link at the destination that a file replaces.
async fn unlink(path: &[u8], destination: Option<Server<'_>>) -> Result<(), TransferError> {
    let Some((control, _)) = destination else {
        let removed = std::fs::remove_file(local(path));
        return removed.map_err(|error| TransferError::local("remove link", path, error));
    };
    let wire = control.path(path);
    let wire = wire.ok_or_else(|| TransferError::unsendable(path))?;
    control.send(Command::Dele(wire)).finish().await?;
    Ok(())
}

/// The facts of a file at a server; `None` where it tells none.
async fn facts(
    control: &Control,
    abilities: &Abilities,
    path: &[u8],
) -> Result<Option<Facts>, TransferError> {
    let wire = control.path(path);
    let wire = wire.ok_or_else(|| TransferError::unsendable(path))?;
    Ok(FactsQuery::send(control, abilities, wire).facts().await?)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::rename(from, to)
}

/// Moves a file at a server, where a file of an earlier run may have the name.
pub(super) async fn moved(
    control: &Control,
    from: FtpPath,
    to: FtpPath,
) -> Result<(), ControlError> {
    let rename = async || {
        // RFC 959 §4.1.3: nothing comes between the two commands.
        let mut from = control.send(Command::Rnfr(from.clone()));
        let mut into = control.send(Command::Rnto(to.clone()));
        from.finish().await?;
        into.finish().await
    };
    match rename().await {
        Err(error) if error.reply().is_some_and(crate::error::is_exists) => {
            control.send(Command::Dele(to.clone())).finish().await?;
            rename().await.map(drop)
        }
        done => done.map(drop),
    }
}

//! Looks at the destination of a file, by whose object a copy goes on, ends, or moves that aside.

use std::io;
use std::path::Path;

use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;

use super::facts_query::FactsQuery;
use super::inventory::{Inventory, Told};
use super::job::{Facts, FileJob};
use super::known::Known;
use super::making::make_parents;
use super::pull::local;
use super::queue::Taken;
use super::state::CopyState;
use crate::abilities::Abilities;
use crate::control::Control;
use crate::error::{ControlError, TransferError};
use crate::manner::{Decision, Target};
use crate::names;
use crate::verify;

/// A session with a server, and its features.
pub(crate) type Server<'a> = (&'a Control, &'a Abilities);

/// Both ends of a file; one without a server is on this machine.
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
        if job.judged || !manner.looks() {
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
                self.leave_same(taken);
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
        let target = self.target(job, ends.destination).await?;
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
        if let (Decision::Copy, Target::File(_), false) = (decision, target, self.options.dry_run) {
            self.set_aside(&job.to, ends.destination).await?;
        }
        Ok(decision)
    }

    /// The object at the destination of a file.
    async fn target(
        &self,
        job: &FileJob,
        destination: Option<Server<'_>>,
    ) -> Result<Target, TransferError> {
        let (Some((control, abilities)), Some(inventory)) = (destination, self.inventory()) else {
            return Ok(local_target(local(&job.to)));
        };
        let path = control.path(&job.to);
        let path = path.ok_or_else(|| TransferError::unsendable(&job.to))?;
        if self.hiding.is_new(&path) {
            return Ok(Target::Nothing);
        }
        match inventory.at(&job.to).await? {
            Told::Target(target) => Ok(target),
            Told::Unlisted => match facts(control, abilities, &job.to).await? {
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
        let algorithm = verify::PROOFS.into_iter().find(knows).ok_or_else(|| {
            let what = "--checksum: the ends of the copy have no digest in common";
            TransferError::request(what, "use --sync, which compares sizes and times")
        })?;
        let digest = async |server: Option<Server<'_>>, path: &[u8]| match server {
            None => verify::local(local(path), algorithm, 0, None).await,
            Some((control, _)) => {
                let wire = control.path(path);
                let wire = wire.ok_or_else(|| TransferError::unsendable(path))?;
                let mut asked = verify::ask(control, algorithm, 0, None, wire);
                Ok(asked.digest(|_| ()).await?)
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
        let Some(to) = self.aside(path) else {
            return Ok(());
        };
        if to == path {
            let what = "--backup-dir: it is the directory of the destination itself";
            return Err(TransferError::request(what, "name another one"));
        }
        match destination {
            None => {
                let (from, into) = (local(path).to_owned(), local(&to).to_owned());
                let moved = tokio::task::spawn_blocking(move || rename(&from, &into)).await;
                let moved = moved.map_err(io::Error::other).and_then(|done| done);
                moved.map_err(|error| TransferError::local("move to --backup-dir", path, error))
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

    /// The name that the object at `path` of the destination moves to before it is replaced.
    fn aside(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (root, below) = match path == self.root {
            true => (names::parent(&self.root), names::last(path)),
            false => (&*self.root, self.below_root(path)),
        };
        Some(names::join(&self.backup_dir(root)?, below))
    }

    /// The directory that replaced files move to, of a destination that is `root`.
    pub(super) fn backup_dir(&self, root: &[u8]) -> Option<Vec<u8>> {
        let dir = names::trim_slashes(self.options.manner.backup_dir.as_deref()?);
        Some(match dir.first() {
            Some(b'/' | b'~') => dir.to_vec(),
            _ => names::join(root, dir),
        })
    }

    /// Asks a server for the directories of the destination; none where it is on this machine.
    pub(super) fn start_inventory(&self) -> Option<Inventory> {
        let site = self.destination.clone()?;
        let options = std::sync::Arc::new(self.options.connect.clone());
        let observer = std::sync::Arc::clone(&self.observer);
        Some(Inventory::start(site, options, observer))
    }
}

fn local_target(path: &Path) -> Target {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => {
            let item = crate::local::Item::new(path.to_owned(), Vec::new(), &meta);
            Target::File(Facts::of_local(&item))
        }
        Ok(_) => Target::Other,
        // A link that leads nowhere is replaced.
        Err(_) => Target::Nothing,
    }
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
async fn moved(control: &Control, from: FtpPath, to: FtpPath) -> Result<(), ControlError> {
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

//! Tells of a dry run the files, directories and moves of the copy that it stands for.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;

use ftp_wire::command::Command;
use ftp_wire::facts::EntryKind;

use super::admission::Server;
use super::inventory::Told;
use super::job::Item;
use super::lock;
use super::pull::local;
use super::queue::Taken;
use super::state::CopyState;
use crate::client::parse_mlst;
use crate::error::TransferError;
use crate::manner::Target;
use crate::names;
use crate::progress::Event;
use crate::url::show;

/// Directories that are remembered; beyond them one may be told twice.
const MOST: usize = 1 << 20;

/// The directories of the destination that a dry run has looked at.
#[derive(Debug, Default)]
pub(super) struct PlannedDirs {
    /// Whether one is missing, by the hash of its path.
    missing: Mutex<HashMap<u64, bool>>,
    hasher: RandomState,
}

impl PlannedDirs {
    /// Says whether a directory is missing; `None` of one that was not looked at.
    fn is_missing(&self, dir: &[u8]) -> Option<bool> {
        let name = self.hasher.hash_one(dir);
        lock(&self.missing).get(&name).copied()
    }

    /// Notes a directory; says whether it was not noted before.
    fn note(&self, dir: &[u8], is_missing: bool) -> bool {
        let name = self.hasher.hash_one(dir);
        let mut missing = lock(&self.missing);
        if missing.len() >= MOST {
            missing.clear();
        }
        missing.insert(name, is_missing).is_none()
    }
}

impl CopyState {
    /// Tells a file that would be copied, the directories that would be made for it, and the move of
    /// the object that it would replace.
    pub(super) async fn plan(&self, taken: Taken, destination: Option<Server<'_>>) {
        let job = taken.file();
        let (to, replaces) = (job.to.clone(), job.replaces);
        let told = async {
            self.plan_dirs(names::parent(&to), destination).await?;
            if self.is_dir(&to).await {
                let what = "is a directory at the destination, where a file has to be";
                return Err(match destination {
                    None => TransferError::local("create", &to, "is a directory"),
                    Some(_) => TransferError::source(show(&to), what, "remove it"),
                });
            }
            match replaces {
                true => self.plan_aside(&to, destination).await,
                false => Ok(()),
            }
        };
        match told.await {
            Ok(()) => self.plan_file(taken),
            Err(error) => self.fail(taken, &error),
        }
    }

    /// Says whether a directory of the destination has the name of a file, as far as the listing of
    /// the directory above tells.
    async fn is_dir(&self, to: &[u8]) -> bool {
        let Some(inventory) = self.inventory() else {
            let there = local(to).symlink_metadata();
            return there.is_ok_and(|meta| meta.is_dir());
        };
        let above = names::trim_slashes(names::parent(to));
        if self.planned_dirs.is_missing(above) == Some(true) {
            return false;
        }
        // The copy goes on without a listing, and so does its plan.
        matches!(inventory.at(to).await, Ok(Told::Target(Target::Dir)))
    }

    /// Tells a file that would be copied, and nothing of its destination.
    pub(super) fn plan_file(&self, taken: Taken) {
        taken.done(|item| {
            let Item::File(job) = item else {
                return;
            };
            self.totals.planned();
            let (source, destination) = (self.name_source(&job), self.name_destination(&job));
            let size = self.expected(&job);
            self.observer.event(&Event::Planned {
                source: &source,
                destination: &destination,
                size,
            });
        });
    }

    /// Tells that the object at `path` of the destination would move to the directory for replaced
    /// ones, where there is one, and the directories that would be made for that.
    pub(super) async fn plan_aside(
        &self,
        path: &[u8],
        destination: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        let Some(to) = self.aside(path)? else {
            return Ok(());
        };
        self.plan_dirs(names::parent(&to), destination).await?;
        self.observer.event(&Event::PlannedMove {
            source: &self.describe_destination(path),
            destination: &self.describe_destination(&to),
        });
        Ok(())
    }

    /// Tells which directories would be made for `dir` of the destination to be there, from the top
    /// and each once.
    pub(super) async fn plan_dirs(
        &self,
        dir: &[u8],
        destination: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        let is_asked = |dir: &[u8]| {
            !matches!(dir, b"" | b"/" | b"~")
                && !self.is_made(dir)
                && self.planned_dirs.is_missing(dir).is_none()
        };
        let (mut missing, mut at) = (Vec::new(), names::trim_slashes(dir));
        while is_asked(at) {
            let above = names::parent(at);
            // Nothing is in a directory that is missing itself.
            let is_missing = self.planned_dirs.is_missing(above) == Some(true);
            if !is_missing && is_there(at, destination).await? {
                self.planned_dirs.note(at, false);
                break;
            }
            missing.push(at);
            at = above;
        }
        for dir in missing.into_iter().rev() {
            // Another worker may have told it meanwhile.
            if self.planned_dirs.note(dir, true) {
                let path = &self.describe_destination(dir);
                self.observer.event(&Event::PlannedDir { path });
            }
        }
        Ok(())
    }
}

/// Says whether a directory is at `path` of the destination; a file there is an error, as far as a
/// server tells the kind.
async fn is_there(path: &[u8], destination: Option<Server<'_>>) -> Result<bool, TransferError> {
    let Some((control, _)) = destination else {
        return match local(path).metadata() {
            Ok(meta) if !meta.is_dir() => {
                let what = "an object of that name is no directory";
                Err(TransferError::local("make directory", path, what))
            }
            there => Ok(there.is_ok()),
        };
    };
    let wire = control.path(path);
    let wire = wire.ok_or_else(|| TransferError::unsendable(path))?;
    let mut look = control.send(Command::Mlst(Some(wire.clone())));
    match look.told().await?.as_ref().and_then(parse_mlst) {
        Some((entry, _)) if entry.kind == EntryKind::File => {
            let what = "is a file at the destination, where a directory has to be";
            return Err(TransferError::source(show(path), what, "remove it"));
        }
        Some(_) => return Ok(true),
        None => {}
    }
    match control.exists(&wire).await {
        // The copy itself goes on behind the refusal to make a directory that may be there.
        Err(error) if error.reply().is_some() => Ok(true),
        told => Ok(told?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::options::CopyOptions;
    use crate::progress::{Observer, Totals};

    /// Keeps the directories that are told.
    #[derive(Default)]
    struct Dirs(Mutex<Vec<String>>);

    impl Observer for Dirs {
        fn event(&self, event: &Event<'_>) {
            if let Event::PlannedDir { path } = event {
                lock(&self.0).push((*path).to_owned());
            }
        }
    }

    #[tokio::test]
    async fn missing_directories_are_told_once_and_from_the_top() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("there")).unwrap();
        let at = |name: &str| root.path().join(name).display().to_string();
        let told = Arc::new(Dirs::default());
        let shared = CopyState::new(
            CopyOptions::default(),
            Arc::clone(&told) as Arc<dyn Observer>,
            Arc::new(Totals::default()),
            None,
            None,
            None,
        );
        for name in ["there/a/b", "there", "there/a", "there/a/b/", "there/c"] {
            shared.plan_dirs(at(name).as_bytes(), None).await.unwrap();
        }
        let wanted = ["there/a", "there/a/b", "there/c"].map(at);
        assert_eq!(*lock(&told.0), wanted);
        std::fs::write(root.path().join("there/file"), "").unwrap();
        let below = at("there/file/d");
        let refused = shared.plan_dirs(below.as_bytes(), None).await;
        assert!(matches!(refused, Err(TransferError::Local { .. })));
    }
}

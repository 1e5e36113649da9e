//! Storage over another one with files in an archive, which a program retrieves.
//!
//! The names and facts of all files are in the storage below; the data of some is in an archive, as
//! on tape. Two programs of the administrator know the archive. Each gets the path of a file in the
//! storage below as its only argument, and the variables `STAGE_USER` and `STAGE_TASK` as its
//! environment:
//!
//! - `status` says by its exit status whether the data is at hand: 0 if it is, 1 if it is not.
//! - `recall` retrieves it, and ends with 0 once the data is at hand.
//!
//! A retrieval continues when its client leaves, and a client that asks again within the same task
//! finds it. [`Staged`] waits for it where a file is read: [`Hooks::wait`] limits that.
//!
//! ```
//! use std::path::PathBuf;
//!
//! use gridftp_dsi::Memory;
//! use gridftp_dsi_staged::{Hooks, Staged};
//!
//! let (status, recall) = (PathBuf::from("/usr/bin/true"), PathBuf::from("/usr/bin/true"));
//! let storage = Staged::new(Memory::new(), Hooks::new(status, recall));
//! # drop(storage);
//! ```
#![forbid(unsafe_code)]

mod hook;
mod recalls;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use byte_ranges::RangeSet;
use gridftp_dsi::{
    Attribute, Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Meta,
    Partial, Progress, Result, Staging, Stat, User,
};

use crate::hook::Hook;
use crate::recalls::{Limits, Recall, Recalls};

/// Retrievals under way or waiting for their turn.
const LIMITS: Limits = Limits {
    all: 4096,
    of_user: 512,
};

/// Time for which the fact of one look at a file holds.
const FRESH: Duration = Duration::from_secs(2);

/// Files whose last look is remembered.
const SEEN: usize = 1024;

/// The programs that know the archive, and the bounds on their use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Hooks {
    /// Says whether the data of a file is at hand.
    pub status: PathBuf,
    /// Retrieves the data of a file.
    pub recall: PathBuf,
    /// Longest run of `status`.
    pub status_limit: Duration,
    /// Longest run of `recall`.
    pub recall_limit: Duration,
    /// Most processes of each program at a time.
    pub processes: usize,
    /// Longest wait for a file that is read or changed.
    pub wait: Duration,
}

impl Hooks {
    /// These programs, with the usual bounds: 10 seconds and 24 hours, 16 processes, a wait of one
    /// hour.
    pub fn new(status: PathBuf, recall: PathBuf) -> Self {
        Self {
            status,
            recall,
            status_limit: Duration::from_secs(10),
            recall_limit: Duration::from_secs(24 * 3600),
            processes: 16,
            wait: Duration::from_secs(3600),
        }
    }
}

/// A storage, and the archive behind it.
#[derive(Debug)]
pub struct Staged<D> {
    below: D,
    archive: Arc<Archive>,
    wait: Duration,
}

#[derive(Debug)]
struct Archive {
    status: Hook,
    recall: Hook,
    recalls: Recalls,
    /// The last looks at files: whether their data was at hand.
    seen: Mutex<BTreeMap<DsiPath, (Instant, bool)>>,
}

impl Archive {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<DsiPath, (Instant, bool)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the data of a file was at hand a moment ago: a client asks for many facts of a file,
    /// and each look runs a program.
    async fn was_here(&self, path: &DsiPath, user: &str) -> Result<bool> {
        let last = self.seen().get(path).copied();
        match last.filter(|(at, _)| at.elapsed() < FRESH) {
            Some((_, here)) => Ok(here),
            None => self.is_here(path, user, "").await,
        }
    }

    /// Whether the data of a file is at hand.
    async fn is_here(&self, path: &DsiPath, user: &str, task: &str) -> Result<bool> {
        let ended = self.status.run(path, user, task).await?;
        let here = match ended.code() {
            Some(0) => true,
            Some(1) => false,
            _ => return Err(self.status.error(path, ended)),
        };
        let mut seen = self.seen();
        if seen.len() >= SEEN {
            seen.retain(|_, (at, _)| at.elapsed() < FRESH);
        }
        if seen.len() < SEEN {
            seen.insert(path.clone(), (Instant::now(), here));
        }
        Ok(here)
    }

    /// Retrieves a file to the end.
    async fn retrieve(&self, path: &DsiPath, user: &str, task: &str) -> Result<()> {
        let ended = self.recall.run(path, user, task).await?;
        match ended.code() {
            Some(0) if self.is_here(path, user, task).await? => Ok(()),
            Some(0) => Err(self
                .recall
                .error(path, "it ended, and the file is not at hand")),
            _ => Err(self.recall.error(path, ended)),
        }
    }
}

impl<D: Dsi> Staged<D> {
    /// Puts an archive behind `below`.
    pub fn new(below: D, hooks: Hooks) -> Self {
        let processes = hooks.processes;
        let (status, recall) = (hooks.status, hooks.recall);
        Self {
            below,
            archive: Arc::new(Archive {
                status: Hook::new("status", status, hooks.status_limit, processes),
                recall: Hook::new("recall", recall, hooks.recall_limit, processes),
                recalls: Recalls::default(),
                seen: Mutex::default(),
            }),
            wait: hooks.wait,
        }
    }

    /// Begins or joins the retrieval of a file in a task.
    fn retrieval(&self, user: &User, path: &DsiPath, task: &str) -> Result<Recall> {
        let key = (path.clone(), user.name.clone(), task.to_owned());
        let begun = self.archive.recalls.join(key, LIMITS, || {
            let (archive, path) = (Arc::clone(&self.archive), path.clone());
            let (user, task) = (user.name.clone(), task.to_owned());
            async move {
                let done = archive.retrieve(&path, &user, &task).await;
                done.map_err(|error| (error.kind(), Arc::from(told(&error))))
            }
        });
        begun.ok_or_else(|| {
            let why = "too many files of the user are being retrieved, try again later";
            Error::new(ErrorKind::Busy, "recall").at(path).because(why)
        })
    }

    /// Waits for the data of a file that is read or changed.
    ///
    /// # Errors
    /// Those of the programs, and [`ErrorKind::Busy`] after the longest wait.
    async fn ensure(&self, user: &User, path: &DsiPath) -> Result<()> {
        let stat = self.below.stat(user, path).await?;
        if !stat.is_file() || self.archive.is_here(path, &user.name, "").await? {
            return Ok(());
        }
        let retrieval = match self.archive.recalls.of_file(path) {
            Some(retrieval) => retrieval,
            None => self.retrieval(user, path, "")?,
        };
        match self.ended(retrieval, path, self.wait).await? {
            Staging::Here => Ok(()),
            _ => Err(Error::new(ErrorKind::Busy, "open")
                .at(path)
                .because("is being retrieved from the archive...")),
        }
    }

    /// As [`ensure`](Self::ensure), for a change: the storage below refuses one that is not allowed,
    /// or whose object is missing.
    async fn ensure_old(&self, user: &User, path: &DsiPath) -> Result<()> {
        if !user.may_write {
            return Ok(());
        }
        match self.ensure(user, path).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    async fn ended(&self, retrieval: Recall, path: &DsiPath, within: Duration) -> Result<Staging> {
        match retrieval.ended(within).await {
            None => Ok(Staging::Retrieving),
            Some(Ok(())) => Ok(Staging::Here),
            Some(Err((kind, why))) => Err(Error::new(kind, "recall").at(path).because(&*why)),
        }
    }
}

/// The cause of an error in words, for those who wait for the same retrieval.
fn told(error: &Error) -> String {
    use std::error::Error as _;
    let cause = error.source().map(ToString::to_string);
    cause.unwrap_or_else(|| error.to_string())
}

impl<D: Dsi> Dsi for Staged<D> {
    type Source = D::Source;
    type Sink = D::Sink;
    type Listing = D::Listing;

    fn capabilities(&self) -> Capabilities {
        self.below.capabilities().with_stages(true)
    }

    fn identity(&self) -> Option<String> {
        self.below.identity()
    }

    /// A file whose status cannot be told has none.
    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        let mut stat = self.below.stat(user, path).await?;
        if stat.is_file() {
            stat.staged = self.archive.was_here(path, &user.name).await.ok();
        }
        Ok(stat)
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<D::Listing> {
        self.below.list(user, path).await
    }

    /// Waits for the data of a file in the archive.
    async fn read(&self, user: &User, path: &DsiPath) -> Result<D::Source> {
        self.ensure(user, path).await?;
        self.below.read(user, path).await
    }

    /// Waits for the data of a file in the archive, unless all of it is replaced.
    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<D::Sink> {
        match how {
            Create::Whole { .. } | Create::Resume { .. } | Create::InPlace { truncate: true } => {}
            _ => self.ensure_old(user, path).await?,
        }
        self.below.write(user, path, how).await
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<D::Sink> {
        self.below.join(user, path, token).await
    }

    async fn stage(
        &self,
        user: &User,
        path: &DsiPath,
        task: &str,
        within: Duration,
    ) -> Result<Staging> {
        let stat = self.below.stat(user, path).await?;
        if !stat.is_file() || self.archive.is_here(path, &user.name, task).await? {
            return Ok(Staging::Here);
        }
        let retrieval = self.retrieval(user, path, task)?;
        self.ended(retrieval, path, within).await
    }

    async fn free_space(&self, user: &User, path: &DsiPath) -> Result<u64> {
        self.below.free_space(user, path).await
    }

    async fn attributes(&self, user: &User, path: &DsiPath) -> Result<Vec<Attribute>> {
        self.below.attributes(user, path).await
    }

    async fn set_attribute(&self, user: &User, path: &DsiPath, attribute: Attribute) -> Result<()> {
        self.below.set_attribute(user, path, attribute).await
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        self.below.held(user, path).await
    }

    async fn partials(&self, user: &User, path: &DsiPath) -> Result<(Vec<Partial>, bool)> {
        self.below.partials(user, path).await
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.below.drop_held(user, path).await
    }

    async fn expire(&self, age: Duration) -> Result<u64> {
        self.below.expire(age).await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.below.make_dir(user, path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.below.remove_dir(user, path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.below.remove(user, path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.below.remove_tree(user, path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        self.below.rename(user, from, to).await
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        self.below.symlink(user, target, link).await
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        self.below.set_meta(user, path, meta).await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        self.ensure_old(user, path).await?;
        self.below.truncate(user, path, length).await
    }

    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        self.ensure(user, path).await?;
        let below = &self.below;
        below
            .checksum(user, path, algorithm, offset, length, progress)
            .await
    }
}

//! `impl Dsi for Posix`: each operation is one call on a thread that may block.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use byte_ranges::RangeSet;
use gridftp_dsi::{
    Attribute, Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Meta,
    Partial, Progress, Result, Stat, User, WriteModel,
};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::attributes;
use crate::blocking::{Work, run_until_dropped};
use crate::checksum::{COSTS, in_turns};
use crate::error::{Fault, Outcome};
use crate::expire;
use crate::file::FileSource;
use crate::journal::boot_identity;
use crate::listing::DirListing;
use crate::names;
use crate::ops;
use crate::partial::{PartialFile, flush};
use crate::remove;
use crate::root::Root;
use crate::shared::Token;
use crate::sink::FileSink;
use crate::stat;
use crate::uploads;

/// A directory tree of this machine, to which its users are confined.
#[derive(Debug, Clone)]
pub struct Posix {
    root: Arc<Root>,
    /// The same, for users without links.
    plain: Arc<Root>,
    sync: bool,
    sparse: bool,
}

impl Posix {
    /// Serves the tree below the directory `root`.
    ///
    /// # Errors
    /// If it cannot be opened, or the kernel lacks `openat2`.
    pub fn open(root: &Path) -> Result<Self> {
        let root = Root::open(root).map_err(|fault| fault.of("open root", root.display()))?;
        Ok(Self {
            plain: Arc::new(root.without_links()),
            root: Arc::new(root),
            sync: false,
            sparse: false,
        })
    }

    /// Sets whether every upload, name included, is synced to the medium before it is finished.
    #[must_use]
    pub fn with_sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Sets whether whole blocks of zeros in uploads become holes, as by
    /// [`FileSink::leave_holes`].
    #[must_use]
    pub fn with_sparse(mut self, sparse: bool) -> Self {
        self.sparse = sparse;
        self
    }

    /// Keeps the index of partial files in the directory `dir`, created if needed, instead of in
    /// the root; two trees must not share one.
    #[must_use]
    pub fn with_index(mut self, dir: &Path) -> Self {
        let root = self.root.with_index(dir);
        self.plain = Arc::new(root.without_links());
        self.root = Arc::new(root);
        self
    }

    /// Runs `work` on the tree in the view of `user`, on the thread for its kind of work.
    ///
    /// # Cancel safety
    /// Dropping the future sets the flag passed to `work`.
    async fn until_dropped<T: Send + 'static>(
        &self,
        user: &User,
        kind: Work,
        op: &'static str,
        path: &DsiPath,
        work: impl FnOnce(&Arc<Root>, &DsiPath, &AtomicBool) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let root = if user.follows_links {
            &self.root
        } else {
            &self.plain
        };
        let (root, path, follows) = (Arc::clone(root), path.clone(), user.follows_links);
        run_until_dropped(kind, op, move |stop| {
            work(&root, &path, stop).map_err(|fault| match fault {
                Fault::Os(Errno::LOOP) if !follows => NO_LINKS.of(op, &path),
                fault => fault.of(op, &path),
            })
        })
        .await
    }

    /// As `until_dropped`, for work that does not check the flag.
    async fn on<T: Send + 'static>(
        &self,
        user: &User,
        kind: Work,
        op: &'static str,
        path: &DsiPath,
        work: impl FnOnce(&Arc<Root>, &DsiPath) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.until_dropped(user, kind, op, path, |root, path, _| work(root, path))
            .await
    }

    /// As `on`, for a user who may write.
    async fn change<T: Send + 'static>(
        &self,
        user: &User,
        kind: Work,
        op: &'static str,
        path: &DsiPath,
        work: impl FnOnce(&Arc<Root>, &DsiPath) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        must_write(user, op, path)?;
        self.on(user, kind, op, path, work).await
    }
}

/// Refuses the operation `op` to a user without write permission.
fn must_write(user: &User, op: &'static str, path: &DsiPath) -> Result<()> {
    if user.may_write {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Denied, op)
        .at(path)
        .because("this user may only read"))
}

/// Hides uploads in progress from access by name.
fn visible(path: &DsiPath) -> Outcome<()> {
    if names::is_reserved(path.name()) {
        Err(Errno::NOENT.into())
    } else {
        Ok(())
    }
}

/// The error for a link in a session without links.
const NO_LINKS: Fault = Fault::Rule(
    ErrorKind::Denied,
    "symbolic links are neither followed nor created in this session",
);

impl Dsi for Posix {
    type Source = FileSource;
    type Sink = FileSink;
    type Listing = DirListing;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new("posix", WriteModel::Random)
            .with_checksums(COSTS)
            .with_symlinks(true)
            .with_resume(true)
            .with_exclusive(true)
            .with_durable(self.sync)
            .with_boot(boot_identity())
            .with_modes(true)
            .with_shared_uploads(true)
            .with_space(true)
            .with_attributes(true)
    }

    fn identity(&self) -> Option<String> {
        self.root.index().identity()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        self.on(user, Work::Brief, "stat", path, |root, path| {
            visible(path)?;
            Ok(stat::look(root, path)?)
        })
        .await
    }

    async fn free_space(&self, user: &User, path: &DsiPath) -> Result<u64> {
        self.on(
            user,
            Work::Brief,
            "ask for free space",
            path,
            |root, path| {
                visible(path)?;
                Ok(stat::free_space(root, path)?)
            },
        )
        .await
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<DirListing> {
        self.on(user, Work::Brief, "list", path, DirListing::begin)
            .await
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<FileSource> {
        self.on(user, Work::Brief, "open", path, |root, path| {
            visible(path)?;
            Ok(FileSource::over(
                root.get_file(path, OFlags::RDONLY)?,
                path.to_string(),
            ))
        })
        .await
    }

    /// Opens the file, and copies it for an update, on a thread that may block.
    ///
    /// # Cancel safety
    /// Dropping the future ends the copy and removes it.
    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<FileSink> {
        must_write(user, "create", path)?;
        let (sync, sparse, name) = (self.sync, self.sparse, user.name.clone());
        // The others may copy or truncate a large file.
        let kind = match how {
            Create::Whole { .. } => Work::Brief,
            _ => Work::Long,
        };
        self.until_dropped(user, kind, "create", path, move |root, path, stop| {
            let sink = FileSink::begin(root.target(path)?, how, path.to_string(), sync, stop)?;
            if sparse {
                sink.leave_holes();
            }
            if !sync {
                sink.sync_beside(flush);
            }
            Ok(sink.of_user(name))
        })
        .await
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<FileSink> {
        let token = Token::parse(token, &user.name);
        self.change(user, Work::Brief, "join", path, move |root, path| {
            FileSink::join(root.target(path)?, token?, path.to_string())
        })
        .await
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        self.change(
            user,
            Work::Brief,
            "look for partial file",
            path,
            |root, path| PartialFile::look(&root.target(path)?),
        )
        .await
    }

    /// Those that can be continued. The index lists them all, so the size of the tree does not
    /// matter.
    async fn partials(&self, user: &User, path: &DsiPath) -> Result<(Vec<Partial>, bool)> {
        must_write(user, "list partial files", path)?;
        let work =
            |root: &Arc<Root>, path: &DsiPath, stop: &AtomicBool| uploads::list(root, path, stop);
        self.until_dropped(user, Work::Long, "list partial files", path, work)
            .await
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.change(
            user,
            Work::Long,
            "remove partial file",
            path,
            |root, path| expire::held(&root.target(path)?),
        )
        .await
    }

    /// Removes those that cannot be continued much sooner. The index lists them all, so the size of
    /// the tree does not matter.
    async fn expire(&self, age: Duration) -> Result<u64> {
        let root = Arc::clone(&self.root);
        run_until_dropped(Work::Long, "expire", move |stop| {
            expire::expire(&root, age, stop).map_err(|fault| fault.of("expire", "/"))
        })
        .await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        let (sync, kind) = match self.sync {
            true => (true, Work::Long),
            false => (false, Work::Brief),
        };
        self.change(user, kind, "make directory", path, move |root, path| {
            ops::make_dir(root, path, sync)
        })
        .await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.change(user, Work::Long, "remove directory", path, |root, path| {
            ops::remove_dir(root, path)
        })
        .await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.change(user, Work::Long, "remove", path, |root, path| {
            ops::remove_file(root, path)
        })
        .await
    }

    /// Removes entry by entry on another thread.
    ///
    /// # Cancel safety
    /// Dropping the future ends the work at its next entry; removed entries stay removed.
    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        must_write(user, "remove tree", path)?;
        let work =
            |root: &Arc<Root>, path: &DsiPath, stop: &AtomicBool| remove::tree(root, path, stop);
        self.until_dropped(user, Work::Long, "remove tree", path, work)
            .await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        let to = to.clone();
        self.change(user, Work::Long, "rename", from, move |root, from| {
            ops::rename(root, from, &to)
        })
        .await
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        if !user.follows_links {
            return Err(NO_LINKS.of("make link", link));
        }
        let target = target.to_vec();
        self.change(user, Work::Long, "make link", link, move |root, link| {
            ops::symlink(root, &target, link)
        })
        .await
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        self.change(user, Work::Long, "set metadata", path, move |root, path| {
            visible(path)?;
            ops::set_meta(root, path, &meta)
        })
        .await
    }

    async fn attributes(&self, user: &User, path: &DsiPath) -> Result<Vec<Attribute>> {
        self.on(user, Work::Brief, "read attributes", path, |root, path| {
            visible(path)?;
            attributes::all(root.get_file_or_dir(path)?)
        })
        .await
    }

    async fn set_attribute(&self, user: &User, path: &DsiPath, attribute: Attribute) -> Result<()> {
        self.change(
            user,
            Work::Brief,
            "set attribute",
            path,
            move |root, path| {
                visible(path)?;
                attributes::set(root.get_file_or_dir(path)?, &attribute)
            },
        )
        .await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        self.change(user, Work::Long, "truncate", path, move |root, path| {
            visible(path)?;
            ops::truncate(root, path, length)
        })
        .await
    }

    /// Hashes on another thread, in turns with other digests.
    ///
    /// # Cancel safety
    /// Dropping the future ends the work at its next block.
    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        let opening = self.on(user, Work::Brief, "checksum", path, |root, path| {
            visible(path)?;
            Ok(root.get_file(path, OFlags::RDONLY)?.0)
        });
        let file = opening.await?;
        let named = ("checksum", path.to_string());
        in_turns(file, algorithm, (offset, length), progress, named).await
    }
}

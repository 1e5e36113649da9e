//! `Objects`: a store behind the storage interface.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use gridftp_dsi::hasher::COSTS;
use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Kind, Meta, Progress,
    Result, Stat, User, WriteModel,
};

use crate::checksum;
use crate::entry::{Entry, stat_of};
use crate::error::refused;
use crate::journal::Index;
use crate::listing::ObjectListing;
use crate::sink::{self, ObjectSink, blocking, discard, lock};
use crate::source::ObjectSource;
use crate::store::{Config, Store};

/// A store, or the part of it below a prefix.
pub struct Objects {
    pub(crate) store: Arc<Store>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Objects {
    /// Opens a store. No request is made: a wrong name or credential shows with the first one.
    ///
    /// # Errors
    /// For a wrong configuration, and a directory of journals that cannot be created.
    pub fn open(config: &Config) -> Result<Self> {
        let store = Arc::new(Store::open(config)?);
        Ok(Self { store })
    }
}

/// Refuses changes by read-only users.
pub(crate) fn must_write(op: &'static str, user: &User, path: &DsiPath) -> Result<()> {
    if user.may_write {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Denied, op).at(path))
}

fn unsupported<T>(op: &'static str, path: &DsiPath, why: &'static str) -> Result<T> {
    Err(refused(ErrorKind::Unsupported, op, path, why))
}

impl Dsi for Objects {
    type Source = ObjectSource;
    type Sink = ObjectSink;
    type Listing = ObjectListing;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new("object", WriteModel::Parts(self.store.least_part()))
            .with_checksums(COSTS)
            .with_resume(true)
            .with_exclusive(true)
            .with_durable(true)
            .with_updates(false)
            .with_times(false)
    }

    fn identity(&self) -> Option<String> {
        self.store.identity.clone()
    }

    async fn stat(&self, _: &User, path: &DsiPath) -> Result<Stat> {
        match self.store.entry("stat", path).await? {
            Some(Entry::File(meta)) => Ok(stat_of(path.name(), &meta)),
            Some(Entry::Directory) => Ok(Stat::new(path.name(), Kind::Directory)),
            None => Err(Error::new(ErrorKind::NotFound, "stat").at(path)),
        }
    }

    async fn list(&self, _: &User, path: &DsiPath) -> Result<ObjectListing> {
        ObjectListing::open(&self.store, path).await
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<ObjectSource> {
        let meta = self.store.file("open", path).await?;
        Ok(ObjectSource::new(&self.store, &user.name, path, meta))
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<ObjectSink> {
        must_write("open", user, path)?;
        let store = &self.store;
        if path.is_root() {
            return Err(Error::new(ErrorKind::IsDirectory, "open").at(path));
        }
        let key = store.keys.key("open", path)?;
        store.has_parent("open", path).await?;
        let failed = |error| crate::error::of("open", path, error);
        if store.is_dir(&key).await.map_err(failed)?
            && store.head(&key).await.map_err(failed)?.is_none()
        {
            return Err(Error::new(ErrorKind::IsDirectory, "open").at(path));
        }
        match how {
            Create::Whole { size } => ObjectSink::whole(store, path, key, size).await,
            Create::Resume { size } => ObjectSink::resume(store, path, key, size).await,
            _ => unsupported(
                "open",
                path,
                "a store keeps whole objects and changes no part of one: upload the whole file",
            ),
        }
    }

    async fn held(&self, _: &User, path: &DsiPath) -> Result<RangeSet> {
        let key = self.store.keys.key("stat", path)?;
        let index = self.store.index.clone();
        let kept = blocking(move || index.peek(&key)).await;
        let kept = kept.map_err(|error| refused(ErrorKind::Io, "stat", path, error))?;
        Ok(kept.map_or_else(RangeSet::new, |kept| sink::held(&kept, kept.size)))
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        const OP: &str = "remove partial file";
        must_write(OP, user, path)?;
        let key = self.store.keys.key(OP, path)?;
        let Some((journal, kept)) = lock(&self.store, path, &key).await? else {
            return Err(Error::new(ErrorKind::NotFound, OP).at(path));
        };
        discard(&self.store, path, journal, kept).await
    }

    async fn expire(&self, age: Duration) -> Result<u64> {
        let index = self.store.index.clone();
        let stale = blocking(move || index.stale(age)).await;
        let stale = stale.map_err(|error| Error::new(ErrorKind::Io, "expire").because(error))?;
        let mut ended = 0;
        for path in stale {
            let (index, file) = (self.store.index.clone(), path.clone());
            let (journal, kept) = match blocking(move || index.take(path, age)).await {
                Ok(Some(taken)) => taken,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the journal of an old upload cannot be read");
                    continue;
                }
            };
            let key = kept.as_ref().map(|kept| format!("/{}", kept.upload.key));
            let path = key.and_then(|key| DsiPath::new(key.as_bytes()));
            let path = path.unwrap_or_else(DsiPath::root);
            match discard(&self.store, &path, journal, kept).await {
                Ok(()) => ended += 1,
                // The next sweep tries again, and the others go on.
                Err(error) => {
                    tracing::warn!(%error, "an old upload cannot be ended");
                    let aged = blocking(move || Index::set_age(&file, age)).await;
                    if let Err(error) = aged {
                        tracing::warn!(%error, "the journal of an old upload cannot be dated back");
                    }
                }
            }
        }
        Ok(ended)
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        must_write("mkdir", user, path)?;
        self.store.make_dir(path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        must_write("rmdir", user, path)?;
        self.store.remove_dir(path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        must_write("remove", user, path)?;
        self.store.remove(path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        must_write("remove", user, path)?;
        self.store.remove_tree(path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        must_write("rename", user, from)?;
        self.store.rename(from, to).await
    }

    async fn symlink(&self, user: &User, _: &[u8], link: &DsiPath) -> Result<()> {
        must_write("link", user, link)?;
        unsupported("link", link, "a store has no links")
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        must_write("set", user, path)?;
        if self.store.entry("set", path).await?.is_none() {
            return Err(Error::new(ErrorKind::NotFound, "set").at(path));
        }
        if meta == Meta::new() {
            return Ok(());
        }
        unsupported(
            "set",
            path,
            "a store keeps its own times, and no modes or groups",
        )
    }

    async fn truncate(&self, user: &User, path: &DsiPath, _: u64) -> Result<()> {
        must_write("truncate", user, path)?;
        self.store.file("truncate", path).await?;
        unsupported("truncate", path, "a store changes no part of an object")
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
        let source = self.read(user, path).await?;
        checksum::of_source(&source, algorithm, (offset, length), path, progress).await
    }
}

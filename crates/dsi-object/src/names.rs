//! Directories as markers and prefixes, removal, and renaming as copy and removal.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{
    Attributes, Error as StoreError, ObjectMeta, ObjectStore as _, ObjectStoreExt as _,
};

use crate::entry::Entry;
use crate::error::{kind, of, refused};
use crate::key::Keys;
use crate::parts::Parts;
use crate::store::Store;

/// Copies at a time.
const COPIES: usize = 8;

fn denied<T>(op: &'static str, path: &DsiPath) -> Result<T> {
    Err(Error::new(ErrorKind::Denied, op).at(path))
}

impl Store {
    /// Creates a marker, with the condition that there is none where the store has conditions.
    pub(crate) async fn make_dir(&self, path: &DsiPath) -> Result<()> {
        const OP: &str = "mkdir";
        if self.entry(OP, path).await?.is_some() {
            return Err(Error::new(ErrorKind::Exists, OP).at(path));
        }
        self.has_parent(OP, path).await?;
        let marker = Keys::marker(&self.keys.key(OP, path)?);
        let done = self
            .create(&marker, Bytes::new(), Attributes::default())
            .await;
        done.map_err(|error| of(OP, path, error))
    }

    pub(crate) async fn remove_dir(&self, path: &DsiPath) -> Result<()> {
        const OP: &str = "rmdir";
        if path.is_root() {
            return denied(OP, path);
        }
        let key = self.keys.key(OP, path)?;
        let failed = |error| of(OP, path, error);
        match self.entry(OP, path).await? {
            Some(Entry::Directory) => {}
            Some(Entry::File(_)) => return Err(Error::new(ErrorKind::NotDirectory, OP).at(path)),
            None => return Err(Error::new(ErrorKind::NotFound, OP).at(path)),
        }
        let page = self.page(&key, None, 3).await.map_err(failed)?;
        if !page.entries.is_empty() {
            return Err(Error::new(ErrorKind::NotEmpty, OP).at(path));
        }
        if page.is_foreign && self.pages.is_some() {
            let why = "an object with the name of the directory and a slash keeps it";
            return Err(refused(ErrorKind::Denied, OP, path, why));
        }
        if page.is_kept {
            self.objects
                .delete(&Keys::marker(&key))
                .await
                .map_err(failed)?;
        }
        self.remove_local(OP, path, &key, false).await
    }

    /// Removes a directory of this machine, which needs no marker to exist.
    async fn remove_local(
        &self,
        op: &'static str,
        path: &DsiPath,
        key: &Path,
        whole: bool,
    ) -> Result<()> {
        let Parts::Local(files) = &self.parts else {
            return Ok(());
        };
        let dir = files
            .path_to_filesystem(key)
            .map_err(|error| of(op, path, error))?;
        let removing = crate::sink::blocking(move || match whole {
            true => std::fs::remove_dir_all(dir),
            false => {
                crate::parts::remove_staged(&dir)?;
                std::fs::remove_dir(dir)
            }
        });
        match removing.await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(refused(ErrorKind::Io, op, path, error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) async fn remove(&self, path: &DsiPath) -> Result<()> {
        let meta = self.file("remove", path).await?;
        let removed = self.objects.delete(&meta.location).await;
        removed.map_err(|error| of("remove", path, error))
    }

    pub(crate) async fn remove_tree(&self, path: &DsiPath) -> Result<()> {
        const OP: &str = "remove";
        if path.is_root() {
            return denied(OP, path);
        }
        let key = match self.entry(OP, path).await? {
            Some(Entry::File(_)) => return self.remove(path).await,
            Some(Entry::Directory) => self.keys.key(OP, path)?,
            None => return Err(Error::new(ErrorKind::NotFound, OP).at(path)),
        };
        let keys = self.objects.list(Some(&key)).map_ok(|meta| meta.location);
        self.delete_all(keys.boxed())
            .await
            .map_err(|error| of(OP, path, error))?;
        self.remove_local(OP, path, &key, true).await
    }

    async fn delete_all(
        &self,
        keys: stream::BoxStream<'static, Result<Path, StoreError>>,
    ) -> Result<(), StoreError> {
        let mut deleted = self.objects.delete_stream(keys);
        while let Some(done) = deleted.next().await {
            match done {
                Err(error) if kind(&error) == ErrorKind::NotFound => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    pub(crate) async fn rename(&self, from: &DsiPath, to: &DsiPath) -> Result<()> {
        const OP: &str = "rename";
        if from.is_root() || to.is_root() {
            return denied(OP, from);
        }
        let (source, target) = (self.keys.key(OP, from)?, self.keys.key(OP, to)?);
        let Some(entry) = self.entry(OP, from).await? else {
            return Err(Error::new(ErrorKind::NotFound, OP).at(from));
        };
        if from == to {
            return Ok(());
        }
        self.has_parent(OP, to).await?;
        match (&entry, self.entry(OP, to).await?) {
            (Entry::File(_), Some(Entry::Directory)) => {
                return Err(Error::new(ErrorKind::IsDirectory, OP).at(to));
            }
            (Entry::Directory, Some(Entry::File(_))) => {
                return Err(Error::new(ErrorKind::NotDirectory, OP).at(to));
            }
            (Entry::File(_), _) => {}
            (Entry::Directory, there) => {
                if target.prefix_matches(&source) {
                    let why = "a directory cannot move into itself";
                    return Err(refused(ErrorKind::BadName, OP, to, why));
                }
                let page = self.page(&target, None, 3).await;
                let page = page.map_err(|error| of(OP, to, error))?;
                if there.is_some() && !page.entries.is_empty() {
                    return Err(Error::new(ErrorKind::NotEmpty, OP).at(to));
                }
            }
        }
        let objects = match entry {
            Entry::File(meta) => vec![meta],
            Entry::Directory => {
                let all = self.objects.list(Some(&source)).try_collect().await;
                all.map_err(|error| of(OP, from, error))?
            }
        };
        self.move_all(from, &source, &target, objects).await
    }

    /// Copies objects to the keys below `target`, and then removes them.
    async fn move_all(
        &self,
        path: &DsiPath,
        source: &Path,
        target: &Path,
        objects: Vec<ObjectMeta>,
    ) -> Result<()> {
        const OP: &str = "rename";
        if let Some(large) = objects.iter().find(|meta| meta.size > self.copy_limit) {
            let why = format!(
                "renaming is a copy, and the store copies at most {} bytes; {} has {}: upload it again under the new name",
                self.copy_limit, large.location, large.size
            );
            return Err(refused(ErrorKind::Denied, OP, path, why));
        }
        let failed = |error| of(OP, path, error);
        let mut pairs = Vec::with_capacity(objects.len());
        for meta in &objects {
            let key = meta.location.as_ref();
            let rest = key.strip_prefix(source.as_ref()).unwrap_or_default();
            let to = Path::parse(format!("{target}{rest}")).map_err(StoreError::from);
            pairs.push((meta.location.clone(), to.map_err(failed)?));
        }
        let copies = pairs.into_iter().map(|(from, to)| {
            let store = Arc::clone(&self.objects);
            async move { store.copy(&from, &to).await }
        });
        let copying = stream::iter(copies)
            .buffer_unordered(COPIES)
            .try_collect::<()>();
        copying.await.map_err(failed)?;
        let changed = self.remove_same(objects).await.map_err(failed)?;
        if let Some(changed) = changed {
            let why = format!(
                "{changed} was replaced while it was copied: both names are there, the new content under the old one"
            );
            return Err(refused(ErrorKind::Changed, OP, path, why));
        }
        let remaining = self.entry(OP, path).await?.is_some();
        match remaining {
            true => self.remove_local(OP, path, source, true).await,
            false => Ok(()),
        }
    }

    /// Removes objects that are still the listed ones; returns one that is not.
    ///
    /// `object_store` has no conditional removal, so they are compared right before.
    pub(crate) async fn remove_same(
        &self,
        objects: Vec<ObjectMeta>,
    ) -> Result<Option<Path>, StoreError> {
        let (mut same, mut changed) = (Vec::with_capacity(objects.len()), None);
        let heads = objects.into_iter().map(|copied| async move {
            let now = self.head(&copied.location).await?;
            let is_same = now.as_ref().map(|now| is_version(now, &copied));
            Ok::<_, StoreError>((copied.location, is_same))
        });
        let mut heads = stream::iter(heads).buffer_unordered(COPIES);
        while let Some(compared) = heads.next().await {
            match compared? {
                (location, Some(true)) => same.push(Ok(location)),
                (location, Some(false)) => changed = Some(location),
                // It is removed already.
                (_, None) => {}
            }
        }
        self.delete_all(stream::iter(same).boxed()).await?;
        Ok(changed)
    }
}

/// Whether two descriptions are of one version of an object: by the entity tag, which listings of
/// some stores write without quotes, else by the time, which they tell more exactly.
fn is_version(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    let tag = |meta: &ObjectMeta| Some(meta.e_tag.as_deref()?.trim_matches('"').to_owned());
    let is_same = match (tag(one), tag(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.last_modified.timestamp() == other.last_modified.timestamp(),
    };
    is_same && one.size == other.size
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt as _;

    use super::*;
    use crate::store::Config;

    #[tokio::test]
    async fn a_rename_above_the_limit_of_copies_says_so_and_moves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let config = Config::new(
            format!("file://{}", root.display()),
            dir.path().join("index"),
        );
        let mut store = Store::open(&config).unwrap();
        store.copy_limit = 3;
        for (key, content) in [("dir/a", "abc"), ("dir/b", "abcd")] {
            let key = Path::parse(key).unwrap();
            store.objects.put(&key, content.into()).await.unwrap();
        }
        let path = |text: &str| DsiPath::new(text.as_bytes()).unwrap();
        for (from, to) in [("/dir/b", "/c"), ("/dir", "/other")] {
            let error = store.rename(&path(from), &path(to)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied);
            let why = std::error::Error::source(&error).unwrap().to_string();
            assert!(
                why.contains("at most 3 bytes") && why.contains("dir/b has 4"),
                "{why}"
            );
            assert!(store.entry("stat", &path(to)).await.unwrap().is_none());
        }
        store.rename(&path("/dir/a"), &path("/a")).await.unwrap();
        assert!(
            store
                .entry("stat", &path("/dir/a"))
                .await
                .unwrap()
                .is_none()
        );
    }
}

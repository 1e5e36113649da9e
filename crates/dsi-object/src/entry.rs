//! `Entry`: the object or directory at a key, and the requests that find it.

use gridftp_dsi::{DsiPath, ErrorKind, Kind, Result, Stat};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{Error as StoreError, ListResult, ObjectMeta, ObjectStoreExt as _};

use crate::error::{kind, of, refused};
use crate::key::{Keys, MARKER};
use crate::local;
use crate::parts::Parts;
use crate::store::Store;

/// Entries of one page of a listing.
const PAGE: usize = 500;

/// An existing object or directory.
#[derive(Debug)]
pub(crate) enum Entry {
    File(ObjectMeta),
    Directory,
}

/// The entries directly below a directory.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Stat>,
    /// Whether the directory has an object that keeps it.
    pub(crate) is_kept: bool,
    /// Whether that is an object of another program, with the name of the directory and a slash.
    pub(crate) is_foreign: bool,
    /// The token of the next page.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Whether nothing at all has the prefix.
    pub(crate) fn is_void(&self) -> bool {
        self.entries.is_empty() && !self.is_kept && !self.is_foreign
    }
}

/// The facts of an object.
pub(crate) fn stat_of(name: &[u8], meta: &ObjectMeta) -> Stat {
    let mut stat = Stat::new(name, Kind::File);
    stat.size = meta.size;
    let time = meta.last_modified;
    stat.modified = (time.timestamp(), time.timestamp_subsec_nanos());
    stat
}

impl Store {
    /// The facts of an object; `None` if there is none.
    pub(crate) async fn head(&self, key: &Path) -> Result<Option<ObjectMeta>, StoreError> {
        if let Parts::Local(files) = &self.parts
            && !local::may_open(files, key).await?
        {
            return Ok(None);
        }
        match self.objects.head(key).await {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if kind(&error) == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One page of the entries directly below a directory.
    pub(crate) async fn page(
        &self,
        dir: &Path,
        token: Option<String>,
        most: usize,
    ) -> Result<Page, StoreError> {
        let Some(pages) = &self.pages else {
            let found = match &self.parts {
                Parts::Local(files) => local::list(files, dir).await?,
                Parts::Store(..) => self.objects.list_with_delimiter(Some(dir)).await?,
            };
            return Ok(page_of(dir, found));
        };
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(most.min(PAGE)),
            page_token: token,
            ..PaginatedListOptions::default()
        };
        let below = Keys::below(dir);
        let prefix = Some(below.as_str()).filter(|prefix| !prefix.is_empty());
        let page = pages.list_paginated(prefix, options).await?;
        Ok(Page {
            next: page.page_token,
            ..page_of(dir, page.result)
        })
    }

    /// Whether there is a directory: an object below it, or its marker.
    pub(crate) async fn is_dir(&self, dir: &Path) -> Result<bool, StoreError> {
        if let Parts::Local(files) = &self.parts {
            return Ok(files.path_to_filesystem(dir)?.is_dir());
        }
        Ok(!self.page(dir, None, 1).await?.is_void())
    }

    /// The object or directory at a path; `None` if there is neither.
    pub(crate) async fn entry(&self, op: &'static str, path: &DsiPath) -> Result<Option<Entry>> {
        if path.is_root() {
            return Ok(Some(Entry::Directory));
        }
        let key = self.keys.key(op, path)?;
        let failed = |error| of(op, path, error);
        if let Some(meta) = self.head(&key).await.map_err(failed)? {
            return Ok(Some(Entry::File(meta)));
        }
        let is_dir = self.is_dir(&key).await.map_err(failed)?;
        Ok(is_dir.then_some(Entry::Directory))
    }

    /// The object at a path.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`].
    pub(crate) async fn file(&self, op: &'static str, path: &DsiPath) -> Result<ObjectMeta> {
        match self.entry(op, path).await? {
            Some(Entry::File(meta)) => Ok(meta),
            Some(Entry::Directory) => {
                Err(gridftp_dsi::Error::new(ErrorKind::IsDirectory, op).at(path))
            }
            None => Err(gridftp_dsi::Error::new(ErrorKind::NotFound, op).at(path)),
        }
    }

    /// Checks that the directory of a new name exists.
    pub(crate) async fn has_parent(&self, op: &'static str, path: &DsiPath) -> Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else {
            return Ok(());
        };
        let key = self.keys.key(op, &parent)?;
        let failed = |error| of(op, path, error);
        if self.is_dir(&key).await.map_err(failed)? {
            return Ok(());
        }
        // A name below a file differs from one in a missing directory.
        let mut up = Some(parent);
        while let Some(dir) = up.filter(|dir| !dir.is_root()) {
            let key = self.keys.key(op, &dir)?;
            if self.head(&key).await.map_err(failed)?.is_some() {
                let why = format!("{dir} is a file");
                return Err(refused(ErrorKind::NotDirectory, op, path, why));
            }
            up = dir.parent();
        }
        let why = "its directory does not exist";
        Err(refused(ErrorKind::NotFound, op, path, why))
    }
}

fn page_of(dir: &Path, result: ListResult) -> Page {
    let mut page = Page {
        entries: Vec::new(),
        is_kept: false,
        is_foreign: false,
        next: None,
    };
    for meta in result.objects {
        match meta.location.filename() {
            _ if meta.location == *dir => page.is_foreign = true,
            Some(MARKER) => page.is_kept = true,
            Some(name) => page.entries.push(stat_of(name.as_bytes(), &meta)),
            None => {}
        }
    }
    for prefix in result.common_prefixes {
        let name = prefix.filename().unwrap_or_default();
        page.entries.push(Stat::new(name, Kind::Directory));
    }
    page
}

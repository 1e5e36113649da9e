//! `ObjectListing`: the entries below a prefix, page by page.

use std::sync::Arc;

use gridftp_dsi::{DsiPath, ErrorKind, Listing, Result, Stat};
use object_store::path::Path;

use crate::error::{of, refused};
use crate::store::Store;

/// Most entries of a batch.
const BATCH: usize = 500;

/// A directory being listed.
#[derive(Debug)]
pub struct ObjectListing {
    store: Arc<Store>,
    path: DsiPath,
    dir: Path,
    /// Entries of the page that were not returned.
    ready: Vec<Stat>,
    /// The token of the next page.
    next: Option<String>,
}

impl ObjectListing {
    pub(crate) async fn open(store: &Arc<Store>, path: &DsiPath) -> Result<Self> {
        let dir = store.keys.key("list", path)?;
        let failed = |error| of("list", path, error);
        let page = store.page(&dir, None, BATCH).await.map_err(failed)?;
        // An empty directory has its marker; a local one exists without.
        if page.is_void() && !path.is_root() && !store.is_dir(&dir).await.map_err(failed)? {
            let is_file = store.head(&dir).await.map_err(failed)?.is_some();
            let kind = if is_file {
                ErrorKind::NotDirectory
            } else {
                ErrorKind::NotFound
            };
            return Err(refused(kind, "list", path, "no object has this prefix"));
        }
        Ok(Self {
            store: Arc::clone(store),
            path: path.clone(),
            dir,
            ready: page.entries,
            next: page.next,
        })
    }
}

impl Listing for ObjectListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        while self.ready.is_empty() {
            let Some(token) = self.next.take() else {
                return Ok(Vec::new());
            };
            let page = self.store.page(&self.dir, Some(token), BATCH).await;
            let page = page.map_err(|error| of("list", &self.path, error))?;
            (self.ready, self.next) = (page.entries, page.next);
        }
        let rest = self.ready.split_off(self.ready.len().min(BATCH));
        Ok(std::mem::replace(&mut self.ready, rest))
    }
}

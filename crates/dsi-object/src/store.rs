//! `Config` and `Store`: a store with its settings, and the sizes of its parts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gridftp_dsi::{Budget, Error, ErrorKind, Result};
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    Attributes, Error as StoreError, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
};

use crate::error::refused;
use crate::handles::{Handles, failed};
use crate::journal::Index;
use crate::key::Keys;
use crate::outcome::Mark;
use crate::parts::Parts;
use crate::url::{Scheme, Url};

/// Least bytes of a part, unless the configuration says otherwise.
const LEAST_PART: u64 = 8 << 20;

/// Most bytes of a part when the length of the object is unknown.
const UNKNOWN_PART: u64 = 128 << 20;

/// Number of parts into which a large object is cut, below [`MOST_PARTS`] since it may grow.
const USUAL_PARTS: u64 = 9_000;

/// Parts of unknown length for which there is memory: each upload has one from its start on.
const AT_A_TIME: u64 = 8;

/// Most parts of an object in S3; Azure has more.
pub(crate) const MOST_PARTS: u64 = 10_000;

/// A store and its settings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `file:///path`. Every
    /// byte of the prefix counts: no part of it is decoded.
    pub url: String,
    /// URL of the service in place of the provider's own; `http:` without TLS.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// File with credentials, one `NAME=VALUE` a line, which take precedence over the environment.
    pub credentials: Option<PathBuf>,
    /// Directory of the journals of uploads.
    pub index: PathBuf,
    /// Bytes of a part; `None` derives them from the length of the object.
    pub part: Option<u64>,
    /// Most bytes read ahead for one open object.
    pub read_ahead: u64,
    /// Read-ahead of all open objects together, beyond one request (8 MiB) of each.
    pub read_memory: Budget,
    /// Bytes in memory for the parts of all uploads, which the caller bounds: a part of an object of
    /// unknown length takes an eighth of it, or 8 MiB, and no part takes more than all.
    pub memory: u64,
    /// Longest time in which the store takes a part whose request was given up.
    pub late: Duration,
    /// Longest time in which a request is repeated after `503 Slow Down` and similar refusals.
    pub retry: Duration,
}

impl Config {
    /// The settings of the store at `url`, with journals in the directory `index`.
    pub fn new(url: impl Into<String>, index: impl Into<PathBuf>) -> Self {
        Self {
            url: url.into(),
            endpoint: None,
            region: None,
            credentials: None,
            index: index.into(),
            part: None,
            read_ahead: 64 << 20,
            read_memory: Budget::default(),
            memory: 2 * UNKNOWN_PART,
            late: Duration::from_secs(5),
            retry: Duration::from_secs(120),
        }
    }

    /// Checks the form of the URL and the length of parts.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`] for any other form, [`ErrorKind::TooLarge`] for parts that are empty
    /// or do not fit into the memory.
    pub fn check(&self) -> Result<()> {
        Url::parse(&self.url)?;
        let part = self.part.unwrap_or(LEAST_PART);
        if (1..=self.memory).contains(&part) {
            return Ok(());
        }
        let fact = format!(
            "a part of {part} bytes is empty or does not fit into the {} bytes for parts",
            self.memory
        );
        Err(Error::new(ErrorKind::TooLarge, "open store").because(fact))
    }
}

/// The handles to a store.
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) parts: Parts,
    /// Listing in pages; `None` for a local directory.
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) keys: Keys,
    pub(crate) index: Index,
    /// Largest object that one request copies.
    pub(crate) copy_limit: u64,
    pub(crate) read_ahead: u64,
    pub(crate) read_memory: Budget,
    pub(crate) late: Duration,
    part: Option<u64>,
    memory: u64,
    url: String,
    pub(crate) identity: Option<String>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.url).finish()
    }
}

impl Store {
    /// Connects to nothing yet: a wrong key shows with the first request.
    pub(crate) fn open(config: &Config) -> Result<Self> {
        config.check()?;
        let url = Url::parse(&config.url)?;
        let handles = Handles::open(config, &url)?;
        // A directory is the root of its handles.
        let prefix = match url.scheme {
            Scheme::Local => "",
            _ => url.prefix,
        };
        // Buckets of one name may be in several services.
        let name = [config.endpoint.as_deref().unwrap_or_default(), &config.url].join(" ");
        let index = Index::open(&config.index, name.trim())
            .map_err(|error| failed(error).at(config.index.display()))?;
        Ok(Self {
            objects: handles.objects,
            parts: handles.parts,
            pages: handles.pages,
            copy_limit: handles.copy_limit,
            keys: Keys::new(prefix)?,
            index,
            read_ahead: config.read_ahead,
            read_memory: config.read_memory.clone(),
            late: config.late,
            part: config.part,
            memory: config.memory,
            identity: url.identity(),
            url: config.url.clone(),
        })
    }

    /// Puts an object where there is none; a store without such a condition is looked at before.
    pub(crate) async fn create(
        &self,
        key: &Path,
        data: Bytes,
        attributes: Attributes,
    ) -> Result<(), StoreError> {
        let put = |mode: PutMode| {
            let attributes = attributes.clone();
            let how = PutOptions {
                mode,
                attributes,
                ..PutOptions::default()
            };
            self.objects.put_opts(key, data.clone().into(), how)
        };
        let done = match put(PutMode::Create).await {
            Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
                if self.head(key).await?.is_some() {
                    return Err(StoreError::AlreadyExists {
                        path: key.to_string(),
                        source: "the store has no conditions".into(),
                    });
                }
                put(PutMode::Overwrite).await
            }
            done => done,
        };
        done.map(drop)
    }

    /// Publishes an object in one request; one with a mark replaces nothing.
    pub(crate) async fn put(
        &self,
        key: &Path,
        data: Bytes,
        mark: Option<&Mark>,
    ) -> Result<(), StoreError> {
        let Parts::Local(_) = self.parts else {
            return match mark {
                Some(mark) => self.create(key, data, mark.attributes()).await,
                None => self.objects.put(key, data.into()).await.map(drop),
            };
        };
        let size = data.len() as u64;
        let upload = self.parts.begin(key, size.max(1)).await?;
        let published = async {
            let part = self.parts.put(&upload, 0, data).await?;
            self.parts
                .complete(&upload, vec![part], size, mark.is_some())
                .await
        };
        match published.await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.parts.abort(&upload).await?;
                Err(error)
            }
        }
    }

    /// Bytes of the parts of an object whose length is `size`.
    pub(crate) fn part_for(&self, size: Option<u64>) -> u64 {
        let least = self.least_part();
        let Some(size) = size else {
            let most = (self.memory / AT_A_TIME).clamp(least, UNKNOWN_PART.max(least));
            return self.part.unwrap_or(most);
        };
        let even = size.div_ceil(USUAL_PARTS);
        if even <= least {
            return least;
        }
        match even.next_multiple_of(1 << 20) {
            // More parts than usual, rather than such for which there is no memory.
            round if round > self.memory && size.div_ceil(MOST_PARTS) <= self.memory => self.memory,
            round => round,
        }
    }

    /// Bytes of the parts of a small object.
    pub(crate) fn least_part(&self) -> u64 {
        self.part.unwrap_or(LEAST_PART)
    }
}

/// The largest object of S3, in bytes; a client announces any size.
const MOST: u64 = 5 << 40;

/// The bytes of a part of an object of this size.
///
/// # Errors
/// `TooLarge` for an object that no store takes, or whose parts do not fit into the memory.
pub(crate) fn part_of(
    store: &Store,
    path: &gridftp_dsi::DsiPath,
    size: Option<u64>,
) -> Result<u64> {
    let part = store.part_for(size);
    let why = match size {
        Some(size) if size > MOST => format!("{size} bytes are more than a store takes"),
        Some(size) if part > store.memory => format!(
            "{size} bytes take {MOST_PARTS} parts of {} bytes, and there are {} bytes of memory for parts",
            size.div_ceil(MOST_PARTS),
            store.memory
        ),
        _ => return Ok(part),
    };
    Err(refused(ErrorKind::TooLarge, "write", path, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_into_the_limit_of_ten_thousand() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        let mut config = Config::new(url, dir.path().join("index"));
        let store = Store::open(&config).unwrap();
        assert_eq!(store.part_for(None), 32 << 20);
        for size in [0, 1, 1 << 30, 80 << 30, 5 << 40] {
            let part = store.part_for(Some(size));
            assert!(
                part >= 8 << 20 && size.div_ceil(part) <= 9000,
                "{size}: {part}"
            );
        }
        config.memory = 1 << 30;
        assert_eq!(Store::open(&config).unwrap().part_for(None), 128 << 20);
        config.memory = 64 << 20;
        let store = Store::open(&config).unwrap();
        // Many slow uploads of unknown length have room beside each other.
        assert_eq!(store.part_for(None), 8 << 20);
        let path = gridftp_dsi::DsiPath::root();
        for (size, part) in [(9_000, 64), (9_500, 64), (10_000, 64), (4_500, 32)] {
            let size = Some(size * (64 << 20));
            assert_eq!(
                part_of(&store, &path, size).unwrap(),
                part << 20,
                "{size:?}"
            );
        }
        let most = 10_000 * (64 << 20);
        let refused = part_of(&store, &path, Some(most + 1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(why.contains("67108864 bytes of memory"), "{why}");
        config.memory = 8 << 20;
        let store = Store::open(&config).unwrap();
        assert_eq!(store.part_for(None), 8 << 20);
        for wrong in [0, 9 << 20] {
            config.part = Some(wrong);
            let error = Store::open(&config).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        }
        config.part = Some(1000);
        let store = Store::open(&config).unwrap();
        assert_eq!(
            (store.part_for(None), store.part_for(Some(0))),
            (1000, 1000)
        );
    }
}

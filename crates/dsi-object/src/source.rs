//! `ObjectSource`: an object read in chunks, several of them ahead, within bounded memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result, Source};
use object_store::{GetOptions, ObjectMeta, ObjectStoreExt as _};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::error::{kind, of, refused};
use crate::store::Store;

/// Bytes of one request.
const CHUNK: u64 = 4 << 20;

/// An object open for reading.
///
/// Every request names the entity tag of the opened version, so a replaced object is an error and
/// never a mixture.
pub struct ObjectSource {
    object: Arc<Opened>,
    chunks: Mutex<Chunks>,
    /// Most chunks in memory.
    most: u64,
}

struct Opened {
    store: Arc<Store>,
    path: DsiPath,
    meta: ObjectMeta,
}

/// The chunks in memory or on their way.
#[derive(Default)]
struct Chunks {
    known: BTreeMap<u64, Chunk>,
    /// Number of uses, which dates the chunks.
    uses: u64,
    /// The chunk after the last one that was asked for.
    next: u64,
    /// Number of chunks read ahead; it grows while the reader continues.
    ahead: u64,
}

struct Chunk {
    bytes: Arc<OnceCell<Bytes>>,
    used: u64,
    task: JoinHandle<()>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectSource")
            .field(&self.object.meta.location)
            .finish()
    }
}

impl ObjectSource {
    pub(crate) fn new(store: &Arc<Store>, path: &DsiPath, meta: ObjectMeta) -> Self {
        Self {
            most: (store.read_ahead / CHUNK).max(1),
            object: Arc::new(Opened {
                store: Arc::clone(store),
                path: path.clone(),
                meta,
            }),
            chunks: Mutex::default(),
        }
    }

    /// The chunk `index`, and begins to read those after it.
    fn chunk(&self, index: u64) -> Arc<OnceCell<Bytes>> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let chunks = &mut *chunks;
        chunks.uses += 1;
        if index == chunks.next {
            chunks.ahead = (chunks.ahead * 2 + 1).min(self.most - 1);
            chunks.next = index + 1;
        } else if !chunks.known.contains_key(&index) {
            chunks.ahead = 0;
            chunks.next = index + 1;
        }
        let end = self.object.meta.size.div_ceil(CHUNK);
        for wanted in index..end.min(index + chunks.ahead + 1).max(index + 1) {
            let used = chunks.uses;
            let chunk = chunks.known.entry(wanted).or_insert_with(|| {
                let bytes = Arc::new(OnceCell::new());
                let (object, cell) = (Arc::clone(&self.object), Arc::clone(&bytes));
                let task = tokio::spawn(async move {
                    // The reader repeats a failed request and gets its error.
                    let _ = cell.get_or_try_init(|| object.fetch(wanted)).await;
                });
                Chunk { bytes, used, task }
            });
            chunk.used = used;
        }
        while chunks.known.len() as u64 > self.most {
            let oldest = chunks
                .known
                .iter()
                .min_by_key(|(at, chunk)| (chunk.used, **at));
            let Some(oldest) = oldest.map(|(at, _)| *at).filter(|at| *at != index) else {
                break;
            };
            chunks.known.remove(&oldest);
        }
        match chunks.known.get(&index) {
            Some(chunk) => Arc::clone(&chunk.bytes),
            None => Arc::default(),
        }
    }
}

impl Opened {
    /// The entity tag, if requests can be conditional on it.
    fn tag(&self) -> Option<&str> {
        let tag = self.meta.e_tag.as_deref();
        tag.filter(|tag| !tag.starts_with("W/"))
    }

    async fn fetch(&self, index: u64) -> Result<Bytes> {
        let start = index * CHUNK;
        let end = self.meta.size.min(start.saturating_add(CHUNK));
        let options = GetOptions {
            range: Some((start..end).into()),
            if_match: self.tag().map(str::to_owned),
            ..GetOptions::default()
        };
        let got = async {
            let got = self.store.objects.get_opts(&self.meta.location, options);
            got.await?.bytes().await
        };
        let bytes = got.await.map_err(|error| match kind(&error) {
            ErrorKind::NotFound => self.changed(error),
            _ => of("read", &self.path, error),
        })?;
        if bytes.len() as u64 != end - start {
            return Err(self.changed("the store sent another number of bytes"));
        }
        Ok(bytes)
    }

    fn changed(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        refused(ErrorKind::Changed, "read", &self.path, why)
    }
}

impl Source for ObjectSource {
    fn size(&self) -> u64 {
        self.object.meta.size
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        if offset >= self.size() {
            return Ok(into);
        }
        let index = offset / CHUNK;
        let cell = self.chunk(index);
        let bytes = cell.get_or_try_init(|| self.object.fetch(index)).await?;
        let from = usize::try_from(offset % CHUNK).unwrap_or(usize::MAX);
        let rest = bytes.get(from..).unwrap_or_default();
        let room = into.capacity() - into.len();
        into.extend_from_slice(rest.get(..room).unwrap_or(rest));
        Ok(into)
    }

    async fn unchanged(&self) -> Result<()> {
        let opened = &self.object.meta;
        // One request with its condition cannot mix two versions.
        if opened.size <= CHUNK && self.object.tag().is_some() {
            return Ok(());
        }
        let now = self.object.store.objects.head(&opened.location).await;
        let now = now.map_err(|error| match kind(&error) {
            ErrorKind::NotFound => self.object.changed(error),
            _ => of("stat", &self.object.path, error),
        })?;
        let same = (now.size, &now.e_tag, now.last_modified)
            == (opened.size, &opened.e_tag, opened.last_modified);
        match same {
            true => Ok(()),
            false => Err(self.object.changed("another object has this name now")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Config;

    fn byte(at: usize) -> u8 {
        at.wrapping_mul(31).wrapping_add(at >> 16).to_le_bytes()[0]
    }

    #[tokio::test]
    async fn readers_in_several_places_share_bounded_memory() {
        const SIZE: usize = (18 << 20) + 5;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("file"), (0..SIZE).map(byte).collect::<Vec<_>>()).unwrap();
        for (read_ahead, most) in [(0, 1), (9 << 20, 2), (32 << 20, 8)] {
            let mut config =
                Config::new(format!("file://{}", root.display()), dir.path().join("i"));
            config.read_ahead = read_ahead;
            let store = Arc::new(Store::open(&config).unwrap());
            let path = DsiPath::new(b"/file").unwrap();
            let meta = store.file("open", &path).await.unwrap();
            let source = ObjectSource::new(&store, &path, meta);
            let mut places = [(0, 6 << 20), (6 << 20, 12 << 20), (12 << 20, SIZE)];
            while places.iter().any(|(at, end)| at < end) {
                for (at, end) in &mut places {
                    let room = (*end - *at).min(700_000);
                    let offset = *at as u64;
                    let read = source
                        .read_at(offset, BytesMut::with_capacity(room))
                        .await
                        .unwrap();
                    assert!(read.len() <= room.max(1), "{} of {room}", read.len());
                    for (n, found) in read.iter().enumerate() {
                        assert_eq!(*found, byte(*at + n), "at {}", *at + n);
                    }
                    *at += read.len();
                    let known = source.chunks.lock().unwrap().known.len();
                    assert!(known <= most, "{known} chunks in memory");
                }
            }
            source.unchanged().await.unwrap();
        }
    }
}

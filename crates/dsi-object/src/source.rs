//! `ObjectSource`: an object read in chunks, several of them ahead, within bounded memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result, Source};
use object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStoreExt as _};

use crate::chunk::{Arrived, Chunk};
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
    /// Each with its last use.
    known: BTreeMap<u64, (Arc<Chunk>, u64)>,
    /// Number of uses, which dates the chunks.
    uses: u64,
    /// The chunk after the last one that was asked for.
    next: u64,
    /// Number of chunks read ahead; it grows while the reader continues.
    ahead: u64,
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

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chunk `index`, and begins to read those after it. One that is not kept is read as long
    /// as the caller has it.
    fn chunk(&self, index: u64) -> Arc<Chunk> {
        let mut chunks = self.chunks();
        let chunks = &mut *chunks;
        chunks.uses += 1;
        if index == chunks.next {
            chunks.ahead = (chunks.ahead * 2 + 1).min(self.most - 1);
            chunks.next = index + 1;
        } else if !chunks.known.contains_key(&index) {
            chunks.ahead = 0;
            chunks.next = index + 1;
        }
        let uses = chunks.uses;
        let mut get = |wanted| {
            let (chunk, used) = chunks.known.entry(wanted).or_insert_with(|| {
                let object = Arc::clone(&self.object);
                let request = move |arrived: Arc<Arrived>| async move {
                    object.fetch(wanted, &arrived).await
                };
                (Arc::new(Chunk::begin(request)), uses)
            });
            *used = uses;
            Arc::clone(chunk)
        };
        let asked = get(index);
        let end = self.object.meta.size.div_ceil(CHUNK);
        for wanted in index + 1..end.min(index + chunks.ahead + 1) {
            get(wanted);
        }
        while chunks.known.len() as u64 > self.most {
            let others = chunks.known.iter().filter(|(at, _)| **at != index);
            let oldest = others.min_by_key(|(at, (_, used))| (*used, **at));
            let Some(oldest) = oldest.map(|(at, _)| *at) else {
                break;
            };
            chunks.known.remove(&oldest);
        }
        asked
    }

    /// Forgets a chunk that failed, which is then read anew if another reader has got its error.
    fn forget(&self, index: u64, failed: &Arc<Chunk>, error: Option<Error>) -> Result<()> {
        let mut chunks = self.chunks();
        let is_it = |(known, _): &(Arc<Chunk>, u64)| Arc::ptr_eq(known, failed);
        if chunks.known.get(&index).is_some_and(is_it) {
            chunks.known.remove(&index);
        }
        error.map_or(Ok(()), Err)
    }
}

impl Opened {
    /// The entity tag, if requests can be conditional on it.
    fn tag(&self) -> Option<&str> {
        let tag = self.meta.e_tag.as_deref();
        tag.filter(|tag| !tag.starts_with("W/"))
    }

    /// Reads the chunk `index`.
    async fn fetch(&self, index: u64, into: &Arrived) -> Result<()> {
        let start = index * CHUNK;
        let end = self.meta.size.min(start.saturating_add(CHUNK));
        let options = GetOptions {
            range: Some((start..end).into()),
            if_match: self.tag().map(str::to_owned),
            ..GetOptions::default()
        };
        let failed = |error| match kind(&error) {
            ErrorKind::NotFound => self.changed(error),
            _ => of("read", &self.path, error),
        };
        let got = self.store.objects.get_opts(&self.meta.location, options);
        let got = got.await.map_err(failed)?;
        let mut len = 0;
        if let GetResultPayload::File(..) = got.payload {
            len = into.push(got.bytes().await.map_err(failed)?);
        } else {
            let mut pieces = got.into_stream();
            while let Some(piece) = pieces.next().await
                && len <= end - start
            {
                len = into.push(piece.map_err(failed)?);
            }
        }
        match len == end - start {
            true => Ok(()),
            false => Err(self.changed("the store sent another number of bytes")),
        }
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
        let room = into.capacity() - into.len();
        let bytes = self.lend(offset, room as u64).await?;
        into.extend_from_slice(&bytes);
        Ok(into)
    }

    fn lends(&self) -> bool {
        true
    }

    async fn lend(&self, offset: u64, len: u64) -> Result<Bytes> {
        if offset >= self.size() || len == 0 {
            return Ok(Bytes::new());
        }
        let index = offset / CHUNK;
        loop {
            let chunk = self.chunk(index);
            match chunk.read(offset % CHUNK).await {
                Ok(mut bytes) => {
                    bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
                    return Ok(bytes);
                }
                Err(error) => self.forget(index, &chunk, error)?,
            }
        }
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

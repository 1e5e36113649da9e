//! `ObjectSource`: an object read in chunks, several of them ahead, within bounded memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Place, Result, Source};
use object_store::{GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStoreExt as _};

use crate::chunk::{Arrived, Chunk};
use crate::error::{kind, of, refused};
use crate::store::Store;

/// Bytes of one request. Longer ones cost a store less, but fewer of them fit into the budget, and
/// with fewer chunks than connections most requests are little ones.
const CHUNK: u64 = 4 << 20;

/// Chunks of one source outside the budget: the current one and the next.
const OWN: usize = 2;

/// Most bytes of a request without a chunk.
const LITTLE: u64 = 256 << 10;

/// Number of uses of other chunks after which a chunk may be dropped.
const STALE: u64 = 256;

/// An object open for reading.
///
/// Every request names the entity tag of the opened version, so a replaced object is an error and
/// never a mixture.
pub struct ObjectSource {
    object: Arc<Opened>,
    chunks: Mutex<Chunks>,
    /// Most chunks in memory.
    most: u64,
    /// The reader, charged in the budget of all downloads.
    user: Arc<str>,
}

struct Opened {
    store: Arc<Store>,
    path: DsiPath,
    meta: ObjectMeta,
}

/// The chunks in memory or on their way, until they are read.
#[derive(Default)]
struct Chunks {
    /// Each with its last use.
    known: BTreeMap<u64, (Arc<Chunk>, u64)>,
    /// Number of uses, which dates the chunks.
    uses: u64,
    /// The chunk after the last requested one.
    next: u64,
    /// The chunk after all begun ones.
    begun: u64,
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
    pub(crate) fn new(store: &Arc<Store>, user: &str, path: &DsiPath, meta: ObjectMeta) -> Self {
        Self {
            user: user.into(),
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

    /// The chunk `index` for a reader at `offset` in it, with the next ones begun behind it; `None`
    /// without room for it.
    fn chunk(&self, index: u64, offset: u64) -> Option<Arc<Chunk>> {
        let mut chunks = self.chunks();
        let chunks = &mut *chunks;
        chunks.uses += 1;
        chunks.known.retain(|_, (chunk, _)| !chunk.is_read());
        let is_behind = index < chunks.next && index + self.most >= chunks.next;
        if index == chunks.next {
            chunks.ahead = (chunks.ahead * 2 + 1).min(self.most - 1);
            chunks.next = index + 1;
        } else if !is_behind && !chunks.known.contains_key(&index) {
            chunks.ahead = 0;
            (chunks.next, chunks.begun) = (index + 1, index);
        }
        let asked = self.begin(chunks, index, offset).or_else(|| {
            let oldest = chunks.known.iter().min_by_key(|(_, (_, used))| *used);
            let (oldest, used) = oldest.map(|(at, (_, used))| (*at, *used))?;
            if chunks.uses - used < STALE {
                return None;
            }
            chunks.known.remove(&oldest);
            self.begin(chunks, index, offset)
        });
        let end = self.object.meta.size.div_ceil(CHUNK);
        for wanted in index + 1..end.min(index + chunks.ahead + 1) {
            let is_passed = wanted < chunks.begun && !chunks.known.contains_key(&wanted);
            if !is_passed && self.begin(chunks, wanted, 0).is_none() {
                break;
            }
        }
        asked
    }

    /// The chunk `index`, begun if there is room: from its start, or from `offset` in it behind other
    /// readers.
    fn begin(&self, chunks: &mut Chunks, index: u64, offset: u64) -> Option<Arc<Chunk>> {
        if let Some((chunk, used)) = chunks.known.get_mut(&index) {
            *used = chunks.uses;
            return Some(Arc::clone(chunk));
        }
        let place = self.room(chunks)?;
        let start = if index < chunks.begun { offset } else { 0 };
        chunks.begun = chunks.begun.max(index + 1);
        let object = Arc::clone(&self.object);
        let request =
            move |arrived: Arc<Arrived>| async move { object.fetch(index, start, &arrived).await };
        let chunk = Arc::new(Chunk::begin(start, place, request));
        let known = (Arc::clone(&chunk), chunks.uses);
        chunks.known.insert(index, known);
        Some(chunk)
    }

    /// Room for one more chunk: one of the own ones, or a place in the budget.
    fn room(&self, chunks: &Chunks) -> Option<Option<Place>> {
        if chunks.known.len() as u64 >= self.most {
            return None;
        }
        let own = |(chunk, _): &&(Arc<Chunk>, u64)| chunk.place.is_none();
        if chunks.known.values().filter(own).count() < OWN {
            return Some(None);
        }
        let memory = &self.object.store.read_memory;
        memory.take(&self.user, CHUNK).map(Some)
    }

    /// Forgets a failed chunk, or one with these bytes read: the next reader requests it anew.
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

    /// Requests a range.
    async fn get(&self, start: u64, end: u64) -> Result<GetResult> {
        let options = GetOptions {
            range: Some((start..end).into()),
            if_match: self.tag().map(str::to_owned),
            ..GetOptions::default()
        };
        let got = self.store.objects.get_opts(&self.meta.location, options);
        got.await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: object_store::Error) -> Error {
        match kind(&error) {
            ErrorKind::NotFound => self.changed(error),
            _ => of("read", &self.path, error),
        }
    }

    /// Reads the chunk `index` from `start` in it on.
    async fn fetch(&self, index: u64, start: u64, into: &Arrived) -> Result<()> {
        let base = index * CHUNK;
        let end = self.meta.size.min(base.saturating_add(CHUNK));
        let got = self.get(base + start, end).await?;
        let mut len = start;
        if let GetResultPayload::File(..) = got.payload {
            len = into.push(got.bytes().await.map_err(|error| self.failed(error))?);
        } else {
            let mut pieces = got.into_stream();
            while let Some(piece) = pieces.next().await
                && len <= end - base
            {
                len = into.push(piece.map_err(|error| self.failed(error))?);
            }
        }
        self.must_be(len, end - base)
    }

    /// Reads at most `len` bytes from `offset`, too few to need room.
    async fn little(&self, offset: u64, len: u64) -> Result<Bytes> {
        let end = self.meta.size.min(offset + len.min(LITTLE));
        let got = self.get(offset, end).await?;
        let bytes = got.bytes().await.map_err(|error| self.failed(error))?;
        self.must_be(bytes.len() as u64, end - offset)?;
        Ok(bytes)
    }

    fn must_be(&self, len: u64, wanted: u64) -> Result<()> {
        match len == wanted {
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
        let (index, skip) = (offset / CHUNK, offset % CHUNK);
        let most = usize::try_from(len).unwrap_or(usize::MAX);
        loop {
            let Some(chunk) = self.chunk(index, skip) else {
                return self.object.little(offset, len).await;
            };
            match chunk.read(skip, most).await {
                Ok(bytes) => return Ok(bytes),
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
    use gridftp_dsi::Budget;

    use super::*;
    use crate::store::Config;

    /// Bytes that repeat after a length in which no chunk ends.
    fn content(size: usize) -> Vec<u8> {
        let period: Vec<u8> = (0..65_521_usize)
            .map(|at| at.wrapping_mul(31).wrapping_add(at >> 8).to_le_bytes()[0])
            .collect();
        let mut content = period.repeat(size.div_ceil(period.len()));
        content.truncate(size);
        content
    }

    #[tokio::test]
    async fn readers_in_several_places_share_bounded_memory() {
        const SIZE: usize = (18 << 20) + 5;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let content = content(SIZE);
        std::fs::write(root.join("file"), &content).unwrap();
        for (read_ahead, most) in [(0, 1), (9 << 20, 2), (32 << 20, 8)] {
            let mut config =
                Config::new(format!("file://{}", root.display()), dir.path().join("i"));
            config.read_ahead = read_ahead;
            let store = Arc::new(Store::open(&config).unwrap());
            let path = DsiPath::new(b"/file").unwrap();
            let meta = store.file("open", &path).await.unwrap();
            let source = ObjectSource::new(&store, "ann", &path, meta);
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
                    assert!(read == content[*at..*at + read.len()], "at {at}");
                    *at += read.len();
                    let known = source.chunks.lock().unwrap().known.len();
                    assert!(known <= most, "{known} chunks in memory");
                }
            }
            source.unchanged().await.unwrap();
        }
    }

    /// Reads one byte of each chunk, so that all of them stay in memory.
    async fn touch(source: &ObjectSource) -> usize {
        for index in 0..source.size().div_ceil(CHUNK) {
            let at = index * CHUNK;
            let read = source.lend(at, 1).await.unwrap();
            assert_eq!(read.len(), 1);
        }
        source.chunks().known.len()
    }

    #[tokio::test]
    async fn all_sources_of_all_users_read_ahead_within_one_budget() {
        const SIZE: usize = 8 << 22;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let content = content(SIZE);
        std::fs::write(root.join("file"), &content).unwrap();
        let mut config = Config::new(format!("file://{}", root.display()), dir.path().join("i"));
        config.read_memory = Budget::new(8 * CHUNK);
        let stores = [
            Arc::new(Store::open(&config).unwrap()),
            Arc::new(Store::open(&config).unwrap()),
        ];
        let path = DsiPath::new(b"/file").unwrap();
        let meta = stores[0].file("open", &path).await.unwrap();
        let open = |user, store| ObjectSource::new(store, user, &path, meta.clone());
        let chunks = || config.read_memory.taken() / CHUNK;

        let first = open("ann", &stores[0]);
        assert_eq!((touch(&first).await, chunks()), (OWN + 4, 4));
        let second = open("ann", &stores[1]);
        assert_eq!((touch(&second).await, chunks()), (OWN, 4));
        let other = open("bob", &stores[1]);
        assert_eq!((touch(&other).await, chunks()), (OWN + 2, 6));

        // Without room, a source still serves all bytes, and returns them once read.
        for (source, left) in [(&second, 6), (&first, 2), (&other, 0)] {
            let mut at = 0;
            while at < SIZE {
                let read = source.lend(at as u64, 1 << 20).await.unwrap();
                assert!(read == content[at..at + read.len()], "at {at}");
                at += read.len();
            }
            source
                .chunks()
                .known
                .retain(|_, (chunk, _)| !chunk.is_read());
            assert_eq!(chunks(), left);
        }
        assert!(touch(&open("cat", &stores[0])).await > OWN);
        drop((first, second, other));
        assert_eq!(chunks(), 0);
    }
}

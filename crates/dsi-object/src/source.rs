//! `ObjectSource`: an object read in chunks, several of them ahead, within bounded memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Place, Result, Source};
use object_store::{GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStoreExt as _};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout};

use crate::chunk::{Arrived, Chunk};
use crate::error::{kind, of, refused};
use crate::store::Store;

/// Bytes of one request. Longer ones cost a store less, but fewer of them fit into the budget.
const CHUNK: u64 = 8 << 20;

/// Chunks of one source outside the budget.
const OWN: usize = 1;

/// Most bytes of a request without a chunk. Those of a whole file take a store four times the
/// processor time.
const LITTLE: u64 = 256 << 10;

/// Longest wait for room while no other reader makes any.
const STALL: Duration = Duration::from_millis(200);

/// Longest wait for room while other readers read slowly, or take the room themselves.
const PATIENCE: Duration = Duration::from_secs(2);

/// Number of uses of other chunks after which a chunk may be dropped.
const STALE: u64 = 256;

/// An object open for reading.
///
/// Every request names the entity tag of the opened version, so a replaced object is an error and
/// never a mixture.
pub struct ObjectSource {
    object: Arc<Opened>,
    chunks: Mutex<Chunks>,
    /// Told when there may be room for readers that wait.
    freed: Arc<Notify>,
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
    /// The chunks for which readers wait: room goes to the first of them.
    waiting: Vec<u64>,
    /// Number of uses that found a chunk.
    found: u64,
    /// Whether a reader has waited for room in vain since the last chunk was begun.
    is_stalled: bool,
    /// The chunk after the last requested one.
    next: u64,
    /// The chunk after all begun ones.
    begun: u64,
    /// Number of chunks read ahead; it grows while the reader continues.
    ahead: u64,
}

/// The wait of a reader for room for a chunk.
struct Turn<'s> {
    source: &'s ObjectSource,
    index: u64,
}

impl<'s> Turn<'s> {
    fn new(source: &'s ObjectSource, index: u64) -> Self {
        source.chunks().waiting.push(index);
        Self { source, index }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut chunks = self.source.chunks();
        let own = chunks.waiting.iter().position(|index| *index == self.index);
        own.map(|at| chunks.waiting.swap_remove(at));
        drop(chunks);
        self.source.freed.notify_waiters();
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
            freed: Arc::default(),
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
        chunks.found += u64::from(asked.is_some());
        asked
    }

    /// Waits for room. Returns whether to try again, rather than to read without a chunk since the
    /// readers of the chunks stall.
    ///
    /// # Cancel safety
    /// Nothing is lost: every reader without room waits by itself.
    async fn wait(&self, freed: Notified<'_>, since: Instant) -> bool {
        let found = {
            let mut chunks = self.chunks();
            chunks.is_stalled |= since.elapsed() >= PATIENCE;
            if chunks.is_stalled {
                return false;
            }
            chunks.found
        };
        if timeout(STALL, freed).await.is_err() {
            let mut chunks = self.chunks();
            chunks.is_stalled |= chunks.found == found;
        }
        true
    }

    /// Reads without a chunk. A chunk begun later goes on behind that.
    async fn without_chunk(&self, offset: u64, len: u64) -> Result<Bytes> {
        {
            let mut chunks = self.chunks();
            chunks.begun = chunks.begun.max(offset / CHUNK + 1);
        }
        self.object.little(offset, len).await
    }

    /// The chunk `index`, begun if there is room: from its start, or from `offset` in it behind other
    /// readers.
    fn begin(&self, chunks: &mut Chunks, index: u64, offset: u64) -> Option<Arc<Chunk>> {
        if let Some((chunk, used)) = chunks.known.get_mut(&index) {
            *used = chunks.uses;
            return Some(Arc::clone(chunk));
        }
        let place = self.room(chunks, index)?;
        let start = if index < chunks.begun { offset } else { 0 };
        chunks.begun = chunks.begun.max(index + 1);
        let object = Arc::clone(&self.object);
        let request =
            move |arrived: Arc<Arrived>| async move { object.fetch(index, start, &arrived).await };
        let chunk = Arc::new(Chunk::begin(start, place, &self.freed, request));
        chunks.is_stalled = false;
        let known = (Arc::clone(&chunk), chunks.uses);
        chunks.known.insert(index, known);
        Some(chunk)
    }

    /// Room for the chunk `index`: one of the own ones, or a place in the budget.
    fn room(&self, chunks: &Chunks, index: u64) -> Option<Option<Place>> {
        let is_late = chunks.waiting.iter().any(|first| *first < index);
        if is_late || chunks.known.len() as u64 >= self.most {
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
            self.freed.notify_waiters();
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
        let since = Instant::now();
        let mut turn = None;
        loop {
            // Before the look for room, so that none that becomes free behind it is missed.
            let freed = self.freed.notified();
            let Some(chunk) = self.chunk(index, skip) else {
                turn.get_or_insert_with(|| Turn::new(self, index));
                match self.wait(freed, since).await {
                    true => continue,
                    false => break,
                }
            };
            turn = None;
            if skip < chunk.start {
                return self.object.little(offset, len).await;
            }
            match chunk.read(skip, most).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.forget(index, &chunk, error)?,
            }
        }
        drop(turn);
        self.without_chunk(offset, len).await
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
#[path = "source_tests.rs"]
mod tests;

//! `ObjectSink`: one upload, in one request if it is small and else in parts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Finish, Kind, Result, Sink, Stat, WriteModel};
use object_store::Error as StoreError;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tokio::sync::OnceCell;

use crate::checksum;
use crate::error::{kind, of, refused};
use crate::journal::{Journal, Kept, Stored};
use crate::parts::Upload;
use crate::store::{MOST_PARTS, Store, part_of};

/// An object open for writing.
#[derive(Debug)]
pub struct ObjectSink {
    to: Target,
    /// Bytes of every part but the last.
    part: u64,
    size: Option<u64>,
    upload: OnceCell<Upload>,
    journal: Arc<Mutex<Option<Journal>>>,
    state: Mutex<State>,
}

/// The place of the object.
#[derive(Debug)]
struct Target {
    store: Arc<Store>,
    path: DsiPath,
    key: Path,
}

#[derive(Debug, Default)]
struct State {
    /// The first part while it may be the only one, for an upload in one request.
    first: Option<Bytes>,
    parts: BTreeMap<usize, Stored>,
    /// Parts in the journal.
    recorded: BTreeSet<usize>,
    /// Whether a restart finds this upload; else another one has the name.
    is_kept: bool,
    /// Whether the store has ended the upload.
    is_over: bool,
}

impl Target {
    fn failed(&self, op: &'static str) -> impl Fn(StoreError) -> Error + '_ {
        move |error| of(op, &self.path, error)
    }

    fn refused(&self, kind: ErrorKind, why: impl Into<String>) -> Error {
        refused(kind, "write", &self.path, why.into())
    }
}

/// Runs file operations on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

/// The bytes of a kept upload: its whole parts, and a shorter one at the known end.
pub(crate) fn held(kept: &Kept, size: Option<u64>) -> RangeSet {
    let ranges = kept.parts.iter().filter_map(|(index, stored)| {
        let range = Range64::from_len(kept.upload.part * *index as u64, stored.len)?;
        let is_whole = stored.len == kept.upload.part || Some(range.end()) == size;
        is_whole.then_some(range)
    });
    ranges.collect()
}

impl ObjectSink {
    /// Begins a new upload; the kept parts of an earlier one are removed.
    pub(crate) async fn whole(
        store: &Arc<Store>,
        path: &DsiPath,
        key: Path,
        size: Option<u64>,
    ) -> Result<Self> {
        match lock(store, path, &key).await {
            Ok(Some((journal, kept))) => discard(store, path, journal, kept).await?,
            Ok(None) => {}
            // Another upload is under way: the later one to finish wins whole.
            Err(error) if error.kind() == ErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
        Ok(Self::new(
            store,
            path,
            key,
            part_of(store, path, size)?,
            size,
        ))
    }

    /// Continues the kept upload, or begins a new one.
    pub(crate) async fn resume(
        store: &Arc<Store>,
        path: &DsiPath,
        key: Path,
        size: Option<u64>,
    ) -> Result<Self> {
        let Some((journal, kept)) = lock(store, path, &key).await? else {
            return Ok(Self::new(
                store,
                path,
                key,
                part_of(store, path, size)?,
                size,
            ));
        };
        let Some(kept) = kept.filter(|kept| !kept.parts.is_empty()) else {
            discard(store, path, journal, None).await?;
            return Ok(Self::new(
                store,
                path,
                key,
                part_of(store, path, size)?,
                size,
            ));
        };
        let size = size.or(kept.size);
        let mut sink = Self::new(store, path, key, kept.upload.part, size);
        sink.upload = OnceCell::new_with(Some(kept.upload));
        sink.journal = Arc::new(Mutex::new(Some(journal)));
        let mut state = sink.state();
        state.recorded = kept.parts.keys().copied().collect();
        state.parts = kept.parts;
        state.is_kept = true;
        drop(state);
        Ok(sink)
    }

    fn new(store: &Arc<Store>, path: &DsiPath, key: Path, part: u64, size: Option<u64>) -> Self {
        Self {
            to: Target {
                store: Arc::clone(store),
                path: path.clone(),
                key,
            },
            part: part.max(1),
            size,
            upload: OnceCell::new(),
            journal: Arc::default(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The upload in parts, which begins with the first call.
    async fn upload(&self) -> Result<&Upload> {
        self.upload.get_or_try_init(|| self.begin()).await
    }

    async fn begin(&self) -> Result<Upload> {
        let Target { store, key, .. } = &self.to;
        let begun = store.parts.begin(key, self.part).await;
        let upload = begun.map_err(self.to.failed("write"))?;
        let (index, size, copy) = (store.index.clone(), self.size, upload.clone());
        let recorded = blocking(move || match index.create(&copy, size, true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok((index.create(&copy, size, false)?, false))
            }
            done => Ok((done?, true)),
        });
        match recorded.await {
            Ok((journal, is_kept)) => {
                *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = Some(journal);
                self.state().is_kept = is_kept;
                Ok(upload)
            }
            Err(error) => {
                // Nobody would know of the upload after a crash.
                if let Err(error) = store.parts.abort(&upload).await {
                    tracing::warn!(path = %self.to.path, %error, "an upload in parts cannot be ended");
                }
                let why = format!("the journal of the upload cannot be written: {error}");
                Err(self.to.refused(ErrorKind::Io, why))
            }
        }
    }

    /// Uploads one part.
    async fn put(&self, index: u64, data: Bytes) -> Result<()> {
        let upload = self.upload().await?;
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let len = data.len() as u64;
        let put = self.to.store.parts.put(upload, index, data).await;
        let id = put.map_err(|error| match kind(&error) {
            ErrorKind::NotFound => {
                self.state().is_over = true;
                let why = format!("the store has ended the upload: {error}");
                self.to.refused(ErrorKind::Changed, why)
            }
            _ => of("write", &self.to.path, error),
        })?;
        self.state().parts.insert(index, Stored { id, len });
        Ok(())
    }

    /// Publishes an object of one request.
    async fn put_small(&self, data: Bytes, done: &Finish) -> Result<()> {
        checksum::check(&self.to.path, data.clone(), done).await?;
        let put = self.to.store.put(&self.to.key, data);
        put.await.map_err(self.to.failed("write"))
    }

    /// Publishes the object of these parts, which are `size` bytes.
    async fn complete(&self, parts: &BTreeMap<usize, Stored>, size: u64) -> Result<()> {
        let upload = self.upload().await?;
        let store = &self.to.store;
        let ids: Vec<_> = parts.values().map(|part| part.id.clone()).collect();
        let expected = checksum::tag_of(&ids);
        let Err(error) = store.parts.complete(upload, ids, size).await else {
            self.state().is_over = true;
            return Ok(());
        };
        // The reply to an earlier attempt may be lost, and the object complete.
        if let Ok(Some(meta)) = store.head(&self.to.key).await
            && expected.is_some()
            && (meta.size, &meta.e_tag) == (size, &expected)
        {
            self.state().is_over = true;
            return Ok(());
        }
        // No parts are left behind; if that fails too, the journal keeps them for a restart.
        match store.parts.abort(upload).await {
            Ok(()) => self.state().is_over = true,
            Err(error) => {
                tracing::warn!(path = %self.to.path, %error, "an upload in parts cannot be ended");
            }
        }
        Err(match kind(&error) {
            ErrorKind::NotFound => {
                let why = format!("the store has ended the upload: {error}");
                self.to.refused(ErrorKind::Changed, why)
            }
            _ => of("publish", &self.to.path, error),
        })
    }

    /// The length of the written bytes, which must begin at 0 and have no gap.
    fn length(&self, parts: &BTreeMap<usize, Stored>) -> Result<u64> {
        let mut length = 0;
        for (at, (index, stored)) in parts.iter().enumerate() {
            if at != *index || length != self.part * *index as u64 {
                let why = format!("bytes are missing from offset {length} on");
                return Err(self.to.refused(ErrorKind::Incomplete, why));
            }
            length += stored.len;
        }
        Ok(length)
    }

    /// Removes the journal of an upload that has ended.
    async fn forget(&self) {
        let journal = Arc::clone(&self.journal);
        let removed = blocking(move || remove(&journal)).await;
        if let Err(error) = removed {
            tracing::warn!(path = %self.to.path, %error, "the journal of an upload cannot be removed");
        }
    }
}

/// Removes a journal, if it is still there.
fn remove(journal: &Mutex<Option<Journal>>) -> io::Result<()> {
    let taken = journal
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    taken.map_or(Ok(()), Journal::remove)
}

/// Locks the journal of the kept upload to `key`.
pub(crate) async fn lock(
    store: &Arc<Store>,
    path: &DsiPath,
    key: &Path,
) -> Result<Option<(Journal, Option<Kept>)>> {
    let (index, key) = (store.index.clone(), key.clone());
    blocking(move || index.lock(&key)).await.map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::WouldBlock => ErrorKind::Busy,
            _ => ErrorKind::Io,
        };
        refused(kind, "open upload", path, error)
    })
}

/// Ends a kept upload and removes its journal.
pub(crate) async fn discard(
    store: &Arc<Store>,
    path: &DsiPath,
    journal: Journal,
    kept: Option<Kept>,
) -> Result<()> {
    if let Some(kept) = kept {
        let ended = store.parts.abort(&kept.upload).await;
        ended.map_err(|error| of("end upload", path, error))?;
    }
    let removed = blocking(move || journal.remove()).await;
    removed.map_err(|error| refused(ErrorKind::Io, "end upload", path, error))
}

impl Sink for ObjectSink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        let len = data.len() as u64;
        let end = offset
            .checked_add(len)
            .filter(|end| i64::try_from(*end).is_ok());
        let index = offset / self.part;
        if end.is_none() || index >= MOST_PARTS {
            let why = format!(
                "an object has at most {MOST_PARTS} parts, here of {} bytes each, which an announced length enlarges",
                self.part
            );
            return Err(self.to.refused(ErrorKind::TooLarge, why));
        }
        if len == 0 {
            return Ok(());
        }
        if !offset.is_multiple_of(self.part) || len > self.part {
            let why = format!("writes must be whole parts of {} bytes", self.part);
            return Err(self.to.refused(ErrorKind::Unsupported, why));
        }
        let is_only = len < self.part || self.size == Some(len);
        if offset == 0 && is_only && self.upload.get().is_none() {
            self.state().first = Some(data);
            return Ok(());
        }
        self.put(index, data).await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        if self.upload.get().is_none() {
            return Ok(());
        }
        let fresh: Vec<_> = {
            let state = self.state();
            if !state.is_kept {
                let why = "another upload to this name is kept for a restart";
                return Err(self.to.refused(ErrorKind::Busy, why));
            }
            let is_fresh = |(index, stored): &(&usize, &Stored)| {
                let range = Range64::from_len(self.part * **index as u64, stored.len);
                !state.recorded.contains(index) && range.is_some_and(|range| held.covers(range))
            };
            let fresh = state.parts.iter().filter(is_fresh);
            fresh
                .map(|(index, stored)| (*index, stored.clone()))
                .collect()
        };
        let journal = Arc::clone(&self.journal);
        let lines = fresh.clone();
        let recorded = blocking(move || {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal
                .as_mut()
                .map_or(Ok(()), |journal| journal.record(&lines, durable))
        });
        recorded.await.map_err(|error| {
            let why = format!("the journal of the upload cannot be written: {error}");
            self.to.refused(ErrorKind::Io, why)
        })?;
        self.state()
            .recorded
            .extend(fresh.into_iter().map(|(index, _)| index));
        Ok(())
    }

    fn held(&self) -> RangeSet {
        let state = self.state();
        let Some(upload) = self.upload.get().filter(|_| state.is_kept) else {
            return RangeSet::new();
        };
        let recorded = |(index, _): &(&usize, &Stored)| state.recorded.contains(index);
        let parts = state.parts.iter().filter(recorded);
        let kept = Kept {
            upload: upload.clone(),
            size: self.size,
            parts: parts
                .map(|(index, stored)| (*index, stored.clone()))
                .collect(),
        };
        held(&kept, self.size)
    }

    fn order(&self) -> WriteModel {
        WriteModel::Parts(self.part)
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        let first = self.state().first.take();
        let has_parts = !self.state().parts.is_empty();
        let mut small = None;
        match first {
            // More followed than was announced.
            Some(first) if has_parts => self.put(0, first).await?,
            first => small = Some(first.unwrap_or_default()),
        }
        let parts = self.state().parts.clone();
        let length = match &small {
            Some(data) if !has_parts => data.len() as u64,
            _ => self.length(&parts)?,
        };
        let size = done.size.unwrap_or(length);
        let whole = Range64::new(0, size);
        let has_gap = |held: &RangeSet| whole.is_some_and(|whole| !held.covers(whole));
        if size > length || done.held.as_ref().is_some_and(has_gap) {
            let why = format!("{length} bytes are written, {size} were announced");
            return Err(self.to.refused(ErrorKind::Incomplete, why));
        }
        match small {
            Some(data) if !has_parts => {
                let end = usize::try_from(size).unwrap_or(usize::MAX);
                self.put_small(data.slice(..end.min(data.len())), &done)
                    .await?;
            }
            _ if size < length => {
                let why = "bytes behind the announced end are stored in parts, which are not cut";
                return Err(self.to.refused(ErrorKind::Unsupported, why));
            }
            _ => {
                let there = self.to.store.objects.head(&self.to.key);
                if done.checksum.is_some() && there.await.is_ok() {
                    let why = "the digest of parts is known too late for the old object: remove it";
                    return Err(self.to.refused(ErrorKind::Unsupported, why));
                }
                let published = self.complete(&parts, size).await;
                if self.state().is_over {
                    self.forget().await;
                }
                published?;
                checksum::check_published(&self.to.store, &self.to.path, &self.to.key, &done)
                    .await?;
            }
        }
        let mut stat = Stat::new(self.to.path.name(), Kind::File);
        stat.size = size;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        stat.modified = (now.as_secs().cast_signed(), now.subsec_nanos());
        Ok(stat)
    }
}

impl Drop for ObjectSink {
    /// Ends an upload of which nothing is kept for a restart, in a task of its own; if the process
    /// ends before, the sweep of the journals does it.
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        let Some(upload) = self.upload.take() else {
            return;
        };
        let is_kept = state.is_kept && !state.recorded.is_empty();
        if is_kept && !state.is_over {
            return;
        }
        let (store, journal) = (Arc::clone(&self.to.store), Arc::clone(&self.journal));
        let path = self.to.path.clone();
        // The next upload does not wait for the end of this one.
        let mut held = journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &mut *held
            && let Err(error) = journal.set_aside(&upload)
        {
            tracing::warn!(%path, %error, "the journal of an upload cannot be renamed");
        }
        drop(held);
        let ending = async move {
            if !state.is_over
                && let Err(error) = store.parts.abort(&upload).await
            {
                tracing::warn!(%path, %error, "an upload in parts cannot be ended yet");
                return;
            }
            if let Err(error) = blocking(move || remove(&journal)).await {
                tracing::warn!(%path, %error, "the journal of an upload cannot be removed");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(ending);
        }
    }
}

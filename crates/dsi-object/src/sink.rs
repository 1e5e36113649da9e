//! `ObjectSink`: one upload, in one request if it is small and else in parts, until its completion.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::{
    ChecksumAlgorithm, DsiPath, Error, ErrorKind, Finish, GroupValue, Result, Sink, Stat,
    WriteModel,
};
use object_store::Error as StoreError;
use object_store::path::Path;
use tokio::sync::OnceCell;

use crate::ahead::Ahead;
use crate::error::{kind, of, refused};
use crate::journal::{Journal, Kept, Stored, is_lost};
use crate::owner::Heartbeat;
use crate::parts::Upload;
use crate::store::{MOST_PARTS, Store, part_of};
use crate::values::Values;

/// An object open for writing.
#[derive(Debug)]
pub struct ObjectSink {
    pub(crate) to: Target,
    /// Bytes of every part but the last.
    pub(crate) part: u64,
    pub(crate) size: Option<u64>,
    /// Whether this upload continues an earlier one under the name of an object.
    replaces: bool,
    upload: OnceCell<Upload>,
    pub(crate) journal: Arc<Mutex<Option<Journal>>>,
    pub(crate) heartbeat: OnceLock<Heartbeat>,
    state: Mutex<State>,
    /// The digest that is computed as the parts pass.
    pub(crate) ahead: OnceLock<Ahead>,
    /// Set once no object was found that a digest after the publication would come too late for.
    is_new: OnceCell<()>,
}

/// The place of the object.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) store: Arc<Store>,
    pub(crate) path: DsiPath,
    pub(crate) key: Path,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The first part while it may be the only one, for an upload in one request.
    pub(crate) first: Option<Bytes>,
    pub(crate) parts: BTreeMap<usize, Stored>,
    /// Parts in the journal.
    pub(crate) recorded: BTreeSet<usize>,
    pub(crate) values: Values,
    /// Whether a restart finds this upload; else another one has the name.
    pub(crate) is_kept: bool,
    /// Whether the store has ended the upload.
    pub(crate) is_over: bool,
    /// Whether the digest of the parts of an earlier upload would be known too late for the object
    /// that they replace.
    is_unprovable: bool,
}

impl Target {
    pub(crate) fn failed(&self, op: &'static str) -> impl Fn(StoreError) -> Error + '_ {
        move |error| of(op, &self.path, error)
    }

    pub(crate) fn refused(&self, kind: ErrorKind, why: impl Into<String>) -> Error {
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
    let parts = kept.parts.iter();
    parts
        .filter_map(|(index, stored)| continued(kept.upload.part, size, *index, stored))
        .collect()
}

/// The range of a part with which a restart continues.
pub(crate) fn continued(
    part: u64,
    size: Option<u64>,
    index: usize,
    stored: &Stored,
) -> Option<Range64> {
    let range = Range64::from_len(part * index as u64, stored.len)?;
    (stored.len == part || Some(range.end()) == size).then_some(range)
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
        let (journal, kept) = match lock(store, path, &key).await? {
            Some((journal, Some(kept))) if !kept.parts.is_empty() => (journal, kept),
            other => {
                if let Some((journal, kept)) = other {
                    discard(store, path, journal, kept).await?;
                }
                let part = part_of(store, path, size)?;
                return Ok(Self::new(store, path, key, part, size));
            }
        };
        let size = size.or(kept.size);
        let mut sink = Self::new(store, path, key, kept.upload.part, size);
        sink.own(journal);
        let old = store.head(&sink.to.key).await;
        let old = old.map_err(|error| of("open", path, error))?;
        sink.replaces = old.is_some();
        sink.upload = OnceCell::new_with(Some(kept.upload));
        let mut state = sink.state();
        state.recorded = kept.parts.keys().copied().collect();
        state.values.earlier = state.recorded.clone();
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
            replaces: false,
            upload: OnceCell::new(),
            journal: Arc::default(),
            heartbeat: OnceLock::new(),
            state: Mutex::default(),
            ahead: OnceLock::new(),
            is_new: OnceCell::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The upload in parts, which begins with the first call.
    pub(crate) async fn upload(&self) -> Result<&Upload> {
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
                self.own(journal);
                self.state().is_kept = is_kept;
                Ok(upload)
            }
            Err(error) => {
                // Nobody would know of the upload after a crash.
                if let Err(error) = store.parts.abort(&upload).await {
                    tracing::warn!(path = %self.to.path, %error, "an upload in parts cannot be ended");
                }
                Err(self.unrecorded(error))
            }
        }
    }

    /// Uploads one part, and hashes it if its digest is wanted.
    ///
    /// # Errors
    /// Those of [`must_be_new`](Self::must_be_new) once the digest is given up, before the rest of
    /// the file arrives in vain.
    pub(crate) async fn put(&self, index: u64, data: Bytes) -> Result<()> {
        let Some(ahead) = self.ahead.get() else {
            return self.put_part(index, data).await;
        };
        let hashing = ahead.pass(index * self.part, data.clone());
        tokio::join!(self.put_part(index, data), hashing).0?;
        match ahead.is_given_up() {
            true => self
                .is_new
                .get_or_try_init(|| self.must_be_new())
                .await
                .copied(),
            false => Ok(()),
        }
    }

    async fn put_part(&self, index: u64, data: Bytes) -> Result<()> {
        let upload = self.upload().await?;
        self.must_own().await?;
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
        let mut state = self.state();
        state.parts.insert(index, Stored { id, len });
        state.recorded.remove(&index);
        state.values.earlier.remove(&index);
        Ok(())
    }

    /// Uploads a file in memory as its only part, if a restart can continue with that: the store
    /// has it then.
    async fn put_first(&self) -> Result<()> {
        let first = {
            let mut state = self.state();
            let State { first, values, .. } = &mut *state;
            let is_of_use = |first: &mut Bytes| {
                let len = first.len() as u64;
                self.size == Some(len) && values.allow(len)
            };
            first.take_if(is_of_use)
        };
        let Some(first) = first else { return Ok(()) };
        let put = self.put(0, first.clone()).await;
        if put.is_err() {
            self.state().first = Some(first);
        }
        put
    }

    /// Records the parts within `held` with which a restart continues; all without it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] where a restart finds another upload.
    pub(crate) async fn record(&self, held: Option<&RangeSet>, durable: bool) -> Result<()> {
        let fresh = {
            let state = self.state();
            if !state.is_kept {
                let why = "another upload to this name is kept for a restart";
                return Err(self.to.refused(ErrorKind::Busy, why));
            }
            state.fresh(self.part, self.size, held)
        };
        let (fresh, journal) = (Arc::new(fresh), Arc::clone(&self.journal));
        let lines = Arc::clone(&fresh);
        let recorded = blocking(move || {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal
                .as_mut()
                .map_or(Ok(()), |journal| journal.record(&lines, durable))
        });
        recorded.await.map_err(|error| self.unrecorded(error))?;
        self.state().note_recorded(&fresh);
        Ok(())
    }
}

/// Removes a journal, if it is still there.
pub(crate) fn remove(journal: &Mutex<Option<Journal>>) -> io::Result<()> {
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
    let _heartbeat = journal.heartbeat();
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

    /// Records the parts that the store has. A file in memory is uploaded as a part first. Once values of
    /// groups are noted, the parts that are not named are forgotten, and a last one of no whole number of
    /// groups is not recorded.
    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        self.put_first().await?;
        if self.upload.get().is_some() {
            self.record(Some(held), durable).await?;
        }
        let here = self.held();
        match held.iter().find_map(|range| here.gaps(range).first()) {
            None => Ok(()),
            Some(gap) => {
                let why = format!(
                    "a restart continues with whole parts, not at {}",
                    gap.start()
                );
                Err(self.to.refused(ErrorKind::Incomplete, why))
            }
        }
    }

    fn held(&self) -> RangeSet {
        let state = self.state();
        let Some(upload) = self
            .upload
            .get()
            .filter(|_| state.is_kept && !state.is_unprovable)
        else {
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

    async fn groups(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        self.recorded_values(held).await
    }

    fn note_groups(&self, values: Vec<GroupValue>) {
        self.note_values(values);
    }

    fn order(&self) -> WriteModel {
        WriteModel::Parts(self.part)
    }

    fn will_check(&self, algorithm: ChecksumAlgorithm) {
        let mut state = self.state();
        // The parts of an earlier process cannot be read again.
        if !state.parts.is_empty() {
            state.is_unprovable |= self.replaces;
        } else if let Some(hasher) = Hasher::new(algorithm) {
            self.ahead.get_or_init(|| Ahead::new(algorithm, hasher));
        }
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        self.publish(done).await
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
            && let Err(error) = journal.set_aside()
        {
            if is_lost(&error) {
                return;
            }
            tracing::warn!(%path, %error, "the journal of an upload cannot be renamed");
        }
        drop(held);
        let ending = async move {
            if !state.is_over
                && let Err(error) = store.parts.give_up(&upload, store.late).await
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

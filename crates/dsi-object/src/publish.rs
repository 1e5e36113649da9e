//! Completion of an upload: its digest is checked, and the object appears, or the upload is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::{ErrorKind, Finish, Kind, Result, Stat};

use crate::checksum;
use crate::journal::Stored;
use crate::outcome::{Expected, Mark, TAKEN};
use crate::sink::{ObjectSink, Target, blocking, remove};

impl ObjectSink {
    /// Publishes the object.
    pub(crate) async fn publish(&self, done: Finish) -> Result<Stat> {
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
            _ => self.publish_parts(&parts, size, &done).await?,
        }
        let mut stat = Stat::new(self.to.path.name(), Kind::File);
        stat.size = size;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        stat.modified = (now.as_secs().cast_signed(), now.subsec_nanos());
        Ok(stat)
    }

    /// Publishes an object of one request.
    async fn put_small(&self, data: Bytes, done: &Finish) -> Result<()> {
        checksum::check(&self.to.path, data.clone(), done).await?;
        let (mark, size) = (done.exclusive.then(Mark::new), data.len() as u64);
        let put = self.to.store.put(&self.to.key, data, mark.as_ref()).await;
        match (put, &mark) {
            (Err(error), Some(mark)) => self.put_outcome(mark, size, error).await,
            (put, _) => put.map_err(self.to.failed("write")),
        }
    }

    /// Publishes an object of parts, and checks the expected digest: before, if the parts passed in
    /// order, else by reading the object again.
    async fn publish_parts(
        &self,
        parts: &BTreeMap<usize, Stored>,
        size: u64,
        done: &Finish,
    ) -> Result<()> {
        let expected = done.checksum.as_ref();
        let is_known = match expected.and_then(|(algorithm, expected)| {
            let digest = self.ahead.get()?.digest(*algorithm, size)?;
            Some(checksum::compare(&self.to.path, &digest, expected))
        }) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(mismatch)) => {
                self.abandon().await;
                return Err(mismatch);
            }
        };
        if expected.is_some() && !is_known && !done.exclusive {
            self.must_be_new().await?;
        }
        let published = self.complete(parts, size, done.exclusive).await;
        if self.state().is_over {
            self.forget().await;
        }
        let tag = published?;
        if is_known {
            return Ok(());
        }
        let Target { store, path, key } = &self.to;
        checksum::check_published(store, path, key, tag.as_deref(), done).await
    }

    /// Refuses an old object where the digest is known only after it is replaced.
    pub(crate) async fn must_be_new(&self) -> Result<()> {
        let old = self.to.store.head(&self.to.key).await;
        if old.map_err(self.to.failed("publish"))?.is_none() {
            return Ok(());
        }
        let why = "the parts came out of order or from an earlier attempt, so their digest is known too late for the old object: remove it";
        Err(self.to.refused(ErrorKind::Unsupported, why))
    }

    /// Publishes the object of these parts, which are `size` bytes; returns its entity tag. An
    /// `exclusive` one replaces nothing.
    async fn complete(
        &self,
        parts: &BTreeMap<usize, Stored>,
        size: u64,
        exclusive: bool,
    ) -> Result<Option<String>> {
        let upload = self.upload().await?;
        let store = &self.to.store;
        // A restart completes the upload if this process does not.
        if self.state().is_kept
            && let Err(error) = self.record(None, false).await
        {
            tracing::warn!(path = %self.to.path, %error, "the parts of an upload are not recorded");
        }
        let ids: Vec<_> = parts.values().map(|part| part.id.clone()).collect();
        let expected = Expected {
            size,
            tag: checksum::tag_of(&ids),
            exclusive,
            before: store.head(&self.to.key).await,
        };
        // Not every store has the condition.
        if exclusive && let Ok(Some(_)) = expected.before {
            self.abandon().await;
            return Err(self.to.refused(ErrorKind::Exists, TAKEN));
        }
        self.must_own().await?;
        match store.parts.complete(upload, ids, size, exclusive).await {
            Ok(tag) => {
                self.state().is_over = true;
                Ok(tag)
            }
            Err(error) => self.completion_outcome(&expected, error).await,
        }
    }

    /// Removes the parts and the journal. Returns whether the store had the upload; `None` if it did
    /// not end it.
    pub(crate) async fn abandon(&self) -> Option<bool> {
        let ended = async {
            let upload = self.upload().await?;
            self.must_own().await?;
            let ended = self.to.store.parts.abort(upload).await;
            ended.map_err(self.to.failed("end upload"))
        };
        match ended.await {
            Ok(was_there) => {
                self.state().is_over = true;
                self.forget().await;
                Some(was_there)
            }
            Err(error) => {
                tracing::warn!(path = %self.to.path, %error, "an upload in parts cannot be ended");
                None
            }
        }
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

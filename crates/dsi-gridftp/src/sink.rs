//! `GatewaySink`: an upload to a hidden file of the upstream, renamed when it is whole.

use std::sync::Arc;

use byte_ranges::RangeSet;
use bytes::Bytes;
use ftp_wire::facts::Fact;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Finish, Result, Sink, Stat, User, WriteModel};
use tokio::sync::{mpsc, oneshot};

use crate::attempt::{Attempt, Request, over};
use crate::entry::must_be_sendable;
use crate::pool::Upstream;
use crate::target::{Kept, Target};
use crate::uploads::other;

/// Requests that wait for the task of the upload.
const WAITING: usize = 1;

/// An object open for writing, from its start to its end; a task has its session.
#[derive(Debug)]
pub struct GatewaySink {
    to: Arc<Target>,
    /// Bytes held from an earlier attempt.
    start: u64,
    requests: mpsc::Sender<Request>,
    /// Its end is that of the sink, and stops the task.
    _alive: oneshot::Sender<()>,
}

impl GatewaySink {
    /// Opens an upload, which continues a broken one if `resume` says so.
    pub(crate) async fn open(
        up: &Arc<Upstream>,
        user: &User,
        path: &DsiPath,
        resume: bool,
    ) -> Result<Self> {
        const OP: &str = "open";
        must_be_sendable(OP, path)?;
        let bad = || Error::new(ErrorKind::BadName, OP).at(path);
        let mut hidden = up.hidden(user, path).ok_or_else(bad)?;
        let key = up.path(&hidden);
        let written = up.uploads.settled(&key).await;
        if resume && written.is_some() {
            return Err(Error::new(ErrorKind::Busy, OP).at(path));
        }
        let lease = up.uploads.take(&key);
        let is_kept = lease.is_some();
        let lease = match lease {
            Some(lease) => lease,
            None => {
                hidden = other(&hidden).ok_or_else(bad)?;
                up.uploads.take(&up.path(&hidden)).ok_or_else(bad)?
            }
        };
        let session = up.session(user, OP, path).await?;
        let there = up.path(path);
        let forget = async {
            // Bytes that an upstream of ours keeps of an attempt which this one does not continue.
            if is_kept && !resume && session.abilities().held {
                // There are none most of the time.
                let _ = session.drop_held(&key).await;
            }
        };
        let (found, ()) = tokio::join!(session.stat(&there), forget);
        let old_mode = match found {
            Ok((entry, _)) if entry.kind.is_dir() => {
                session.put();
                return Err(Error::new(ErrorKind::IsDirectory, OP).at(path));
            }
            Ok((entry, known)) => known
                .contains(Fact::UnixMode)
                .then_some(entry.mode & 0o7777),
            Err(error) if error.reply().is_some() => None,
            Err(error) => return Err(up.failed(OP, path, error)),
        };
        let to = Arc::new(Target {
            up: Arc::clone(up),
            user: user.clone(),
            path: path.clone(),
            hidden,
            lease,
            is_kept,
            old_mode,
        });
        let session = Box::pin(to.learn_to_append(session)).await?;
        let kept = match resume {
            true => Kept::find(up, &session, &key).await,
            false => Ok(Kept::Nothing),
        };
        let kept = kept.map_err(|error| up.failed(OP, path, error))?;
        let start = kept.bytes();
        let writer = to.begin(session, kept.from()).await?;
        to.lease.recorded.set(start);
        let (requests, taken) = mpsc::channel(WAITING);
        let (alive, gone) = oneshot::channel();
        tokio::spawn(Attempt::new(&to, start, writer).run(taken, gone));
        Ok(Self {
            to,
            start,
            requests,
            _alive: alive,
        })
    }

    /// Asks the task, and waits for its answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request,
    ) -> Result<T> {
        let (done, answer) = oneshot::channel();
        let asked = self.requests.send(request(done)).await;
        asked.map_err(|_| over())?;
        answer.await.unwrap_or_else(|_| Err(over()))
    }
}

impl Drop for GatewaySink {
    fn drop(&mut self) {
        self.to.lease.end();
    }
}

impl Sink for GatewaySink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        if offset
            .checked_add(data.len() as u64)
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Error::new(ErrorKind::TooLarge, "write").at(&self.to.path));
        }
        self.ask(|done| Request::Write { offset, data, done }).await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        let bytes = held.first_hole();
        self.ask(|done| Request::Record {
            bytes,
            durable,
            done,
        })
        .await
    }

    fn held(&self) -> RangeSet {
        RangeSet::up_to(self.start)
    }

    fn order(&self) -> WriteModel {
        WriteModel::Sequential
    }

    async fn finish(self, how: Finish) -> Result<Stat> {
        self.ask(|done| Request::Finish { how, done }).await
    }
}

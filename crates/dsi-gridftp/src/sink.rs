//! `GatewaySink`: an upload to a hidden file of the upstream, renamed when it is whole.

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::Bytes;
use ftp_wire::facts::Fact;
use gridftp_client::file::{WriteFrom, Writer};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Finish, Result, Sink, Stat, User, WriteModel};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::entry::must_be_sendable;
use crate::error::of_io;
use crate::pool::{Place, Session, Upstream};
use crate::target::{Kept, Target};
use crate::uploads::{Lease, Uploads, hidden, other};

/// Longest time to settle an upload that was given up.
const SETTLING: Duration = Duration::from_secs(30);

/// An object open for writing, from its start to its end.
#[derive(Debug)]
pub struct GatewaySink {
    to: Arc<Target>,
    /// Bytes held from an earlier attempt.
    start: u64,
    /// `None` after the end.
    live: Mutex<Option<Live>>,
}

/// An upload under way.
#[derive(Debug)]
struct Live {
    /// The right to be continued; a second upload to the name has none.
    lease: Option<Lease>,
    writer: Option<(Writer, Place)>,
    /// In place of the writer, once the upstream has confirmed all bytes.
    idle: Option<Session>,
    /// Offset of the next byte.
    at: u64,
    /// The path at the upstream of the replaced file, until it is removed.
    aside: Option<Vec<u8>>,
    /// Whether the bytes are wrong, and not to be kept.
    is_wrong: bool,
}

impl GatewaySink {
    /// Opens an upload, which continues a broken one if `resume` says so.
    pub(crate) async fn open(
        up: &Arc<Upstream>,
        uploads: &Arc<Uploads>,
        user: &User,
        path: &DsiPath,
        resume: bool,
    ) -> Result<Self> {
        const OP: &str = "open";
        must_be_sendable(OP, path)?;
        let bad = || Error::new(ErrorKind::BadName, OP).at(path);
        let mut name = hidden(user, path).ok_or_else(bad)?;
        let key = up.path(&name);
        let written = uploads.settled(&key).await;
        if resume && written.is_some() {
            return Err(Error::new(ErrorKind::Busy, OP).at(path));
        }
        let lease = uploads.take(&key);
        if lease.is_none() {
            name = other(&name).ok_or_else(bad)?;
        }
        let session = up.session(user, OP, path).await?;
        let there = up.path(path);
        let old = match session.stat(&there).await {
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
            hidden: name,
            old_mode: old,
        });
        let session = Box::pin(to.learn_to_append(session)).await?;
        let kept = match resume {
            true => Kept::find(up, &session, &to.hidden_path()).await,
            false => Ok(Kept::Nothing),
        };
        let kept = kept.map_err(|error| up.failed(OP, path, error))?;
        let start = kept.bytes();
        let writer = to.begin(session, kept.from()).await?;
        if let Some(lease) = &lease {
            lease.recorded.set(start);
        }
        Ok(Self {
            to,
            start,
            live: Mutex::new(Some(Live {
                lease,
                writer: Some(writer),
                idle: None,
                at: start,
                aside: None,
                is_wrong: false,
            })),
        })
    }
}

impl Live {
    /// Ends the transfer: the upstream's word on it covers all bytes. The next write appends.
    async fn confirm(&mut self, to: &Target, op: &'static str) -> Result<Session> {
        if let Some(session) = self.idle.take() {
            return Ok(session);
        }
        let (writer, place) = self.writer.take().ok_or_else(over)?;
        let client = to.end(writer, op).await?;
        let session = place.session(client);
        to.must_have(&session, self.at, op).await?;
        Ok(session)
    }

    /// Ends an upload that was given up: the recorded bytes stay at the upstream, others do not. A
    /// replaced file gets its name back.
    async fn close(mut self, to: Arc<Target>) {
        let recorded = self.lease.as_ref().map_or(0, |lease| lease.recorded.get());
        let keeps = self.aside.is_some() || recorded > 0 && !self.is_wrong;
        let settled = async {
            // Its end is that of a whole file: the hidden one has these bytes.
            let mut session = match self.confirm(&to, "close").await {
                Ok(session) => Some(session),
                Err(error) => {
                    tracing::debug!(path = %to.path, %error, "an upload that was given up");
                    None
                }
            };
            if session.is_none() && (!keeps || self.aside.is_some()) {
                session = to.up.session(&to.user, "remove", &to.path).await.ok();
            }
            match (session, &self.aside) {
                (Some(session), Some(old)) => {
                    to.put_back(&session, old).await;
                    session.put();
                }
                (Some(session), None) if keeps => session.put(),
                (Some(session), None) => to.discard(session).await,
                (None, _) => {}
            }
        };
        if timeout(SETTLING, settled).await.is_err() {
            tracing::warn!(path = %to.path, "the upstream does not answer to the end of an upload");
        }
    }
}

impl Drop for GatewaySink {
    fn drop(&mut self) {
        let Some(live) = self.live.get_mut().take() else {
            return;
        };
        if let Some(lease) = &live.lease {
            lease.end();
        }
        // Without a runtime the connections close, and the hidden file is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(live.close(Arc::clone(&self.to)));
        }
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Changed, "write").because("the upload has ended")
}

impl Sink for GatewaySink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        let to = &self.to;
        let len = data.len() as u64;
        if offset
            .checked_add(len)
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Error::new(ErrorKind::TooLarge, "write").at(&to.path));
        }
        let mut live = self.live.lock().await;
        let live = live.as_mut().ok_or_else(over)?;
        // The client may go on before the end of the bytes of an earlier attempt.
        let there = self.start.saturating_sub(offset).min(len);
        if there == len && len > 0 {
            return Ok(());
        }
        let offset = offset + there;
        if offset != live.at {
            let why = format!(
                "the upstream takes bytes in order: {offset} came instead of {}",
                live.at
            );
            return Err(to.refused(ErrorKind::Unsupported, "write", why));
        }
        if let Some(session) = live.idle.take() {
            let begun = Box::pin(to.begin(session, WriteFrom::End));
            live.writer = Some(begun.await?);
        }
        let (writer, _) = live.writer.as_mut().ok_or_else(over)?;
        let mut left = data.slice(usize::try_from(there).unwrap_or(usize::MAX)..);
        while !left.is_empty() {
            let written = writer.write(&left).await;
            let n = written.map_err(|error| to.failed("write", of_io(error)))?;
            live.at += n as u64;
            left = left.split_off(n);
        }
        Ok(())
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        const OP: &str = "record";
        let to = &self.to;
        let mut live = self.live.lock().await;
        let live = live.as_mut().ok_or_else(over)?;
        let Some(lease) = &live.lease else {
            return Err(Error::new(ErrorKind::Busy, OP).at(&to.path));
        };
        let recorded = held.first_hole().min(live.at);
        if recorded > lease.recorded.get() {
            let why = match durable {
                true => "the upstream does not tell when bytes are on its disk",
                false if !to.up.appends() => "the upstream appends to no file",
                false => "",
            };
            if !why.is_empty() {
                return Err(to.refused(ErrorKind::Unsupported, OP, why));
            }
            let session = Box::pin(live.confirm(to, OP)).await?;
            live.idle = Some(session);
        }
        if let Some(lease) = &live.lease {
            lease.recorded.set(recorded);
        }
        Ok(())
    }

    fn held(&self) -> RangeSet {
        RangeSet::up_to(self.start)
    }

    fn order(&self) -> WriteModel {
        WriteModel::Sequential
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        const OP: &str = "finish";
        let mut this = self;
        let to = Arc::clone(&this.to);
        let slot = this.live.get_mut();
        let live = slot.as_mut().ok_or_else(over)?;
        let size = done.size.unwrap_or(live.at);
        let held = done.held.as_ref().map_or(size, RangeSet::first_hole);
        if live.at.min(held) < size {
            let why = format!("{} of {size} bytes are here", live.at.min(held));
            return Err(to.refused(ErrorKind::Incomplete, OP, why));
        }
        let mut session = Box::pin(live.confirm(&to, OP)).await?;
        if live.at > size {
            session = Box::pin(to.shorten(session, size)).await?;
        }
        let publishing = to.publish(&session, size, &done, &mut live.aside);
        let published = Box::pin(publishing).await;
        match &published {
            Ok(_) => drop(slot.take()),
            Err(error) => live.is_wrong = error.kind() == ErrorKind::Mismatch,
        }
        session.put();
        published
    }
}

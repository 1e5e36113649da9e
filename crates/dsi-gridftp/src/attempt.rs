//! `Attempt`: the task of an upload, which owns its session and serves the sink.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use gridftp_client::file::{WriteFrom, Writer};
use gridftp_dsi::{Error, ErrorKind, Finish, Result, Stat};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::error::of_io;
use crate::pool::{Place, Session};
use crate::target::Target;
use crate::uploads::Lease;

/// Longest time to settle an upload that was given up.
const SETTLING: Duration = Duration::from_secs(30);

/// A block or a question of the sink.
#[derive(Debug)]
pub(crate) enum Request {
    /// A block; the answer says that it is the next one, and a later answer that it failed.
    Write {
        offset: u64,
        data: Bytes,
        done: oneshot::Sender<Result<()>>,
    },
    /// Records that so many bytes are at the upstream.
    Record {
        bytes: u64,
        durable: bool,
        done: oneshot::Sender<Result<()>>,
    },
    Finish {
        how: Finish,
        done: oneshot::Sender<Result<Stat>>,
    },
}

impl Request {
    fn refuse(self, error: Error) {
        // The caller may have gone.
        match self {
            Self::Write { done, .. } | Self::Record { done, .. } => drop(done.send(Err(error))),
            Self::Finish { done, .. } => drop(done.send(Err(error))),
        }
    }
}

/// An upload under way.
#[derive(Debug)]
pub(crate) struct Attempt {
    to: Arc<Target>,
    /// Bytes held from an earlier attempt.
    start: u64,
    writer: Option<(Writer, Place)>,
    /// In place of the writer, once the upstream has confirmed all bytes.
    idle: Option<Session>,
    /// Offset of the next byte.
    at: u64,
    /// The failure of the last write, until it is told.
    failed: Option<Error>,
    /// The hidden file at the upstream with the replaced file, until it is removed.
    aside: Option<Lease>,
    /// Whether the bytes are wrong, and not to be kept.
    is_wrong: bool,
}

impl Attempt {
    /// An upload that goes on behind `start` bytes.
    pub(crate) fn new(to: &Arc<Target>, start: u64, writer: (Writer, Place)) -> Self {
        Self {
            to: Arc::clone(to),
            start,
            writer: Some(writer),
            idle: None,
            at: start,
            failed: None,
            aside: None,
            is_wrong: false,
        }
    }

    /// Serves the sink until the file is published, or the sink is `gone`, which stops all work but
    /// that of clearing up.
    pub(crate) async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        gone: oneshot::Receiver<()>,
    ) {
        let session = tokio::select! {
            biased;
            session = self.serve(&mut requests) => session,
            _ = gone => None,
        };
        let Some(mut session) = session else {
            return self.close().await;
        };
        let (up, dir) = (Arc::clone(&self.to.up), self.to.path.parent());
        // The hidden file is free for the next upload.
        drop(self);
        if let Some(dir) = dir {
            up.sweep(&mut session, &dir).await;
        }
        session.put();
    }

    /// Answers the requests; returns the session once the file is published.
    async fn serve(&mut self, requests: &mut mpsc::Receiver<Request>) -> Option<Session> {
        while let Some(request) = requests.recv().await {
            if let Some(error) = self.failed.take() {
                request.refuse(error);
                continue;
            }
            // A caller that does not wait for its answer has gone.
            match request {
                Request::Write { offset, data, done } => match self.check(offset, data) {
                    Ok(data) => {
                        let _ = done.send(Ok(()));
                        self.failed = Box::pin(self.write(data)).await.err();
                    }
                    Err(error) => drop(done.send(Err(error))),
                },
                Request::Record {
                    bytes,
                    durable,
                    done,
                } => drop(done.send(Box::pin(self.record(bytes, durable)).await)),
                Request::Finish { how, done } => match Box::pin(self.finish(how)).await {
                    Ok((session, stat)) => {
                        let _ = done.send(Ok(stat));
                        return Some(session);
                    }
                    Err(error) => drop(done.send(Err(error))),
                },
            }
        }
        None
    }

    /// Checks that a block is the next one; returns the bytes of it that are not held yet.
    fn check(&self, offset: u64, mut data: Bytes) -> Result<Bytes> {
        let len = data.len() as u64;
        // The client may go on before the end of the bytes of an earlier attempt.
        let there = self.start.saturating_sub(offset).min(len);
        if there == len && len > 0 {
            return Ok(Bytes::new());
        }
        let offset = offset + there;
        if offset != self.at {
            let why = format!(
                "the upstream takes bytes in order: {offset} came instead of {}",
                self.at
            );
            return Err(self.to.refused(ErrorKind::Unsupported, "write", why));
        }
        data.advance(usize::try_from(there).unwrap_or(usize::MAX).min(data.len()));
        match self.writer.is_some() || self.idle.is_some() {
            true => Ok(data),
            false => Err(over()),
        }
    }

    async fn write(&mut self, mut data: Bytes) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        if let Some(session) = self.idle.take() {
            self.writer = Some(self.to.begin(session, WriteFrom::End).await?);
        }
        let (writer, _) = self.writer.as_mut().ok_or_else(over)?;
        while !data.is_empty() {
            let written = writer.write(&data).await;
            let n = written.map_err(|error| self.to.failed("write", of_io(error)))?;
            self.at += n as u64;
            data.advance(n);
        }
        Ok(())
    }

    async fn record(&mut self, bytes: u64, durable: bool) -> Result<()> {
        const OP: &str = "record";
        let to = Arc::clone(&self.to);
        if !to.is_kept {
            return Err(Error::new(ErrorKind::Busy, OP).at(&to.path));
        }
        let recorded = bytes.min(self.at);
        if recorded > to.lease.recorded.get() {
            let why = match durable {
                true => "the upstream does not tell when bytes are on its disk",
                false if !to.up.appends() => "the upstream appends to no file",
                false => "",
            };
            if !why.is_empty() {
                return Err(to.refused(ErrorKind::Unsupported, OP, why));
            }
            self.idle = Some(self.confirm(OP).await?);
        }
        to.lease.recorded.set(recorded);
        Ok(())
    }

    async fn finish(&mut self, how: Finish) -> Result<(Session, Stat)> {
        const OP: &str = "finish";
        let to = Arc::clone(&self.to);
        let size = how.size.unwrap_or(self.at);
        let held = how
            .held
            .as_ref()
            .map_or(size, byte_ranges::RangeSet::first_hole);
        if self.at.min(held) < size {
            let why = format!("{} of {size} bytes are here", self.at.min(held));
            return Err(to.refused(ErrorKind::Incomplete, OP, why));
        }
        let session = self.confirm(OP).await?;
        let published = async {
            let session = match self.at > size {
                true => to.shorten(session, size).await?,
                false => session,
            };
            to.publish(session, size, &how, &mut self.aside).await
        };
        let published = published.await;
        if let Err(error) = &published {
            self.is_wrong = matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Changed);
        }
        published
    }

    /// Ends the transfer: the upstream's word on it covers all bytes. The next write appends.
    async fn confirm(&mut self, op: &'static str) -> Result<Session> {
        if let Some(session) = self.idle.take() {
            return Ok(session);
        }
        let (writer, place) = self.writer.take().ok_or_else(over)?;
        let client = self.to.end(writer, op).await?;
        let session = place.session(client);
        self.to.must_have(&session, self.at, op).await?;
        Ok(session)
    }

    /// Ends an upload that was given up: the recorded bytes stay at the upstream, others do not. A
    /// replaced file gets its name back.
    async fn close(mut self) {
        let to = Arc::clone(&self.to);
        let recorded = to.lease.recorded.get();
        let keeps = self.aside.is_some() || recorded > 0 && !self.is_wrong;
        let settled = async {
            // Its end is that of a whole file: the hidden one has these bytes.
            let mut session = match self.confirm("close").await {
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
                    to.put_back(&session, old.file()).await;
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

pub(crate) fn over() -> Error {
    Error::new(ErrorKind::Changed, "write").because("the upload has ended")
}

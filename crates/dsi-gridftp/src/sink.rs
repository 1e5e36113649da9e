//! `GatewaySink`: an upload to a hidden file of the upstream, renamed when it is whole.

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::Bytes;
use ftp_wire::facts::{Fact, TimeVal};
use gridftp_client::error::{ControlError, TransferError};
use gridftp_client::file::{ReadOptions, WriteFrom, WriteOptions, Writer};
use gridftp_dsi::{
    DsiPath, Error, ErrorKind, Finish, Progress, Result, Sink, Stat, User, WriteModel,
};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::digest::Part;
use crate::entry::{must_be_sendable, stat_of};
use crate::error::{is_vague, kind, of_io, refused};
use crate::pool::{Place, Session, Upstream};
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

/// The place of the object.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) up: Arc<Upstream>,
    pub(crate) user: User,
    pub(crate) path: DsiPath,
    /// The hidden file, as a path of the storage.
    hidden: DsiPath,
    /// Permission bits of the object that is replaced.
    old_mode: Option<u32>,
}

/// An upload under way.
#[derive(Debug)]
struct Live {
    /// The right to be continued; a second upload to the name has none.
    lease: Option<Lease>,
    writer: Option<(Writer, Place)>,
    /// Offset of the next byte.
    at: u64,
    /// Whether the bytes are wrong, and not to be kept.
    is_wrong: bool,
}

/// The bytes kept of a broken upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// None.
    Nothing,
    /// So many, apart from the hidden name.
    Apart(u64),
    /// So many, under the hidden name.
    Hidden(u64),
}

impl Kept {
    /// Asks the upstream for the bytes of a hidden file.
    pub(crate) async fn find(session: &Session, file: &[u8]) -> Result<Self, ControlError> {
        let held = session.held(file).await?;
        if held > 0 {
            return Ok(Self::Apart(held));
        }
        match session.stat(file).await {
            Ok((entry, _)) if entry.size > 0 => Ok(Self::Hidden(entry.size)),
            Ok(_) => Ok(Self::Nothing),
            Err(error) if error.reply().is_some() => Ok(Self::Nothing),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Apart(bytes) | Self::Hidden(bytes) => bytes,
        }
    }

    /// The way to go on. Every server appends, and few write into a file.
    fn from(self) -> WriteFrom {
        match self {
            Self::Nothing => WriteFrom::Anew,
            Self::Apart(bytes) => WriteFrom::Rest(bytes),
            Self::Hidden(_) => WriteFrom::End,
        }
    }
}

fn kind_of(error: &ControlError) -> ErrorKind {
    kind(&TransferError::Control(error.clone()))
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
        let file = to.hidden_path();
        let kept = match resume {
            true => Kept::find(&session, &file).await,
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
                at: start,
                is_wrong: false,
            })),
        })
    }
}

impl Target {
    fn hidden_path(&self) -> Vec<u8> {
        self.up.path(&self.hidden)
    }

    fn failed(&self, op: &'static str, error: impl Into<TransferError>) -> Error {
        self.up.failed(op, &self.path, error)
    }

    fn refused(&self, kind: ErrorKind, op: &'static str, why: impl Into<String>) -> Error {
        refused(kind, op, &self.path, why.into())
    }

    /// Asks for the store, and waits until it is accepted.
    async fn begin(&self, session: Session, from: WriteFrom) -> Result<(Writer, Place)> {
        let (client, place) = session.split();
        let mut options = WriteOptions::default();
        (options.from, options.streams) = (from, self.up.streams);
        let mut writer = client.into_writer(self.hidden_path(), options);
        match writer.begin().await {
            Ok(()) => Ok((writer, place)),
            Err(error) => {
                let error = of_io(error);
                match writer.into_client() {
                    Some(client) => place.put(client),
                    None => drop(place),
                }
                Err(self.explained("open", error).await)
            }
        }
    }

    /// The refusal of a store, with the kind that the directory tells where the upstream does not.
    async fn explained(&self, op: &'static str, error: TransferError) -> Error {
        let parent = self.path.parent().filter(|_| is_vague(&error));
        let Some(parent) = parent else {
            return self.failed(op, error);
        };
        let Ok(session) = self.up.session(&self.user, op, &self.path).await else {
            return self.failed(op, error);
        };
        let found = session.stat(&self.up.path(&parent)).await;
        let kind = match session.end(found) {
            Ok((entry, _)) if entry.kind.is_dir() => kind(&error),
            Ok(_) => ErrorKind::NotDirectory,
            Err(_) => ErrorKind::NotFound,
        };
        self.up.told(kind, op, &self.path, &error)
    }

    /// Gives the hidden file its properties and its final name.
    async fn publish(&self, session: &Session, size: u64, done: &Finish) -> Result<Stat> {
        const OP: &str = "finish";
        let (file, target) = (self.hidden_path(), self.up.path(&self.path));
        let failed = |error| self.failed(OP, TransferError::from(error));
        let (entry, known) = session.stat(&file).await.map_err(failed)?;
        if known.contains(Fact::Size) && entry.size != size {
            let why = format!("the upstream has {} bytes of {size}", entry.size);
            return Err(self.refused(ErrorKind::Incomplete, OP, why));
        }
        if let Some((algorithm, expected)) = &done.checksum {
            let part = Part {
                up: &self.up,
                user: &self.user,
                path: &self.path,
                file: &file,
                offset: 0,
                length: size,
            };
            let digest = part.digest(session, *algorithm, &Progress::new()).await?;
            if !digest.eq_ignore_ascii_case(expected) {
                let why = format!("the digest is {digest}, not {expected}");
                return Err(self.refused(ErrorKind::Mismatch, OP, why));
            }
        }
        self.set(session, &file, done).await?;
        if let Err(error) = session.rename(&file, &target).await {
            // Some servers replace no file by a name.
            if kind_of(&error) != ErrorKind::Exists || session.remove(&target).await.is_err() {
                return Err(failed(error));
            }
            session.rename(&file, &target).await.map_err(failed)?;
        }
        let (entry, known) = session.stat(&target).await.map_err(failed)?;
        Ok(stat_of(self.path.name(), &entry, known))
    }

    /// Replaces the hidden file by its first `size` bytes.
    async fn shorten(&self, session: Session, size: u64) -> Result<Session> {
        const OP: &str = "finish";
        let bad = || Error::new(ErrorKind::BadName, OP).at(&self.path);
        let (file, part) = (self.hidden_path(), other(&self.hidden).ok_or_else(bad)?);
        let part = self.up.path(&part);
        let (client, place) = session.split();
        let mut writer = client.into_writer(part.clone(), WriteOptions::default());
        if size > 0 {
            let source = self.up.session(&self.user, OP, &self.path).await?;
            let (client, source) = source.split();
            let mut reader = client.into_reader(file.clone(), ReadOptions::default());
            let mut left = size;
            while left > 0 {
                let piece = reader.piece().await;
                let mut piece = piece.map_err(|error| self.failed(OP, of_io(error)))?;
                if piece.is_empty() {
                    return Err(Error::new(ErrorKind::Changed, OP).at(&self.path));
                }
                piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                left -= piece.len() as u64;
                let written = writer.write_all(&piece).await;
                written.map_err(|error| self.failed(OP, of_io(error)))?;
            }
            if let Some(client) = reader.stop().await {
                source.put(client);
            }
        }
        let written = writer.finish().await;
        let client = written.map_err(|error| self.failed(OP, of_io(error)))?;
        let session = place.session(client);
        let renamed = session.rename(&part, &file).await;
        renamed.map_err(|error| self.failed(OP, error))?;
        Ok(session)
    }

    /// Sets time and mode as far as the upstream can.
    async fn set(&self, session: &Session, file: &[u8], done: &Finish) -> Result<()> {
        let mut set = Vec::new();
        if let Some(mode) = done.mode.or(self.old_mode) {
            set.push(session.set_mode(file, mode).await);
        }
        if let Some((seconds, nanos)) = done.modified {
            let time = TimeVal::new(seconds, nanos);
            set.push(session.set_modified(file, time).await);
        }
        for done in set {
            match done {
                Err(error) if error.reply().is_none() => return Err(self.failed("finish", error)),
                Err(error) => {
                    tracing::debug!(path = %self.path, error = %error.fact(), "not kept by the upstream");
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Removes the hidden file, and what the upstream keeps of it.
    pub(crate) async fn discard(&self, session: Session) {
        let file = self.hidden_path();
        let removed = session.remove(&file).await;
        if session.abilities().held {
            // There is none, unless the transfer broke.
            let _ = session.drop_held(&file).await;
        }
        let _ = session.end(removed);
    }
}

impl Live {
    /// Ends an upload that was given up: the recorded bytes stay at the upstream, others do not.
    async fn close(mut self, to: Arc<Target>) {
        let recorded = self.lease.as_ref().map_or(0, |lease| lease.recorded.get());
        let keeps = recorded > 0 && !self.is_wrong;
        let settled = async {
            let mut session = None;
            if let Some((writer, place)) = self.writer.take() {
                // Its end is that of a whole file: the hidden one has these bytes.
                match writer.finish().await {
                    Ok(client) => session = Some(place.session(client)),
                    Err(error) => {
                        tracing::debug!(path = %to.path, %error, "an upload that was given up");
                    }
                }
            }
            match (session, keeps) {
                (Some(session), true) => session.put(),
                (None, true) => {}
                (Some(session), false) => to.discard(session).await,
                (None, false) => {
                    if let Ok(session) = to.up.session(&to.user, "remove", &to.path).await {
                        to.discard(session).await;
                    }
                }
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
        if offset != live.at {
            let why = format!(
                "the upstream takes bytes in order: {offset} came instead of {}",
                live.at
            );
            return Err(to.refused(ErrorKind::Unsupported, "write", why));
        }
        let (writer, _) = live.writer.as_mut().ok_or_else(over)?;
        let mut left = data;
        while !left.is_empty() {
            let written = writer.write(&left).await;
            let n = written.map_err(|error| to.failed("write", of_io(error)))?;
            live.at += n as u64;
            left = left.split_off(n);
        }
        Ok(())
    }

    async fn checkpoint(&self, held: &RangeSet, _: bool) -> Result<()> {
        let mut live = self.live.lock().await;
        let live = live.as_mut().ok_or_else(over)?;
        let Some(lease) = &live.lease else {
            return Err(Error::new(ErrorKind::Busy, "record").at(&self.to.path));
        };
        let recorded = held.first_hole().min(live.at);
        if let Some((writer, _)) = &mut live.writer
            && recorded > lease.recorded.get()
        {
            let flushed = writer.flush().await;
            flushed.map_err(|error| self.to.failed("record", of_io(error)))?;
        }
        lease.recorded.set(recorded);
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
        let (writer, place) = live.writer.take().ok_or_else(over)?;
        let Ok(written) = timeout(to.up.end_timeout, writer.finish()).await else {
            let (scheme, site) = (to.up.site.scheme.name(), &to.up.site);
            let limit = to.up.end_timeout.as_secs();
            let why = format!(
                "upstream {scheme}://{site}: no word on the end of the upload within {limit} s"
            );
            return Err(to.refused(ErrorKind::Io, OP, why));
        };
        let client = written.map_err(|error| to.failed(OP, of_io(error)))?;
        let mut session = place.session(client);
        if live.at > size {
            session = to.shorten(session, size).await?;
        }
        let published = to.publish(&session, size, &done).await;
        match &published {
            Ok(_) => drop(slot.take()),
            Err(error) => live.is_wrong = error.kind() == ErrorKind::Mismatch,
        }
        session.put();
        published
    }
}

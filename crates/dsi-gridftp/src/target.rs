//! `Target`: the commands by which the upstream gets an upload, under its hidden and its final name.

use std::sync::Arc;

use bytes::Bytes;
use ftp_wire::facts::{Fact, TimeVal};
use gridftp_client::Client;
use gridftp_client::error::{ControlError, TransferError};
use gridftp_client::file::{ReadOptions, WriteFrom, WriteOptions, Writer};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Finish, Progress, Result, Stat, User};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::digest::Part;
use crate::entry::stat_of;
use crate::error::{is_vague, kind, of_io, refused};
use crate::pool::{Place, Session, Upstream};
use crate::uploads::{Lease, other, replaced};

/// Bytes of a file that are in memory when it is copied at the upstream.
const BATCH: u64 = 8 << 20;

/// The place of the object.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) up: Arc<Upstream>,
    pub(crate) user: User,
    pub(crate) path: DsiPath,
    /// The hidden file, as a path of the storage.
    pub(crate) hidden: DsiPath,
    /// The right to the hidden file.
    pub(crate) lease: Lease,
    /// Whether a restart finds the hidden file; of a second upload to the name it does not.
    pub(crate) is_kept: bool,
    /// Permission bits of the object that is replaced.
    pub(crate) old_mode: Option<u32>,
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
    pub(crate) async fn find(
        up: &Upstream,
        session: &Session,
        file: &[u8],
    ) -> Result<Self, ControlError> {
        let held = session.held(file).await?;
        if held > 0 {
            return Ok(Self::Apart(held));
        }
        match session.stat(file).await {
            Ok((entry, _)) if entry.size > 0 && up.appends() => Ok(Self::Hidden(entry.size)),
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
    pub(crate) fn from(self) -> WriteFrom {
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

impl Target {
    fn hidden_path(&self) -> Vec<u8> {
        self.lease.file().to_vec()
    }

    pub(crate) fn failed(&self, op: &'static str, error: impl Into<TransferError>) -> Error {
        self.up.failed(op, &self.path, error)
    }

    pub(crate) fn refused(
        &self,
        kind: ErrorKind,
        op: &'static str,
        why: impl Into<String>,
    ) -> Error {
        refused(kind, op, &self.path, why.into())
    }

    /// Asks for the store, and waits until it is accepted.
    pub(crate) async fn begin(&self, session: Session, from: WriteFrom) -> Result<(Writer, Place)> {
        match store(session, self.hidden_path(), from).await {
            Ok(begun) => Ok(begun),
            Err((session, error)) => Err(self.explained(session, "open", error).await),
        }
    }

    /// Asks one of our own servers, once, whether it appends to files: a gateway does not.
    pub(crate) async fn learn_to_append(&self, session: Session) -> Result<Session> {
        const OP: &str = "open";
        let is_asked = session.abilities().held && self.up.appends.get().is_none();
        let lease = other(&self.hidden).filter(|_| is_asked);
        let Some(lease) = lease.and_then(|name| self.take(&name)) else {
            return Ok(session);
        };
        match store(session, lease.file().to_vec(), WriteFrom::End).await {
            Ok((writer, place)) => {
                let session = place.session(self.end(writer, OP).await?);
                let removed = session.remove(lease.file()).await;
                removed.map_err(|error| self.failed(OP, error))?;
                let _ = self.up.appends.set(true);
                Ok(session)
            }
            Err((session, error)) => {
                // Any other refusal is that of the place, which the upload itself meets.
                if kind(&error) == ErrorKind::Unsupported {
                    let _ = self.up.appends.set(false);
                }
                session.ok_or_else(|| self.failed(OP, error))
            }
        }
    }

    /// Waits for the upstream's word on all bytes of a transfer.
    pub(crate) async fn end(&self, writer: Writer, op: &'static str) -> Result<Client> {
        let Ok(ended) = timeout(self.up.end_timeout, writer.finish()).await else {
            let (scheme, site) = (self.up.site.scheme.name(), &self.up.site);
            let limit = self.up.end_timeout.as_secs();
            let why = format!(
                "upstream {scheme}://{site}: no word on the end of the upload within {limit} s"
            );
            return Err(self.refused(ErrorKind::Io, op, why));
        };
        ended.map_err(|error| self.failed(op, of_io(error)))
    }

    /// Checks the size of the hidden file, where the upstream tells it.
    pub(crate) async fn must_have(
        &self,
        session: &Session,
        size: u64,
        op: &'static str,
    ) -> Result<()> {
        let found = session.stat(&self.hidden_path()).await;
        let (entry, known) = found.map_err(|error| self.failed(op, error))?;
        if known.contains(Fact::Size) && entry.size != size {
            let why = format!("the upstream has {} bytes of {size}", entry.size);
            return Err(self.refused(ErrorKind::Incomplete, op, why));
        }
        Ok(())
    }

    /// The refusal of a store, with the kind that the directory tells where the upstream does not.
    async fn explained(
        &self,
        session: Option<Session>,
        op: &'static str,
        error: TransferError,
    ) -> Error {
        let Some(session) = session else {
            return self.failed(op, error);
        };
        let parent = self.path.parent().filter(|_| is_vague(&error));
        let Some(parent) = parent else {
            session.put();
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

    /// A further hidden file.
    fn take(&self, name: &DsiPath) -> Option<Lease> {
        self.up.uploads.take(&self.up.path(name))
    }

    /// Gives the hidden file its properties and its final name.
    ///
    /// `aside` is the replaced file, as long as it exists.
    pub(crate) async fn publish(
        &self,
        mut session: Session,
        size: u64,
        done: &Finish,
        aside: &mut Option<Lease>,
    ) -> Result<(Session, Stat)> {
        const OP: &str = "finish";
        let (file, target) = (self.hidden_path(), self.up.path(&self.path));
        let failed = |error| self.failed(OP, TransferError::from(error));
        self.must_have(&session, size, OP).await?;
        if let Some((algorithm, expected)) = &done.checksum {
            let part = Part {
                up: &self.up,
                path: &self.path,
                file: &file,
                offset: 0,
                length: size,
            };
            let digest;
            (session, digest) = part.digest(session, *algorithm, &Progress::new()).await?;
            if !digest.eq_ignore_ascii_case(expected) {
                let why = format!("the digest is {digest}, not {expected}");
                return Err(self.refused(ErrorKind::Mismatch, OP, why));
            }
        }
        if let Some(mode) = done.mode.or(self.old_mode) {
            self.if_kept(session.set_mode(&file, mode).await)?;
        }
        self.replace(&session, aside).await.map_err(failed)?;
        if let Some((seconds, nanos)) = done.modified {
            // Not before: an old hidden file is swept.
            let time = TimeVal::new(seconds, nanos);
            self.if_kept(session.set_modified(&target, time).await)?;
        }
        let (entry, known) = session.stat(&target).await.map_err(failed)?;
        let stat = stat_of(self.path.name(), &entry, known);
        Ok((session, stat))
    }

    /// Renames the hidden file. Some servers replace no file by a name: there the old one is moved
    /// out of the way, and removed when the new one has its name.
    async fn replace(
        &self,
        session: &Session,
        aside: &mut Option<Lease>,
    ) -> Result<(), ControlError> {
        let (file, target) = (self.hidden_path(), self.up.path(&self.path));
        let Err(error) = session.rename(&file, &target).await else {
            return Ok(());
        };
        let exists = kind_of(&error) == ErrorKind::Exists;
        let name = replaced(&self.hidden).filter(|_| exists);
        let Some(lease) = name.and_then(|name| self.take(&name)) else {
            return Err(error);
        };
        let old = lease.file().to_vec();
        // Before the command: it may be executed though its reply is lost.
        *aside = Some(lease);
        let moved = match session.rename(&target, &old).await {
            Ok(()) => session.rename(&file, &target).await,
            Err(error) => Err(error),
        };
        if let Err(error) = moved {
            if error.reply().is_some() && self.put_back(session, &old).await {
                *aside = None;
            }
            return Err(error);
        }
        *aside = None;
        if let Err(error) = session.remove(&old).await {
            tracing::warn!(path = %self.path, error = %error.fact(), "the replaced file stays at the upstream");
        }
        Ok(())
    }

    /// Gives the replaced file its name back, unless the new one has it; says whether none is aside.
    pub(crate) async fn put_back(&self, session: &Session, old: &[u8]) -> bool {
        let (file, target) = (self.hidden_path(), self.up.path(&self.path));
        let is_gone = async |path: &[u8]| match session.stat(path).await {
            Ok(_) => false,
            Err(error) => error.is_not_found(),
        };
        if is_gone(old).await {
            return true;
        }
        let done = if is_gone(&target).await {
            session.rename(old, &target).await.is_ok()
        } else {
            is_gone(&file).await && session.remove(old).await.is_ok()
        };
        if !done {
            let old = old.escape_ascii();
            tracing::warn!(path = %self.path, %old, "the replaced file stays under a hidden name at the upstream");
        }
        done
    }

    /// Replaces the hidden file by its first `size` bytes, which go through memory in batches, as
    /// one session reads and writes in turn.
    pub(crate) async fn shorten(&self, mut session: Session, size: u64) -> Result<Session> {
        const OP: &str = "finish";
        if size > BATCH && !self.up.appends() {
            let why = "fewer bytes came than an earlier attempt left; upload the file again";
            return Err(self.refused(ErrorKind::Changed, OP, why));
        }
        let bad = || Error::new(ErrorKind::BadName, OP).at(&self.path);
        let part = other(&self.hidden).and_then(|name| self.take(&name));
        let part = part.ok_or_else(bad)?;
        let failed = |error| self.failed(OP, of_io(error));
        let (mut at, mut from) = (0, WriteFrom::Anew);
        loop {
            let pieces;
            (session, pieces) = self.batch(session, at, size).await?;
            let (client, place) = session.split();
            let mut options = WriteOptions::default();
            options.from = std::mem::replace(&mut from, WriteFrom::End);
            let mut writer = client.into_writer(part.file(), options);
            for piece in pieces {
                at += piece.len() as u64;
                writer.write_all(&piece).await.map_err(failed)?;
            }
            session = place.session(self.end(writer, OP).await?);
            if at >= size {
                break;
            }
        }
        let renamed = session.rename(part.file(), self.lease.file()).await;
        renamed.map_err(|error| self.failed(OP, error))?;
        Ok(session)
    }

    /// The bytes of the hidden file from `at` on, up to `size` or to the end of a batch.
    async fn batch(
        &self,
        session: Session,
        mut at: u64,
        size: u64,
    ) -> Result<(Session, Vec<Bytes>)> {
        const OP: &str = "finish";
        let (mut pieces, to) = (Vec::new(), size.min(at.saturating_add(BATCH)));
        if at == to {
            return Ok((session, pieces));
        }
        let (client, place) = session.split();
        let mut options = ReadOptions::default();
        options.offset = at;
        let mut reader = client.into_reader(self.lease.file(), options);
        while at < to {
            let piece = reader.piece().await;
            let mut piece = piece.map_err(|error| self.failed(OP, of_io(error)))?;
            if piece.is_empty() {
                return Err(Error::new(ErrorKind::Changed, OP).at(&self.path));
            }
            piece.truncate(usize::try_from(to - at).unwrap_or(usize::MAX));
            at += piece.len() as u64;
            pieces.push(piece);
        }
        match reader.stop().await {
            Some(client) => Ok((place.session(client), pieces)),
            None => Ok((self.up.session(&self.user, OP, &self.path).await?, pieces)),
        }
    }

    /// Takes a property that the upstream does not keep for set.
    fn if_kept(&self, set: Result<(), ControlError>) -> Result<()> {
        match set {
            Err(error) if error.reply().is_none() => Err(self.failed("finish", error)),
            Err(error) => {
                tracing::debug!(path = %self.path, error = %error.fact(), "not kept by the upstream");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
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

/// Asks for a store over one connection, in which bytes arrive in order, and waits until it is
/// accepted; gives back the session after a refusal.
async fn store(
    session: Session,
    file: Vec<u8>,
    from: WriteFrom,
) -> Result<(Writer, Place), (Option<Session>, TransferError)> {
    let (client, place) = session.split();
    let mut options = WriteOptions::default();
    (options.from, options.streams) = (from, 1);
    let mut writer = client.into_writer(file, options);
    match writer.begin().await {
        Ok(()) => Ok((writer, place)),
        Err(error) => {
            let session = writer.into_client().map(|client| place.session(client));
            Err((session, of_io(error)))
        }
    }
}

//! `Target`: the commands by which the upstream gets an upload, under its hidden and its final name.

use std::sync::Arc;

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
use crate::uploads::other;

/// The place of the object.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) up: Arc<Upstream>,
    pub(crate) user: User,
    pub(crate) path: DsiPath,
    /// The hidden file, as a path of the storage.
    pub(crate) hidden: DsiPath,
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
    pub(crate) fn hidden_path(&self) -> Vec<u8> {
        self.up.path(&self.hidden)
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
            Err((session, error)) => {
                if let Some(session) = session {
                    session.put();
                }
                Err(self.explained("open", error).await)
            }
        }
    }

    /// Asks one of our own servers, once, whether it appends to files: a gateway does not.
    pub(crate) async fn learn_to_append(&self, session: Session) -> Result<Session> {
        const OP: &str = "open";
        let name = other(&self.hidden).filter(|_| session.abilities().held);
        let Some(name) = name.filter(|_| self.up.appends.get().is_none()) else {
            return Ok(session);
        };
        let name = self.up.path(&name);
        match store(session, name.clone(), WriteFrom::End).await {
            Ok((writer, place)) => {
                let session = place.session(self.end(writer, OP).await?);
                let removed = session.remove(&name).await;
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
    ///
    /// `aside` is the path of the replaced file, as long as it exists.
    pub(crate) async fn publish(
        &self,
        session: &Session,
        size: u64,
        done: &Finish,
        aside: &mut Option<Vec<u8>>,
    ) -> Result<Stat> {
        const OP: &str = "finish";
        let (file, target) = (self.hidden_path(), self.up.path(&self.path));
        let failed = |error| self.failed(OP, TransferError::from(error));
        self.must_have(session, size, OP).await?;
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
        self.replace(session, aside).await.map_err(failed)?;
        let (entry, known) = session.stat(&target).await.map_err(failed)?;
        Ok(stat_of(self.path.name(), &entry, known))
    }

    /// Renames the hidden file. Some servers replace no file by a name: there the old one is moved
    /// out of the way, and removed when the new one has its name.
    async fn replace(
        &self,
        session: &Session,
        aside: &mut Option<Vec<u8>>,
    ) -> Result<(), ControlError> {
        let (file, target) = (self.hidden_path(), self.up.path(&self.path));
        let Err(error) = session.rename(&file, &target).await else {
            return Ok(());
        };
        let exists = kind_of(&error) == ErrorKind::Exists;
        let Some(name) = other(&self.hidden).filter(|_| exists) else {
            return Err(error);
        };
        let old = self.up.path(&name);
        // Before the command: it may be executed though its reply is lost.
        *aside = Some(old.clone());
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

    /// Replaces the hidden file by its first `size` bytes.
    pub(crate) async fn shorten(&self, session: Session, size: u64) -> Result<Session> {
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

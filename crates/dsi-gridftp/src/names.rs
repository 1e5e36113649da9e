//! Names at the upstream: directories, removal, renaming, and their errors.

use std::sync::Arc;
use std::time::SystemTime;

use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet, TimeVal};
use gridftp_client::error::{ControlError, TransferError};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Meta, Result, Stat, User};

use crate::entry::{HIDDEN, must_be_sendable, stat_of};
use crate::error::{is_vague, kind, refused};
use crate::pool::{Session, Upstream};
use crate::uploads::{Lease, is_upload};

/// Most entries of a directory.
const MOST: usize = 1_000_000;
/// Most directories inside each other that are removed at once.
const DEPTH: usize = 200;
/// Most hidden files that one sweep removes.
const SWEPT: usize = 100;

fn error<T>(kind: ErrorKind, op: &'static str, path: &DsiPath) -> Result<T> {
    Err(Error::new(kind, op).at(path))
}

/// A directory that is being removed with its contents.
struct Level {
    path: DsiPath,
    dirs: Vec<DsiPath>,
    /// No upload goes on with one of its files meanwhile.
    _leases: Vec<Lease>,
}

impl Upstream {
    /// The error of a command on `path`, with the kind that its facts tell where the upstream gives
    /// no reason.
    async fn explained(
        &self,
        session: &Session,
        op: &'static str,
        path: &DsiPath,
        failure: ControlError,
    ) -> Error {
        let failure = TransferError::from(failure);
        let mut told = kind(&failure);
        if is_vague(&failure) {
            told = match session.stat(&self.path(path)).await {
                Err(error) if error.is_not_found() => ErrorKind::NotFound,
                Ok((entry, _)) if op == "remove" && entry.kind.is_dir() => ErrorKind::IsDirectory,
                Ok((entry, _)) if op == "rmdir" && !entry.kind.is_dir() => ErrorKind::NotDirectory,
                _ => told,
            };
        }
        self.told(told, op, path, &failure)
    }

    pub(crate) async fn make_dir(self: &Arc<Self>, user: &User, path: &DsiPath) -> Result<()> {
        const OP: &str = "mkdir";
        must_be_sendable(OP, path)?;
        let session = self.session(user, OP, path).await?;
        let there = self.path(path);
        let done = match session.stat(&there).await {
            Ok(_) => error(ErrorKind::Exists, OP, path),
            Err(error) if error.reply().is_none() => Err(self.failed(OP, path, error)),
            Err(_) => match session.make_dir(&there).await {
                Ok(()) => Ok(()),
                Err(refusal) => {
                    let refusal = TransferError::from(refusal);
                    let mut told = kind(&refusal);
                    if is_vague(&refusal)
                        && let Some(parent) = path.parent()
                    {
                        told = match session.stat(&self.path(&parent)).await {
                            Ok((entry, _)) if !entry.kind.is_dir() => ErrorKind::NotDirectory,
                            Err(error) if error.is_not_found() => ErrorKind::NotFound,
                            _ => told,
                        };
                    }
                    Err(self.told(told, OP, path, &refusal))
                }
            },
        };
        session.put();
        done
    }

    pub(crate) async fn remove(self: &Arc<Self>, user: &User, path: &DsiPath) -> Result<()> {
        const OP: &str = "remove";
        must_be_sendable(OP, path)?;
        let session = self.session(user, OP, path).await?;
        let done = match session.remove(&self.path(path)).await {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.explained(&session, OP, path, refusal).await),
        };
        session.put();
        done
    }

    pub(crate) async fn remove_dir(self: &Arc<Self>, user: &User, path: &DsiPath) -> Result<()> {
        const OP: &str = "rmdir";
        must_be_sendable(OP, path)?;
        let mut session = self.session(user, OP, path).await?;
        let done = self.remove_empty(&mut session, path).await;
        session.put();
        done
    }

    /// Removes a directory with nothing in it but files of uploads that were given up.
    async fn remove_empty(&self, session: &mut Session, path: &DsiPath) -> Result<()> {
        const OP: &str = "rmdir";
        let there = self.path(path);
        let Err(refusal) = session.remove_dir(&there).await else {
            return Ok(());
        };
        let entries = match session.stat(&there).await {
            Ok((entry, _)) if entry.kind.is_dir() => self.entries(session, OP, path).await?,
            _ => return Err(self.explained(session, OP, path, refusal).await),
        };
        let is_hidden = |entry: &Entry| entry.name.starts_with(HIDDEN);
        if entries.iter().any(|(entry, _)| !is_hidden(entry)) {
            return Err(self.told(ErrorKind::NotEmpty, OP, path, &refusal.into()));
        }
        if entries.is_empty() {
            return Err(self.explained(session, OP, path, refusal).await);
        }
        let Some(leases) = self.leases(&entries, path).await else {
            return Err(self.told(ErrorKind::NotEmpty, OP, path, &refusal.into()));
        };
        let failed = |refusal: ControlError| self.failed(OP, path, refusal);
        for lease in &leases {
            match session.remove(lease.file()).await {
                // The end of its upload removed it.
                Err(error) if error.is_not_found() => {}
                removed => removed.map_err(failed)?,
            }
        }
        session.remove_dir(&there).await.map_err(failed)
    }

    /// The right to the hidden files of a directory, unless an upload has one of them. One that was
    /// given up is waited for.
    async fn leases(&self, entries: &[(Entry, FactSet)], dir: &DsiPath) -> Option<Vec<Lease>> {
        let mut leases = Vec::new();
        let hidden = entries.iter().map(|(entry, _)| &entry.name);
        for name in hidden.filter(|name| name.starts_with(HIDDEN)) {
            let file = self.path(&dir.child(name)?);
            self.uploads.settled(&file).await;
            leases.push(self.uploads.take(&file)?);
        }
        Some(leases)
    }

    pub(crate) async fn remove_tree(self: &Arc<Self>, user: &User, path: &DsiPath) -> Result<()> {
        const OP: &str = "remove";
        must_be_sendable(OP, path)?;
        let mut session = self.session(user, OP, path).await?;
        let found = session.stat(&self.path(path)).await;
        let (entry, _) = found.map_err(|error| self.failed(OP, path, error))?;
        let done = match entry.kind.is_dir() && entry.target.is_none() {
            true => self.remove_level(&mut session, path).await,
            false => {
                let removed = session.remove(&self.path(path)).await;
                removed.map_err(|error| self.failed(OP, path, error))
            }
        };
        session.put();
        done
    }

    async fn remove_level(&self, session: &mut Session, top: &DsiPath) -> Result<()> {
        const OP: &str = "remove";
        let mut levels = vec![self.emptied(session, top).await?];
        while let Some(level) = levels.last_mut() {
            if let Some(dir) = level.dirs.pop() {
                if levels.len() >= DEPTH {
                    return error(ErrorKind::BadName, OP, &dir);
                }
                levels.push(self.emptied(session, &dir).await?);
                continue;
            }
            let removed = session.remove_dir(&self.path(&level.path)).await;
            removed.map_err(|error| self.failed(OP, &level.path, error))?;
            levels.pop();
        }
        Ok(())
    }

    /// Removes the files of a directory, and returns its directories.
    async fn emptied(&self, session: &mut Session, path: &DsiPath) -> Result<Level> {
        const OP: &str = "remove";
        let mut dirs = Vec::new();
        let entries = self.entries(session, OP, path).await?;
        let leases = self.leases(&entries, path).await.ok_or_else(|| {
            let why = "an upload into it is under way; try again when it has ended";
            refused(ErrorKind::Busy, OP, path, why)
        })?;
        for (entry, _) in entries {
            let Some(child) = path.child(&entry.name) else {
                continue;
            };
            // A link to a directory is removed, and its target stays.
            if entry.kind == EntryKind::Dir && entry.target.is_none() {
                dirs.push(child);
                continue;
            }
            let removed = session.remove(&self.path(&child)).await;
            removed.map_err(|error| self.failed(OP, &child, error))?;
        }
        Ok(Level {
            path: path.clone(),
            dirs,
            _leases: leases,
        })
    }

    /// All entries of a directory.
    async fn entries(
        &self,
        session: &mut Session,
        op: &'static str,
        path: &DsiPath,
    ) -> Result<Vec<(Entry, FactSet)>> {
        let mut entries = Vec::new();
        let mut is_full = false;
        let each = |entry: Entry, known| {
            let is_self = matches!(entry.kind, EntryKind::Cdir | EntryKind::Pdir);
            if is_self || path.child(&entry.name).is_none() {
                return;
            }
            if entries.len() == MOST {
                is_full = true;
                return;
            }
            entries.push((entry, known));
        };
        let listed = session.list(&self.path(path), each).await;
        listed.map_err(|error| self.failed(op, path, error))?;
        match is_full {
            true => error(ErrorKind::TooLarge, op, path),
            false => Ok(entries),
        }
    }

    /// Whether a file is so old that no upload continues it; `None` without its time.
    fn is_old(&self, entry: &Entry, known: FactSet) -> Option<bool> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let keep = i64::try_from(self.keep.as_secs()).unwrap_or(i64::MAX);
        let is_old = entry.modified.seconds < now.saturating_sub(keep);
        known.contains(Fact::Modify).then_some(is_old)
    }

    /// The path of an entry that may be an old hidden file.
    fn stale(&self, dir: &DsiPath, entry: &Entry, known: FactSet) -> Option<DsiPath> {
        let may = is_upload(&entry.name)
            && entry.kind == EntryKind::File
            && self.is_old(entry, known) != Some(false);
        dir.child(&entry.name).filter(|_| may)
    }

    /// Removes the files that are still old and that no upload of this process has, until one cannot
    /// be removed.
    async fn remove_stale(&self, session: &Session, files: Vec<DsiPath>) {
        for file in files {
            let Some(lease) = self.uploads.take(&self.path(&file)) else {
                continue;
            };
            // Another gateway may have continued it, and not every listing has times.
            let removed = match session.stat(lease.file()).await {
                Ok((entry, known)) if self.is_old(&entry, known) == Some(true) => {
                    session.remove(lease.file()).await
                }
                found => found.map(drop),
            };
            if let Err(error) = removed {
                tracing::debug!(path = %file, error = %error.fact(), "an old hidden file stays at the upstream");
                return;
            }
        }
    }

    /// Removes the old hidden files of a directory, once in a while.
    pub(crate) async fn sweep(&self, session: &mut Session, dir: &DsiPath) {
        let there = self.path(dir);
        if !self.uploads.is_due(&there) {
            return;
        }
        let mut stale = Vec::new();
        let each = |entry: Entry, known| {
            if stale.len() < SWEPT {
                stale.extend(self.stale(dir, &entry, known));
            }
        };
        match session.list(&there, each).await {
            Ok(()) => self.remove_stale(session, stale).await,
            Err(error) => tracing::debug!(path = %dir, %error, "not swept"),
        }
    }

    /// The entries of a directory without the files of uploads; old ones of these are removed.
    pub(crate) async fn list(self: &Arc<Self>, user: &User, path: &DsiPath) -> Result<Vec<Stat>> {
        const OP: &str = "list";
        must_be_sendable(OP, path)?;
        let mut session = self.session(user, OP, path).await?;
        let found = session.stat(&self.path(path)).await;
        let listed = match found {
            Err(error) => Err(self.failed(OP, path, error)),
            Ok((entry, _)) if !entry.kind.is_dir() => error(ErrorKind::NotDirectory, OP, path),
            Ok(_) => self.entries(&mut session, OP, path).await,
        };
        if user.may_write {
            let entries = listed.iter().flatten();
            let stale = entries.filter_map(|(entry, known)| self.stale(path, entry, *known));
            let stale = stale.take(SWEPT).collect();
            self.remove_stale(&session, stale).await;
        }
        session.put();
        let shown = listed?.into_iter();
        Ok(shown
            .filter(|(entry, _)| !entry.name.starts_with(HIDDEN))
            .map(|(entry, known)| stat_of(&entry.name, &entry, known))
            .collect())
    }

    pub(crate) async fn rename(
        self: &Arc<Self>,
        user: &User,
        from: &DsiPath,
        to: &DsiPath,
    ) -> Result<()> {
        const OP: &str = "rename";
        must_be_sendable(OP, from)?;
        must_be_sendable(OP, to)?;
        let below = to.as_bytes().strip_prefix(from.as_bytes());
        if below.is_some_and(|rest| rest.starts_with(b"/")) {
            return error(ErrorKind::BadName, OP, to);
        }
        let session = self.session(user, OP, from).await?;
        let renamed = session.rename(&self.path(from), &self.path(to)).await;
        let done = match renamed {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.explained(&session, OP, from, refusal).await),
        };
        session.put();
        done
    }

    pub(crate) async fn set_meta(
        self: &Arc<Self>,
        user: &User,
        path: &DsiPath,
        meta: Meta,
    ) -> Result<()> {
        const OP: &str = "set";
        must_be_sendable(OP, path)?;
        // The command would take the rest of the name for a path.
        let is_word = |group: &String| {
            !group.is_empty() && !group.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        if !meta.group.iter().all(is_word) {
            return error(ErrorKind::BadName, OP, path);
        }
        let session = self.session(user, OP, path).await?;
        let there = self.path(path);
        let setting = async {
            if meta == Meta::new() {
                return session.stat(&there).await.map(drop);
            }
            if let Some(group) = &meta.group {
                session.set_group(&there, group).await?;
            }
            if let Some(mode) = meta.mode {
                session.set_mode(&there, mode).await?;
            }
            if let Some((seconds, nanos)) = meta.modified {
                let time = TimeVal::new(seconds, nanos);
                session.set_modified(&there, time).await?;
            }
            Ok(())
        };
        let done = match setting.await {
            Ok(()) => Ok(()),
            Err(refusal) => Err(self.explained(&session, OP, path, refusal).await),
        };
        session.put();
        done
    }
}

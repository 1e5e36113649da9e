//! Names at the upstream: directories, removal, renaming, and their errors.

use std::sync::Arc;

use ftp_wire::facts::{Entry, EntryKind, TimeVal};
use gridftp_client::error::{ControlError, TransferError};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Meta, Result, Stat, User};

use crate::entry::{HIDDEN, must_be_sendable, stat_of};
use crate::error::{is_vague, kind};
use crate::pool::{Session, Upstream};
use crate::uploads::Uploads;

/// Most entries of a directory.
const MOST: usize = 1_000_000;
/// Most directories inside each other that are removed at once.
const DEPTH: usize = 200;

fn error<T>(kind: ErrorKind, op: &'static str, path: &DsiPath) -> Result<T> {
    Err(Error::new(kind, op).at(path))
}

/// A directory that is being removed with its contents.
struct Level {
    path: DsiPath,
    dirs: Vec<DsiPath>,
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

    pub(crate) async fn remove_dir(
        self: &Arc<Self>,
        uploads: &Arc<Uploads>,
        user: &User,
        path: &DsiPath,
    ) -> Result<()> {
        const OP: &str = "rmdir";
        must_be_sendable(OP, path)?;
        let mut session = self.session(user, OP, path).await?;
        let done = self.remove_empty(uploads, &mut session, path).await;
        session.put();
        done
    }

    /// Removes a directory with nothing in it but files of uploads that were given up.
    async fn remove_empty(
        &self,
        uploads: &Arc<Uploads>,
        session: &mut Session,
        path: &DsiPath,
    ) -> Result<()> {
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
        let files = entries
            .iter()
            .filter_map(|(entry, _)| Some(self.path(&path.child(&entry.name)?)));
        let files: Vec<_> = files.collect();
        // No upload goes on with one of them meanwhile.
        let leases: Option<Vec<_>> = files.iter().map(|file| uploads.take(file)).collect();
        let Some(_leases) = leases else {
            return Err(self.told(ErrorKind::NotEmpty, OP, path, &refusal.into()));
        };
        let failed = |refusal: ControlError| self.failed(OP, path, refusal);
        for file in files {
            session.remove(&file).await.map_err(failed)?;
        }
        session.remove_dir(&there).await.map_err(failed)
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
        for (entry, _) in self.entries(session, OP, path).await? {
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
        let path = path.clone();
        Ok(Level { path, dirs })
    }

    /// All entries of a directory.
    async fn entries(
        &self,
        session: &mut Session,
        op: &'static str,
        path: &DsiPath,
    ) -> Result<Vec<(Entry, Stat)>> {
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
            let stat = stat_of(&entry.name, &entry, known);
            entries.push((entry, stat));
        };
        let listed = session.list(&self.path(path), each).await;
        listed.map_err(|error| self.failed(op, path, error))?;
        match is_full {
            true => error(ErrorKind::TooLarge, op, path),
            false => Ok(entries),
        }
    }

    /// The entries of a directory without the files of uploads under way.
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
        session.put();
        let stats = listed?.into_iter().map(|(_, stat)| stat);
        Ok(stats
            .filter(|stat| !stat.name.starts_with(HIDDEN))
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

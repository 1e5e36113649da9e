//! `End`: this machine or a server, with listings, facts and digests in one form.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet, TimeVal};
use gridftp_client::error::{Class, TransferError};
use gridftp_client::file::{ReadOptions, Reader};
use gridftp_client::options::ConnectOptions;
use gridftp_client::progress::Observer;
use gridftp_client::url::show;
use gridftp_client::{Client, Location, Site, names};

/// One end of the work.
pub(crate) enum End {
    /// This machine.
    Local,
    /// A server.
    Remote(Box<Remote>),
}

/// A server, and the session with it, which begins when it is needed.
pub(crate) struct Remote {
    site: Site,
    options: Arc<ConnectOptions>,
    observer: Arc<dyn Observer>,
    client: Option<Box<Client>>,
}

/// A file, directory or other object, and the facts that are known of it.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) entry: Entry,
    pub(crate) known: FactSet,
}

impl End {
    pub(crate) fn of(
        location: &Location,
        options: &Arc<ConnectOptions>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        match location {
            Location::Remote(remote) => Self::Remote(Box::new(Remote {
                site: remote.site.clone(),
                options: Arc::clone(options),
                observer,
                client: None,
            })),
            _ => Self::Local,
        }
    }

    /// Says whether it is the end of that location.
    pub(crate) fn is_of(&self, location: &Location) -> bool {
        match (self, location) {
            (Self::Remote(here), Location::Remote(there)) => here.site == there.site,
            (Self::Local, Location::Remote(_)) | (Self::Remote(_), _) => false,
            (Self::Local, _) => true,
        }
    }

    /// The session with the server.
    pub(crate) async fn client(&mut self) -> Result<&mut Client, TransferError> {
        let Self::Remote(remote) = self else {
            return Err(TransferError::Request {
                what: "usage: a local path is no URL of a server".to_owned(),
                remedy: "",
            });
        };
        if remote.client.is_none() {
            let (options, observer) = (Arc::clone(&remote.options), Arc::clone(&remote.observer));
            let connected = Client::connect_with(&remote.site, options, observer);
            remote.client = Some(Box::new(Box::pin(connected).await?));
        }
        // The session was made just now if it was not there.
        Ok(remote.client.as_mut().expect("it is connected"))
    }

    /// Forgets a session that is lost, and passes the outcome on.
    fn seen<T>(&mut self, done: Result<T, TransferError>) -> Result<T, TransferError> {
        if let (Self::Remote(remote), Err(error)) = (self, &done)
            && error.class() == Class::Connect
        {
            remote.client = None;
        }
        done
    }

    /// Does something at the server.
    pub(crate) async fn ask<T, E: Into<TransferError>>(
        &mut self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, E>,
    ) -> Result<T, TransferError> {
        let done = work(self.client().await?).await.map_err(Into::into);
        self.seen(done)
    }

    /// The facts of one object.
    pub(crate) async fn stat(&mut self, path: &[u8]) -> Result<Object, TransferError> {
        if let Self::Local = self {
            let local = Path::new(OsStr::from_bytes(path));
            let meta = fs::symlink_metadata(local);
            let meta = meta.map_err(|error| local_error("read", path, error))?;
            return Ok(Object::of_local(names::last(path), local, &meta));
        }
        let (entry, known) = self.ask(async |client| client.stat(path).await).await?;
        Ok(Object { entry, known })
    }

    /// The objects in a directory by name, or the file that is there itself.
    pub(crate) async fn list(&mut self, path: &[u8]) -> Result<Vec<Object>, TransferError> {
        let mut found = Vec::new();
        if let Self::Local = self {
            found = local_list(path).map_err(|error| local_error("list", path, error))?;
        } else {
            let each = |entry, known| found.push(Object { entry, known });
            self.ask(async |client| Box::pin(client.list(path, each)).await)
                .await?;
            for object in &found {
                // The name of a file that is listed itself may be its path.
                if found.len() > 1 {
                    names::check(object.name())?;
                }
            }
        }
        found.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(found)
    }

    /// Opens a file at a server; the session comes back by [`End::keep`].
    pub(crate) async fn reader(
        &mut self,
        path: &[u8],
        options: ReadOptions,
    ) -> Result<Reader, TransferError> {
        self.client().await?;
        let Self::Remote(remote) = self else {
            unreachable!("it has a session");
        };
        let client = remote.client.take().expect("it is connected");
        Ok(client.into_reader(path, options))
    }

    /// Takes a session back.
    pub(crate) fn keep(&mut self, client: Option<Client>) {
        if let Self::Remote(remote) = self {
            remote.client = client.map(Box::new);
        }
    }

    /// Takes the session away.
    pub(crate) async fn take(&mut self) -> Result<Client, TransferError> {
        self.client().await?;
        let Self::Remote(remote) = self else {
            unreachable!("it has a session");
        };
        Ok(*remote.client.take().expect("it is connected"))
    }

    /// Ends the session politely.
    pub(crate) async fn close(self) {
        if let Self::Remote(remote) = self
            && let Some(client) = remote.client
        {
            client.close().await;
        }
    }
}

impl Object {
    fn of_local(name: &[u8], path: &Path, meta: &Metadata) -> Self {
        let kind = meta.file_type();
        let (mut entry_kind, mut target) = (EntryKind::Other, None);
        if kind.is_symlink() {
            let leads = fs::read_link(path).unwrap_or_default();
            target = Some(leads.into_os_string().as_bytes().to_vec());
            // As servers tell it: the kind of the object that the link leads to.
            entry_kind = match fs::metadata(path) {
                Ok(meta) if meta.is_dir() => EntryKind::Dir,
                Ok(meta) if meta.is_file() => EntryKind::File,
                _ => EntryKind::Slink,
            };
        } else if kind.is_dir() {
            entry_kind = EntryKind::Dir;
        } else if kind.is_file() {
            entry_kind = EntryKind::File;
        } else if kind.is_fifo() {
            entry_kind = EntryKind::Pipe;
        }
        let mut entry = Entry::new(entry_kind, name);
        entry.size = meta.len();
        entry.modified = TimeVal::new(meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0));
        entry.mode = meta.mode() & 0o7777;
        entry.links = meta.nlink();
        entry.owner = (meta.uid(), meta.uid().to_string());
        entry.group = (meta.gid(), meta.gid().to_string());
        entry.target = target;
        let facts = [
            Fact::Type,
            Fact::Size,
            Fact::Modify,
            Fact::UnixMode,
            Fact::UnixOwner,
            Fact::UnixGroup,
        ];
        let known = facts.into_iter().fold(FactSet::NONE, FactSet::with);
        Self { entry, known }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.entry.name
    }

    /// Says whether it is a directory itself, and no link to one.
    pub(crate) fn is_tree(&self) -> bool {
        self.entry.kind.is_dir() && self.entry.target.is_none()
    }

    /// The kind in a word.
    pub(crate) fn kind(&self) -> &'static str {
        match self.entry.kind {
            _ if self.entry.target.is_some() => "link",
            EntryKind::File => "file",
            EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir => "dir",
            EntryKind::Slink => "link",
            _ => "other",
        }
    }

    pub(crate) fn size(&self) -> Option<u64> {
        let is_file = self.entry.kind == EntryKind::File;
        (is_file && self.known.contains(Fact::Size)).then_some(self.entry.size)
    }

    pub(crate) fn modified(&self) -> Option<TimeVal> {
        let known = self.known.contains(Fact::Modify);
        known.then_some(self.entry.modified)
    }

    pub(crate) fn mode(&self) -> Option<u32> {
        let known = self.known.contains(Fact::UnixMode);
        known.then_some(self.entry.mode)
    }

    pub(crate) fn owner(&self) -> Option<&str> {
        let known = self.known.contains(Fact::UnixOwner);
        known.then_some(self.entry.owner.1.as_str())
    }

    pub(crate) fn group(&self) -> Option<&str> {
        let known = self.known.contains(Fact::UnixGroup);
        known.then_some(self.entry.group.1.as_str())
    }
}

fn local_list(path: &[u8]) -> io::Result<Vec<Object>> {
    let path = Path::new(OsStr::from_bytes(path));
    let meta = fs::metadata(path)?;
    if !meta.is_dir() {
        let name = path.file_name().unwrap_or_default();
        let meta = fs::symlink_metadata(path)?;
        return Ok(vec![Object::of_local(name.as_bytes(), path, &meta)]);
    }
    let entries = fs::read_dir(path)?.map(|entry| {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        Ok(Object::of_local(name.as_bytes(), &path, &entry.metadata()?))
    });
    entries.collect()
}

/// The error of a failed operation on a local path.
pub(crate) fn local_error(op: &'static str, path: &[u8], cause: io::Error) -> TransferError {
    TransferError::Local {
        op,
        path: show(path),
        cause: Box::new(cause),
    }
}

/// The error behind one of a reader or a writer.
pub(crate) fn data_error(path: &[u8], error: io::Error) -> TransferError {
    match error.downcast::<TransferError>() {
        Ok(error) => error,
        Err(error) => local_error("transfer", path, error),
    }
}

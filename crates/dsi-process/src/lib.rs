//! Storage in a process of its own, written in any language.
//!
//! The process serves the gRPC service of `proto/storage.proto` on a Unix socket. Only calls cross
//! it: for each open file the process passes a descriptor on a second socket, and the server reads
//! and writes the bytes through that. So data moves as fast as with a directory of the server's own,
//! and a process that crashes fails its own transfers and nothing else; the next call connects anew.
//!
//! The process checks paths and enforces its own rights. This end refuses all changes by read-only
//! users, a file with holes, and the removal of the root. Uploads get their name whole, by
//! `Finish`; they cannot be continued after an interruption, and files are not changed in part.
//!
//! `examples/folder.py` is a complete storage in Python.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use gridftp_dsi_process::Process;
//!
//! let storage = Process::open(Path::new("/run/tape.sock"))?;
//! # Ok::<(), gridftp_dsi::Error>(())
//! ```
#![forbid(unsafe_code)]

mod connection;
mod convert;
mod objects;
mod proto;

use std::path::Path;
use std::sync::Arc;

use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Meta, Progress,
    Result, Stat, User, WriteModel,
};

use crate::connection::{Connection, LONG, SHORT};
use crate::convert::{place, stat, time};
pub use crate::objects::{ProcessListing, ProcessSink, ProcessSource};

/// Version of the service that is spoken here.
const VERSION: u32 = 1;

/// Storage in another process.
#[derive(Debug)]
pub struct Process {
    connection: Arc<Connection>,
    capabilities: Capabilities,
}

impl Process {
    /// Asks the process at a socket for its abilities.
    ///
    /// Blocks for a moment, on a thread of its own, so that it may be called within a runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] where no process answers, [`ErrorKind::Unsupported`] for another version of
    /// the service.
    pub fn open(socket: &Path) -> Result<Self> {
        let first = Connection::new(socket);
        let asking = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.map_err(|e| Error::new(ErrorKind::Io, "open").because(e))?;
            let root = DsiPath::root();
            let asked = first.call(("open", &root), SHORT, |mut client| async move {
                client.describe(proto::DescribeRequest {}).await
            });
            runtime.block_on(asked)
        });
        let asked = asking.join();
        let described = asked.unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "open")))?;
        if described.version != VERSION {
            let (other, at) = (described.version, socket.display());
            let why = format!("{at} speaks version {other} of the service, this server {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, "open").because(why));
        }
        let known = described.checksums.iter().filter_map(|offered| {
            let algorithm = ChecksumAlgorithm::from_name(offered.name.as_bytes())?;
            let cost = u8::try_from(offered.cost.clamp(1, 20)).unwrap_or(20);
            Some((algorithm, cost))
        });
        Ok(Self {
            connection: Arc::new(Connection::new(socket)),
            capabilities: Capabilities::new("process", WriteModel::Random)
                .with_checksums(known.collect::<Vec<_>>())
                .with_modes(described.modes)
                .with_times(described.times)
                .with_updates(false),
        })
    }

    /// The reason why a file cannot be changed in part: the place first, as for a whole file.
    async fn no_part(&self, user: &User, path: &DsiPath) -> Error {
        let is_dir = self.stat(user, path).await.is_ok_and(|stat| stat.is_dir());
        let above = match path.parent() {
            Some(parent) => self.stat(user, &parent).await.map(|stat| stat.is_dir()),
            None => Ok(true),
        };
        let kind = match above {
            _ if is_dir => ErrorKind::IsDirectory,
            Err(error) => error.kind(),
            Ok(false) => ErrorKind::NotDirectory,
            Ok(true) => ErrorKind::Unsupported,
        };
        Error::new(kind, "open").at(path)
    }

    /// Refuses changes by read-only users, and of the root where it is fixed.
    fn check(user: &User, op: &'static str, path: &DsiPath, is_root_fixed: bool) -> Result<()> {
        if !user.may_write || is_root_fixed && path.is_root() {
            return Err(Error::new(ErrorKind::Denied, op).at(path));
        }
        Ok(())
    }
}

impl Dsi for Process {
    type Source = ProcessSource;
    type Sink = ProcessSink;
    type Listing = ProcessListing;

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        let place = place(user, path);
        let asked = self
            .connection
            .call(("stat", path), SHORT, |mut client| async move {
                client.stat(place).await
            });
        Ok(stat(asked.await?, path.name()))
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<ProcessListing> {
        // Only a stream that fails later would tell of a missing directory.
        if !self.stat(user, path).await?.is_dir() {
            return Err(Error::new(ErrorKind::NotDirectory, "list").at(path));
        }
        let place = place(user, path);
        let asked = self
            .connection
            .call(("list", path), SHORT, |mut client| async move {
                client.list(place).await
            });
        Ok(ProcessListing::new(asked.await?, path.clone()))
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<ProcessSource> {
        let place = place(user, path);
        let asked = self
            .connection
            .call(("open", path), LONG, |mut client| async move {
                client.open(place).await
            });
        let handle = asked.await?.handle;
        ProcessSource::new(Arc::clone(&self.connection), path, handle).await
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<ProcessSink> {
        Self::check(user, "open", path, false)?;
        if !matches!(how, Create::Whole { .. } | Create::Resume { .. }) {
            return Err(self.no_part(user, path).await);
        }
        let place = place(user, path);
        let asked = self
            .connection
            .call(("open", path), SHORT, |mut client| async move {
                client.create(place).await
            });
        let handle = asked.await?.handle;
        ProcessSink::new(Arc::clone(&self.connection), path, handle).await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::check(user, "make directory", path, false)?;
        let place = place(user, path);
        let asked =
            self.connection
                .call(("make directory", path), SHORT, |mut client| async move {
                    client.make_dir(place).await
                });
        asked.await.map(drop)
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::check(user, "remove directory", path, true)?;
        let place = place(user, path);
        let asked =
            self.connection
                .call(("remove directory", path), SHORT, |mut client| async move {
                    client.remove_dir(place).await
                });
        asked.await.map(drop)
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::check(user, "remove", path, true)?;
        let place = place(user, path);
        let asked = self
            .connection
            .call(("remove", path), SHORT, |mut client| async move {
                client.remove(place).await
            });
        asked.await.map(drop)
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::check(user, "remove tree", path, true)?;
        let place = place(user, path);
        let asked = self
            .connection
            .call(("remove tree", path), LONG, |mut client| async move {
                client.remove_tree(place).await
            });
        asked.await.map(drop)
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        Self::check(user, "rename", from, true)?;
        Self::check(user, "rename", to, true)?;
        let request = proto::RenameRequest {
            from: Some(place(user, from)),
            to: to.as_bytes().to_vec(),
        };
        let asked = self
            .connection
            .call(("rename", from), SHORT, |mut client| async move {
                client.rename(request).await
            });
        asked.await.map(drop)
    }

    async fn symlink(&self, user: &User, _: &[u8], link: &DsiPath) -> Result<()> {
        Self::check(user, "link", link, false)?;
        Err(Error::new(ErrorKind::Unsupported, "link").at(link))
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        Self::check(user, "set metadata", path, false)?;
        let request = proto::SetMetaRequest {
            place: Some(place(user, path)),
            modified: meta.modified.map(time),
            mode: meta.mode,
            group: meta.group,
        };
        let asked = self
            .connection
            .call(("set metadata", path), SHORT, |mut client| async move {
                client.set_meta(request).await
            });
        asked.await.map(drop)
    }

    async fn truncate(&self, user: &User, path: &DsiPath, _: u64) -> Result<()> {
        Self::check(user, "truncate", path, false)?;
        Err(Error::new(ErrorKind::Unsupported, "truncate").at(path))
    }

    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        let request = proto::ChecksumRequest {
            place: Some(place(user, path)),
            algorithm: algorithm.name().to_owned(),
            offset,
            length,
        };
        let asked = self
            .connection
            .call(("checksum", path), LONG, |mut client| async move {
                client.checksum(request).await
            });
        let hashed = asked.await?;
        progress.add(hashed.bytes);
        Ok(hashed.digest.to_ascii_lowercase())
    }
}

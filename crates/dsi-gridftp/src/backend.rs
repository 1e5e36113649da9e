//! `Gateway`: another server behind the storage interface.

use std::fmt;
use std::sync::Arc;

use byte_ranges::RangeSet;
use gridftp_client::error::TransferError;
use gridftp_dsi::hasher::COSTS;
use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Meta, Progress,
    Result, Stat, User, WriteModel,
};

use crate::config::Config;
use crate::digest::Part;
use crate::entry::{must_be_file, must_be_sendable, stat_of};
use crate::error::refused;
use crate::listing::GatewayListing;
use crate::pool::Upstream;
use crate::probe::{Asked, Probe};
use crate::sink::GatewaySink;
use crate::source::GatewaySource;
use crate::target::Kept;

/// A directory of another server.
pub struct Gateway {
    up: Arc<Upstream>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.up.fmt(f)
    }
}

impl Gateway {
    /// Opens a gateway. No connection is made: an upstream that is not there shows with the first
    /// command, and is tried again by each further one.
    ///
    /// # Errors
    /// For a wrong configuration, and files of it that cannot be read.
    pub fn open(config: &Config) -> Result<Self> {
        Ok(Self {
            up: Arc::new(Upstream::open(config)?),
        })
    }

    /// Refuses changes by read-only users.
    fn must_write(op: &'static str, user: &User, path: &DsiPath) -> Result<()> {
        match user.may_write {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Denied, op).at(path)),
        }
    }

    /// Refuses a change of the root.
    fn must_move(op: &'static str, user: &User, path: &DsiPath) -> Result<()> {
        Self::must_write(op, user, path)?;
        match path.is_root() {
            true => Err(Error::new(ErrorKind::Denied, op).at(path)),
            false => Ok(()),
        }
    }

    /// The reason why a file cannot be changed in part: the place first, as for a whole file.
    async fn no_part(&self, op: &'static str, user: &User, path: &DsiPath) -> Error {
        let found = match self.stat(user, path).await {
            Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
                Some(parent) => self.stat(user, &parent).await.map(|stat| (stat, false)),
                None => Err(error),
            },
            found => found.map(|stat| (stat, true)),
        };
        match found {
            Err(error) => error,
            Ok((stat, true)) if stat.is_dir() => Error::new(ErrorKind::IsDirectory, op).at(path),
            Ok((stat, false)) if !stat.is_dir() => Error::new(ErrorKind::NotDirectory, op).at(path),
            Ok(_) => {
                let why = "a gateway changes no part of a file: upload the whole file";
                refused(ErrorKind::Unsupported, op, path, why)
            }
        }
    }
}

impl Dsi for Gateway {
    type Source = GatewaySource;
    type Sink = GatewaySink;
    type Listing = GatewayListing;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new("gridftp", WriteModel::Sequential)
            .with_checksums(COSTS)
            .with_resume(true)
            .with_modes(true)
            .with_updates(false)
            // Listings tell milliseconds.
            .with_time_grain(1_000_000)
            .with_acting_for_users(self.up.acts_for_users())
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        const OP: &str = "stat";
        must_be_sendable(OP, path)?;
        let found = match self.up.probe.read(path) {
            Asked::Own | Asked::TooFar => return Err(Probe::refusal(OP, path)),
            Asked::Foreign(next) => {
                let session = self.up.fresh(user, OP, path).await?;
                let found = session.stat(&self.up.path(&next)).await;
                found.map_err(TransferError::from)
            }
            Asked::Other => {
                let session = self.up.session(user, OP, path).await?;
                let found = session.stat(&self.up.path(path)).await;
                session.end(found)
            }
        };
        let (entry, known) = found.map_err(|error| self.up.failed(OP, path, error))?;
        Ok(stat_of(path.name(), &entry, known))
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<GatewayListing> {
        self.up.list(user, path).await.map(GatewayListing::new)
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<GatewaySource> {
        const OP: &str = "open";
        must_be_sendable(OP, path)?;
        let session = self.up.session(user, OP, path).await?;
        let found = session.stat(&self.up.path(path)).await;
        let (entry, known) = session
            .end(found)
            .map_err(|error| self.up.failed(OP, path, error))?;
        must_be_file(OP, path, stat_of(path.name(), &entry, known).kind)?;
        Ok(GatewaySource::new(&self.up, user, path, (&entry, known)))
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<GatewaySink> {
        Self::must_write("open", user, path)?;
        if path.is_root() {
            return Err(Error::new(ErrorKind::IsDirectory, "open").at(path));
        }
        let resumes = match how {
            Create::Whole { .. } => false,
            Create::Resume { .. } => true,
            _ => return Err(self.no_part("open", user, path).await),
        };
        // Large futures stay off the stack of the session.
        Box::pin(GatewaySink::open(&self.up, user, path, resumes)).await
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        const OP: &str = "stat";
        let Some(name) = self
            .up
            .hidden(user, path)
            .filter(|_| must_be_sendable(OP, path).is_ok())
        else {
            return Ok(RangeSet::new());
        };
        let file = self.up.path(&name);
        if let Some(recorded) = self.up.uploads.settled(&file).await {
            return Ok(RangeSet::up_to(recorded));
        }
        let session = self.up.session(user, OP, path).await?;
        let found = Kept::find(&self.up, &session, &file).await;
        let kept = session
            .end(found)
            .map_err(|error| self.up.failed(OP, path, error))?;
        Ok(RangeSet::up_to(kept.bytes()))
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        const OP: &str = "remove partial file";
        Self::must_write(OP, user, path)?;
        let missing = || Error::new(ErrorKind::NotFound, OP).at(path);
        let name = self.up.hidden(user, path).ok_or_else(missing)?;
        let file = self.up.path(&name);
        let written = self.up.uploads.settled(&file).await;
        let lease = self.up.uploads.take(&file).filter(|_| written.is_none());
        let _lease = lease.ok_or_else(|| Error::new(ErrorKind::Busy, OP).at(path))?;
        let session = self.up.session(user, OP, path).await?;
        let removed = async {
            match Kept::find(&self.up, &session, &file).await? {
                Kept::Nothing => Ok(false),
                Kept::Apart(_) => session.drop_held(&file).await.map(|()| true),
                Kept::Hidden(_) => session.remove(&file).await.map(|()| true),
            }
        };
        let removed = removed.await;
        match session.end(removed) {
            Ok(true) => Ok(()),
            Ok(false) => Err(missing()),
            Err(error) => Err(self.up.failed(OP, path, error)),
        }
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::must_write("mkdir", user, path)?;
        self.up.make_dir(user, path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::must_move("rmdir", user, path)?;
        self.up.remove_dir(user, path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::must_move("remove", user, path)?;
        self.up.remove(user, path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        Self::must_move("remove", user, path)?;
        self.up.remove_tree(user, path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        Self::must_move("rename", user, from)?;
        Self::must_move("rename", user, to)?;
        self.up.rename(user, from, to).await
    }

    async fn symlink(&self, user: &User, _: &[u8], link: &DsiPath) -> Result<()> {
        Self::must_write("link", user, link)?;
        Err(Error::new(ErrorKind::Unsupported, "link").at(link))
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        Self::must_write("set", user, path)?;
        self.up.set_meta(user, path, meta).await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, _: u64) -> Result<()> {
        Self::must_write("truncate", user, path)?;
        Err(self.no_part("truncate", user, path).await)
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
        const OP: &str = "checksum";
        must_be_sendable(OP, path)?;
        let file = self.up.path(path);
        let session = self.up.session(user, OP, path).await?;
        let found = session.stat(&file).await;
        let (session, (entry, known)) = session
            .and(found)
            .map_err(|error| self.up.failed(OP, path, error))?;
        let checked = must_be_file(OP, path, stat_of(path.name(), &entry, known).kind);
        if let Err(error) = checked {
            session.put();
            return Err(error);
        }
        let left = entry.size.saturating_sub(offset);
        let part = Part {
            up: &self.up,
            path,
            file: &file,
            offset,
            length: length.map_or(left, |length| length.min(left)),
        };
        let (session, digest) = part.digest(session, algorithm, progress).await?;
        session.put();
        Ok(digest)
    }
}

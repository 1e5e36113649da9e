//! `Remote`: a storage whose calls go to one of its peers.

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use gridftp_dsi::types::Attribute;
use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Meta, Partial,
    Progress, Result, Staging, Stat, User,
};
use tonic::{Response, Status};

use crate::convert::{attributes, digest, place, stat, way};
use crate::handle::{At, LONG, Rule, SHORT, Shared};
use crate::objects::{RemoteListing, RemoteSink, RemoteSource, held};
use crate::partials::merged;
use crate::peers::Peers;
use crate::proto;

/// A storage that peers serve.
///
/// The peers check paths and enforce their own rights. This end refuses all changes by read-only
/// users, and of the root.
#[derive(Debug)]
pub struct Remote<P> {
    shared: Arc<Shared<P>>,
}

impl<P: Peers> Remote<P> {
    /// The storage of these peers.
    pub fn new(peers: P) -> Self {
        let shared = Arc::new(Shared::new(peers));
        Self { shared }
    }

    fn can(&self) -> Capabilities {
        self.shared.peers.capabilities()
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
}

/// Makes a call of this name.
macro_rules! call {
    ($own:expr, $at:expr, $rule:expr, $request:expr, $method:ident) => {
        $own.shared
            .call($at, $rule, $request, |mut client, request| async move {
                client.$method(request).await
            })
    };
}

/// Opens a file by the call of this name; the message has the handle.
macro_rules! open {
    ($own:expr, $at:expr, $rule:expr, $request:expr, $method:ident) => {
        $own.shared
            .open($at, $rule, $request, |mut client, request| async move {
                client.$method(request).await
            })
    };
}

/// Refuses changes by read-only users.
fn must_write(at: At<'_>) -> Result<()> {
    match at.1.may_write {
        true => Ok(()),
        false => Err(at.error(ErrorKind::Denied)),
    }
}

/// As [`must_write`], and refuses changes of the root.
fn must_change(at: At<'_>) -> Result<()> {
    match at.2.is_root() {
        true => Err(at.error(ErrorKind::Denied)),
        false => must_write(at),
    }
}

impl<P: Peers> Dsi for Remote<P> {
    type Source = RemoteSource<P>;
    type Sink = RemoteSink<P>;
    type Listing = RemoteListing;

    fn capabilities(&self) -> Capabilities {
        self.can()
    }

    fn identity(&self) -> Option<String> {
        self.shared.peers.identity()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        let at = At("stat", user, path);
        let asking = call!(self, at, Rule::SAFE, place(user, path), stat);
        Ok(stat(asking.await?, path.name()))
    }

    async fn free_space(&self, user: &User, path: &DsiPath) -> Result<u64> {
        let at = At("ask for free space", user, path);
        let asking = call!(self, at, Rule::SAFE, place(user, path), free);
        Ok(asking.await?.bytes)
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<RemoteListing> {
        let at = At("list", user, path);
        let asking = self.shared.call(
            at,
            Rule::SAFE,
            place(user, path),
            |mut client, place| async move {
                let mut entries = client.list(place).await?.into_inner();
                // A peer may tell only with the first batch that the directory is not there.
                let first = entries.message().await?;
                Ok(Response::new((first, entries)))
            },
        );
        Ok(RemoteListing::new(asking.await?, path))
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<RemoteSource<P>> {
        let (at, rule) = (At("open", user, path), Rule::SAFE.within(LONG));
        let request = |handle| proto::OpenRequest {
            place: Some(place(user, path)),
            handle,
        };
        let opening = open!(self, at, rule, request, open);
        RemoteSource::new(opening.await?).await
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<RemoteSink<P>> {
        let at = At("open", user, path);
        must_write(at)?;
        let is_new = matches!(how, Create::Whole { .. } | Create::Resume { .. });
        if !is_new && !self.can().updates {
            return Err(self.no_part(user, path).await);
        }
        let (way, size) = way(how);
        let request = |handle| proto::CreateRequest {
            place: Some(place(user, path)),
            way: way.into(),
            size,
            handle,
        };
        let opening = open!(self, at, Rule::ONCE, request, create);
        RemoteSink::new(opening.await?).await
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<RemoteSink<P>> {
        let at = At("join", user, path);
        must_write(at)?;
        let request = |handle| proto::JoinRequest {
            place: Some(place(user, path)),
            token: token.to_vec(),
            handle,
        };
        let opening = open!(self, at, Rule::SAFE, request, join);
        RemoteSink::new(opening.await?).await
    }

    async fn stage(
        &self,
        user: &User,
        path: &DsiPath,
        task: &str,
        within: Duration,
    ) -> Result<Staging> {
        if !self.can().stages {
            return self.stat(user, path).await.map(|_| Staging::Here);
        }
        let request = proto::StageRequest {
            place: Some(place(user, path)),
            task: task.to_owned(),
            within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        };
        let rule = Rule::SAFE.within(within.saturating_add(SHORT).min(LONG));
        let asking = call!(self, At("stage", user, path), rule, request, stage);
        Ok(match asking.await?.here {
            true => Staging::Here,
            false => Staging::Retrieving,
        })
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        let at = At("look for partial file", user, path);
        let asking = call!(self, at, Rule::SAFE, place(user, path), held);
        match asking.await {
            // The peer alone knows: the capabilities are the least ones while none is connected.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(RangeSet::new()),
            asked => held(&asked?, path),
        }
    }

    /// Those that any peer tells: all see the same files, but each may have an index of its own.
    async fn partials(&self, user: &User, path: &DsiPath) -> Result<(Vec<Partial>, bool)> {
        let at = At("list partial files", user, path);
        let asking = self
            .shared
            .call_all(at, place(user, path), |mut client, place| async move {
                client.partials(place).await
            });
        merged(asking.await?, path)
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        let at = At("remove partial file", user, path);
        must_write(at)?;
        let asking = call!(self, at, Rule::ONCE, place(user, path), drop_held);
        match asking.await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(at.error(ErrorKind::NotFound))
            }
            asked => asked.map(drop),
        }
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        let at = At("make directory", user, path);
        must_write(at)?;
        let asking = call!(self, at, Rule::ONCE, place(user, path), make_dir);
        asking.await.map(drop)
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        let at = At("remove directory", user, path);
        must_change(at)?;
        let asking = call!(self, at, Rule::ONCE, place(user, path), remove_dir);
        asking.await.map(drop)
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        let at = At("remove", user, path);
        must_change(at)?;
        let asking = call!(self, at, Rule::ONCE, place(user, path), remove);
        asking.await.map(drop)
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        let (at, rule) = (At("remove tree", user, path), Rule::ONCE.within(LONG));
        must_change(at)?;
        let asking = call!(self, at, rule, place(user, path), remove_tree);
        asking.await.map(drop)
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        let at = At("rename", user, from);
        must_change(at)?;
        must_change(At("rename", user, to))?;
        let request = proto::RenameRequest {
            from: Some(place(user, from)),
            to: to.as_bytes().to_vec(),
        };
        let asking = call!(self, at, Rule::ONCE, request, rename);
        asking.await.map(drop)
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        let at = At("link", user, link);
        must_write(at)?;
        let request = proto::SymlinkRequest {
            link: Some(place(user, link)),
            target: target.to_vec(),
        };
        let asking = call!(self, at, Rule::ONCE, request, symlink);
        asking.await.map(drop)
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        let at = At("set metadata", user, path);
        must_write(at)?;
        let request = proto::SetMetaRequest {
            place: Some(place(user, path)),
            modified: meta.modified.map(proto::Time::from),
            mode: meta.mode,
            group: meta.group,
        };
        let asking = call!(self, at, Rule::ONCE, request, set_meta);
        asking.await.map(drop)
    }

    async fn attributes(&self, user: &User, path: &DsiPath) -> Result<Vec<Attribute>> {
        let at = At("read attributes", user, path);
        let asking = call!(self, at, Rule::SAFE, place(user, path), attributes);
        attributes(asking.await?).ok_or_else(|| {
            let why = "a peer tells attributes that are longer or more than those of a file";
            at.error(ErrorKind::Malformed).because(why)
        })
    }

    async fn set_attribute(&self, user: &User, path: &DsiPath, attribute: Attribute) -> Result<()> {
        let at = At("set attribute", user, path);
        must_write(at)?;
        let request = proto::SetAttributeRequest {
            place: Some(place(user, path)),
            attribute: Some(attribute.into()),
        };
        let asking = call!(self, at, Rule::ONCE, request, set_attribute);
        asking.await.map(drop)
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        let at = At("truncate", user, path);
        must_write(at)?;
        let request = proto::TruncateRequest {
            place: Some(place(user, path)),
            length,
        };
        let asking = call!(self, at, Rule::ONCE, request, truncate);
        asking.await.map(drop)
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
        let at = At("checksum", user, path);
        let request = proto::ChecksumRequest {
            place: Some(place(user, path)),
            algorithm: algorithm.name().to_owned(),
            offset,
            length,
        };
        let rule = Rule::SAFE.by_load().within(LONG);
        let hashing = self
            .shared
            .call(at, rule, request, |mut client, request| async move {
                let mut digests = client.checksum(request).await?.into_inner();
                loop {
                    let last = digests.message().await?;
                    let last = last.ok_or_else(|| Status::internal("the digest is missing"))?;
                    progress.add(last.bytes.saturating_sub(progress.get()));
                    if !last.digest.is_empty() {
                        return Ok(Response::new(last.digest));
                    }
                }
            });
        digest(algorithm, &hashing.await?).ok_or_else(|| {
            let why = format!("the reply of a peer has no {algorithm} digest");
            at.error(ErrorKind::Malformed).because(why)
        })
    }
}

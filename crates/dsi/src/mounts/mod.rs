//! `Mounts`: several storages in one tree, each below a directory of its own.

mod open;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;

pub use self::open::{MountedListing, Placed};
use crate::capability::{Capabilities, ChecksumAlgorithm, WriteModel};
use crate::dsi::Dsi;
use crate::erased::{BoxSink, BoxSource, DynDsi};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    Attribute, Create, DsiPath, Kind, Meta, Partial, Progress, Staging, Stat, User,
};

/// A tree of several storages.
///
/// A path belongs to the storage that is mounted at its longest leading directory, and reaches it
/// without that directory. Directories that lead to a mount point exist by themselves, also where
/// no storage is mounted at `/`. A mount point, and a directory above one, is neither removed,
/// renamed nor replaced; a name does not move from one storage to another.
///
/// ```
/// use std::sync::Arc;
///
/// use gridftp_dsi::{DsiPath, Memory, Mount, Mounts};
///
/// let archive = DsiPath::new(b"/archive").ok_or("not a path")?;
/// let tree = Mounts::new([
///     Mount::new(DsiPath::root(), Arc::new(Memory::new())),
///     Mount::new(archive, Arc::new(Memory::new())).read_only(),
/// ])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Mounts {
    /// Longer mount points first.
    mounts: Vec<Mount>,
    /// The directories above the mount points.
    above: BTreeSet<DsiPath>,
}

/// One storage and its place in the tree.
#[derive(Clone)]
pub struct Mount {
    at: DsiPath,
    storage: Arc<dyn DynDsi>,
    is_read_only: bool,
    /// The users who may use it; all if `None`.
    users: Option<BTreeSet<String>>,
}

impl Mount {
    /// Mounts `storage` at this directory.
    #[must_use]
    pub fn new(at: DsiPath, storage: Arc<dyn DynDsi>) -> Self {
        Self {
            at,
            storage,
            is_read_only: false,
            users: None,
        }
    }

    /// Refuses changes below this mount point to every user.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Refuses the storage to all other users, who see the name of the mount point and no more.
    #[must_use]
    pub fn for_users(mut self, users: impl IntoIterator<Item = String>) -> Self {
        self.users = Some(users.into_iter().collect());
        self
    }

    /// Whether a user may use the storage.
    fn admits(&self, user: &User) -> bool {
        let users = self.users.as_ref();
        users.is_none_or(|users| users.contains(&user.name))
    }

    /// The user of a request, with the rules of this mount point.
    fn user(&self, user: &User) -> User {
        let mut user = user.clone();
        user.may_write &= !self.is_read_only;
        user
    }

    /// The facts of the mount point, also while the storage does not answer.
    async fn stat(&self, user: &User) -> Stat {
        let root = DsiPath::root();
        let found = match self.admits(user) {
            true => self.storage.stat_dyn(user, &root).await.ok(),
            false => None,
        };
        let mut stat = found.unwrap_or_else(|| Stat::new("", Kind::Directory));
        stat.name = self.at.name().to_vec();
        stat
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.storage, self.at)
    }
}

/// A storage, and a path as it knows it.
struct Place<'t> {
    mount: &'t Mount,
    path: DsiPath,
    user: User,
}

impl Mounts {
    /// A tree of these storages.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] for two of them at one place.
    pub fn new(mounts: impl IntoIterator<Item = Mount>) -> Result<Self> {
        let mut mounts: Vec<Mount> = mounts.into_iter().collect();
        mounts.sort_by(|one, other| {
            let by_length = other.at.as_bytes().len().cmp(&one.at.as_bytes().len());
            by_length.then_with(|| one.at.cmp(&other.at))
        });
        let mut above = BTreeSet::new();
        let mut last = None;
        for mount in &mounts {
            if last.replace(&mount.at) == Some(&mount.at) {
                return Err(Error::new(ErrorKind::Exists, "mount").at(&mount.at));
            }
            let mut up = mount.at.parent();
            while let Some(dir) = up {
                up = dir.parent();
                above.insert(dir);
            }
        }
        Ok(Self { mounts, above })
    }

    /// The storage of a path.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where none is mounted, [`ErrorKind::Denied`] for a user whom it does
    /// not admit.
    fn place(&self, user: &User, path: &DsiPath, op: &'static str) -> Result<Place<'_>> {
        let fault = |kind| Error::new(kind, op).at(path);
        let place = self.mounts.iter().find_map(|mount| {
            Some(Place {
                path: path.below(&mount.at)?,
                user: mount.user(user),
                mount,
            })
        });
        let place = place.ok_or_else(|| fault(ErrorKind::NotFound))?;
        match place.mount.admits(user) {
            true => Ok(place),
            false => {
                let why = format!("the storage at {} is for other users", place.mount.at);
                Err(fault(ErrorKind::Denied).because(why))
            }
        }
    }

    /// Whether storages or mount points keep this name in its place.
    fn is_fixed(&self, path: &DsiPath) -> bool {
        self.above.contains(path) || self.mounts.iter().any(|mount| mount.at == *path)
    }

    /// The storage of a name that may change.
    fn movable(&self, user: &User, path: &DsiPath, op: &'static str) -> Result<Place<'_>> {
        if self.is_fixed(path) {
            let why = "a storage is mounted there or below";
            return Err(Error::new(ErrorKind::Denied, op).at(path).because(why));
        }
        self.place(user, path, op)
    }

    /// The mount points, and the directories that lead to one, right below a directory.
    fn children(&self, dir: &DsiPath) -> BTreeSet<DsiPath> {
        let points = self.mounts.iter().map(|mount| &mount.at);
        let all = points.chain(&self.above);
        all.filter(|path| path.parent().as_ref() == Some(dir))
            .cloned()
            .collect()
    }

    /// The directory that leads to mount points, where no storage has one.
    fn leading(path: &DsiPath) -> Stat {
        Stat::new(path.name(), Kind::Directory)
    }
}

/// Tells the path as the user knows it.
fn told<T>(result: Result<T>, path: &DsiPath) -> Result<T> {
    result.map_err(|error| error.at(path))
}

impl Dsi for Mounts {
    type Source = Placed<BoxSource>;
    type Sink = Placed<BoxSink>;
    type Listing = MountedListing;

    /// Those of all storages; of the orders of writes the strictest.
    fn capabilities(&self) -> Capabilities {
        let mut all = self
            .mounts
            .iter()
            .map(|mount| mount.storage.capabilities_dyn());
        let Some(mut tree) = all.next() else {
            return Capabilities::new("empty", WriteModel::Random);
        };
        for one in all {
            tree.name = "mounts";
            tree.writes = stricter(tree.writes, one.writes);
            tree.symlinks &= one.symlinks;
            tree.resume &= one.resume;
            tree.keeps &= one.keeps;
            tree.modes &= one.modes;
            tree.shares_uploads &= one.shares_uploads;
            tree.updates &= one.updates;
            tree.time_grain = tree.time_grain.max(one.time_grain);
            tree.acts_for_users |= one.acts_for_users;
            tree.times &= one.times;
            tree.stages |= one.stages;
            tree.exclusive &= one.exclusive;
            tree.durable &= one.durable;
            tree.boot = tree.boot.filter(|boot| one.boot == Some(*boot));
            tree.tells_space &= one.tells_space;
            tree.attributes &= one.attributes;
            tree.checksums.retain_mut(|(known, cost)| {
                let other = one.checksums.iter().find(|(name, _)| name == known);
                *cost = other.map_or(*cost, |(_, other)| (*cost).max(*other));
                other.is_some()
            });
        }
        tree
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        let found = match self.place(user, path, "stat") {
            Ok(place) => place.mount.storage.stat_dyn(&place.user, &place.path).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(mut stat) if stat.is_dir() || !self.above.contains(path) => {
                if !path.is_root() {
                    stat.name = path.name().to_vec();
                }
                Ok(stat)
            }
            _ if self.above.contains(path) => Ok(Self::leading(path)),
            found => told(found, path),
        }
    }

    async fn free_space(&self, user: &User, path: &DsiPath) -> Result<u64> {
        let place = self.place(user, path, "ask for free space")?;
        let storage = &place.mount.storage;
        told(storage.free_space_dyn(&place.user, &place.path).await, path)
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<MountedListing> {
        let children = self.children(path);
        let opened = match self.place(user, path, "list") {
            Ok(place) => place.mount.storage.list_dyn(&place.user, &place.path).await,
            Err(error) => Err(error),
        };
        let below = match opened {
            Ok(listing) => Some(listing),
            Err(_) if !children.is_empty() => None,
            Err(error) => return Err(error.at(path)),
        };
        let mut own = Vec::with_capacity(children.len());
        for child in children {
            own.push(match self.mounts.iter().find(|mount| mount.at == child) {
                Some(mount) => mount.stat(user).await,
                None => Self::leading(&child),
            });
        }
        Ok(MountedListing::new(own, below, path))
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<Placed<BoxSource>> {
        let place = self.place(user, path, "open")?;
        let source = place.mount.storage.read_dyn(&place.user, &place.path).await;
        told(source, path).map(|source| Placed::new(source, path))
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<Placed<BoxSink>> {
        if self.is_fixed(path) {
            return Err(Error::new(ErrorKind::IsDirectory, "open").at(path));
        }
        let place = self.place(user, path, "open")?;
        let storage = &place.mount.storage;
        let sink = storage.write_dyn(&place.user, &place.path, how).await;
        told(sink, path).map(|sink| Placed::new(sink, path))
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<Placed<BoxSink>> {
        let place = self.movable(user, path, "join")?;
        let storage = &place.mount.storage;
        let sink = storage.join_dyn(&place.user, &place.path, token).await;
        told(sink, path).map(|sink| Placed::new(sink, path))
    }

    async fn stage(
        &self,
        user: &User,
        path: &DsiPath,
        task: &str,
        within: Duration,
    ) -> Result<Staging> {
        let place = self.place(user, path, "stage")?;
        let storage = &place.mount.storage;
        let staged = storage.stage_dyn(&place.user, &place.path, task, within);
        told(staged.await, path)
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        let place = self.place(user, path, "open")?;
        let held = place.mount.storage.held_dyn(&place.user, &place.path).await;
        told(held, path)
    }

    /// Those of the storage that has the directory: of one that is mounted below, a client asks its
    /// mount point.
    async fn partials(&self, user: &User, path: &DsiPath) -> Result<(Vec<Partial>, bool)> {
        let place = self.place(user, path, "list partial files")?;
        let storage = &place.mount.storage;
        let found = storage.partials_dyn(&place.user, &place.path).await;
        let (mut found, is_cut) = told(found, path)?;
        found.retain(|partial| {
            let at = [path.as_bytes(), b"/", partial.name.as_slice()].concat();
            DsiPath::new(&at).is_some_and(|at| {
                let covers = |mount: &&Mount| at.below(&mount.at).is_some();
                self.mounts.iter().find(covers).map(|mount| &mount.at) == Some(&place.mount.at)
            })
        });
        Ok((found, is_cut))
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        let place = self.place(user, path, "remove partial file")?;
        let storage = &place.mount.storage;
        told(storage.drop_held_dyn(&place.user, &place.path).await, path)
    }

    async fn expire(&self, age: Duration) -> Result<u64> {
        let mut removed = 0;
        let mut failed = None;
        for mount in &self.mounts {
            match mount.storage.expire_dyn(age).await {
                Ok(count) => removed += count,
                Err(error) => failed = Some(error.at(&mount.at)),
            }
        }
        failed.map_or(Ok(removed), Err)
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        if self.is_fixed(path) {
            return Err(Error::new(ErrorKind::Exists, "make directory").at(path));
        }
        let place = self.place(user, path, "make directory")?;
        let storage = &place.mount.storage;
        told(storage.make_dir_dyn(&place.user, &place.path).await, path)
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        let place = self.movable(user, path, "remove directory")?;
        let storage = &place.mount.storage;
        told(storage.remove_dir_dyn(&place.user, &place.path).await, path)
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        let place = self.movable(user, path, "remove")?;
        let storage = &place.mount.storage;
        told(storage.remove_dyn(&place.user, &place.path).await, path)
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        let place = self.movable(user, path, "remove tree")?;
        let storage = &place.mount.storage;
        let removed = storage.remove_tree_dyn(&place.user, &place.path).await;
        told(removed, path)
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        let source = self.movable(user, from, "rename")?;
        let target = self.movable(user, to, "rename")?;
        if source.mount.at != target.mount.at {
            let why = format!("{to} is in another storage: copy it there and remove it here");
            return Err(Error::new(ErrorKind::Unsupported, "rename")
                .at(from)
                .because(why));
        }
        let storage = &source.mount.storage;
        let renamed = storage.rename_dyn(&source.user, &source.path, &target.path);
        told(renamed.await, from)
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        let place = self.movable(user, link, "link")?;
        let mut target = target.to_vec();
        if let Some(absolute) = DsiPath::new(&target) {
            let other = self.place(user, &absolute, "link")?;
            if other.mount.at != place.mount.at {
                let why = format!("{absolute} is in another storage");
                return Err(Error::new(ErrorKind::Unsupported, "link")
                    .at(link)
                    .because(why));
            }
            target = other.path.as_bytes().to_vec();
        }
        let storage = &place.mount.storage;
        let linked = storage.symlink_dyn(&place.user, &target, &place.path).await;
        told(linked, link)
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        let place = self.place(user, path, "set metadata")?;
        let storage = &place.mount.storage;
        let set = storage.set_meta_dyn(&place.user, &place.path, meta).await;
        told(set, path)
    }

    async fn attributes(&self, user: &User, path: &DsiPath) -> Result<Vec<Attribute>> {
        let found = match self.place(user, path, "read attributes") {
            Ok(place) => {
                let storage = &place.mount.storage;
                storage.attributes_dyn(&place.user, &place.path).await
            }
            Err(error) => Err(error),
        };
        match found {
            // A directory that only leads to a mount point has none.
            Err(error) if error.kind() == ErrorKind::NotFound && self.above.contains(path) => {
                Ok(Vec::new())
            }
            found => told(found, path),
        }
    }

    async fn set_attribute(&self, user: &User, path: &DsiPath, attribute: Attribute) -> Result<()> {
        let place = self.place(user, path, "set attribute")?;
        let storage = &place.mount.storage;
        let set = storage.set_attribute_dyn(&place.user, &place.path, attribute);
        told(set.await, path)
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        let place = self.place(user, path, "truncate")?;
        let storage = &place.mount.storage;
        let cut = storage.truncate_dyn(&place.user, &place.path, length).await;
        told(cut, path)
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
        let place = self.place(user, path, "checksum")?;
        let storage = &place.mount.storage;
        let digest = storage.checksum_dyn(
            &place.user,
            &place.path,
            algorithm,
            offset,
            length,
            progress,
        );
        told(digest.await, path)
    }
}

/// The order of writes that both accept.
fn stricter(one: WriteModel, other: WriteModel) -> WriteModel {
    match (one, other) {
        (WriteModel::Random, order) | (order, WriteModel::Random) => order,
        (WriteModel::Parts(one), WriteModel::Parts(other)) if one == other => {
            WriteModel::Parts(one)
        }
        _ => WriteModel::Sequential,
    }
}

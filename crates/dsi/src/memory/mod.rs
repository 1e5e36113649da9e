//! `Memory`: a complete backend, as an example and for tests.
//!
//! Each file is a byte vector behind its own lock, and the tree is a map from paths to them. An
//! upload fills a private vector; `finish` moves it into the map, and `checkpoint` stores it for a
//! later `Resume`.

mod body;
mod file;
mod share;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use byte_ranges::RangeSet;

use crate::dsi::Dsi;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    Capabilities, ChecksumAlgorithm, Create, DsiPath, Kind, Meta, Progress, Stat, User, WriteModel,
};

use body::{Body, Over, Shared, len, now};
use file::Way;
pub use file::{MemoryListing, MemorySink, MemorySource};
use share::Shares;

/// A tree of files in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct Memory {
    tree: Arc<Mutex<Tree>>,
    /// Largest size of a file, in bytes.
    limit: u64,
}

#[derive(Debug, Default)]
struct Tree {
    /// Every object but the root, by its path.
    nodes: BTreeMap<DsiPath, Node>,
    /// Partial files of interrupted uploads, by their final path.
    partials: BTreeMap<DsiPath, Partial>,
    /// Shared uploads, by their tokens.
    shares: Shares,
}

#[derive(Debug, Clone)]
struct Partial {
    body: Shared,
    held: RangeSet,
    over: Option<Over>,
}

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File(Shared),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Memory {
    fn default() -> Self {
        Self::with_limit(256 << 20)
    }
}

impl Memory {
    /// An empty tree whose files may grow to 256 MiB each.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty tree whose files may grow to `limit` bytes each.
    pub fn with_limit(limit: u64) -> Self {
        Self {
            tree: Arc::default(),
            limit,
        }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }

    fn change(
        &self,
        user: &User,
        op: &'static str,
        path: &DsiPath,
    ) -> Result<MutexGuard<'_, Tree>> {
        if user.may_write {
            Ok(self.tree())
        } else {
            Err(Error::new(ErrorKind::Denied, op).at(path))
        }
    }
}

impl Tree {
    fn get(&self, op: &'static str, path: &DsiPath) -> Result<Node> {
        if path.is_root() {
            return Ok(Node::Directory);
        }
        match self.nodes.get(path) {
            Some(node) => Ok(node.clone()),
            None => Err(Error::new(ErrorKind::NotFound, op).at(path)),
        }
    }

    fn file(&self, op: &'static str, path: &DsiPath) -> Result<Shared> {
        match self.get(op, path)? {
            Node::File(body) => Ok(body),
            Node::Directory => Err(Error::new(ErrorKind::IsDirectory, op).at(path)),
        }
    }

    /// Checks that `path` can be created: it is not the root and its parent is a directory.
    fn place(&self, op: &'static str, path: &DsiPath) -> Result<()> {
        let parent = path
            .parent()
            .ok_or_else(|| Error::new(ErrorKind::Denied, op).at(path))?;
        match self.get(op, &parent)? {
            Node::Directory => Ok(()),
            Node::File(_) => Err(Error::new(ErrorKind::NotDirectory, op).at(path)),
        }
    }

    /// All objects below `path`, without `path` itself.
    fn below(&self, path: &DsiPath) -> Vec<DsiPath> {
        let mut prefix = path.as_bytes().to_vec();
        if !path.is_root() {
            prefix.push(b'/');
        }
        let after = self
            .nodes
            .range((Bound::Excluded(path.clone()), Bound::Unbounded));
        // Names with bytes below `/` sort between a directory and its entries.
        after
            .map(|(at, _)| at.clone())
            .filter(|at| at.as_bytes().starts_with(&prefix))
            .collect()
    }

    /// The partial file for `path`, unless it updates a file that is gone.
    fn partial(&self, path: &DsiPath) -> Option<&Partial> {
        let partial = self.partials.get(path)?;
        let over = partial.over.as_ref();
        over.is_none_or(|over| self.is_at(path, &over.body) && over.is_unchanged())
            .then_some(partial)
    }

    /// Whether the file at `path` is `body`.
    fn is_at(&self, path: &DsiPath, body: &Shared) -> bool {
        matches!(self.nodes.get(path), Some(Node::File(there)) if Arc::ptr_eq(there, body))
    }

    fn publish(&mut self, path: &DsiPath, body: Shared, exclusive: bool) -> Result<()> {
        self.place("finish", path)?;
        if exclusive && self.nodes.contains_key(path) {
            return Err(Error::new(ErrorKind::Exists, "finish").at(path));
        }
        if matches!(self.nodes.get(path), Some(Node::Directory)) {
            return Err(Error::new(ErrorKind::IsDirectory, "finish").at(path));
        }
        self.nodes.insert(path.clone(), Node::File(body));
        Ok(())
    }
}

impl Dsi for Memory {
    type Source = MemorySource;
    type Sink = MemorySink;
    type Listing = MemoryListing;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new("memory", WriteModel::Random)
            .with_resume(true)
            .with_shared_uploads(true)
            .with_exclusive(true)
    }

    async fn stat(&self, _user: &User, path: &DsiPath) -> Result<Stat> {
        Ok(match self.tree().get("stat", path)? {
            Node::Directory => Stat::new(path.name(), Kind::Directory),
            Node::File(body) => lock(&body).stat(path),
        })
    }

    async fn list(&self, _user: &User, path: &DsiPath) -> Result<MemoryListing> {
        let tree = self.tree();
        if let Node::File(_) = tree.get("list", path)? {
            return Err(Error::new(ErrorKind::NotDirectory, "list").at(path));
        }
        let mut entries = tree.below(path);
        entries.retain(|entry| entry.parent().as_ref() == Some(path));
        Ok(MemoryListing {
            memory: self.clone(),
            entries,
        })
    }

    async fn read(&self, _user: &User, path: &DsiPath) -> Result<MemorySource> {
        let body = self.tree().file("open", path)?;
        let (size, modified) = {
            let body = lock(&body);
            (len(&body.bytes), body.modified)
        };
        Ok(MemorySource {
            path: path.clone(),
            body,
            size,
            modified,
        })
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<MemorySink> {
        let mut tree = self.change(user, "create", path)?;
        tree.place("create", path)?;
        let refuse = |kind| Err(Error::new(kind, "create").at(path));
        let old = match tree.nodes.get(path) {
            None => None,
            Some(Node::File(body)) => Some(Arc::clone(body)),
            Some(Node::Directory) => return refuse(ErrorKind::IsDirectory),
        };
        let sink = |body, held, way| MemorySink {
            memory: self.clone(),
            path: path.clone(),
            body,
            held,
            way,
            user: user.name.clone(),
            share: OnceLock::new(),
        };
        let empty = || sink(Body::new(Vec::new()), RangeSet::new(), Way::Whole(None));
        // The map has one reference to it, each writer another.
        let busy = |partial: &Partial| Arc::strong_count(&partial.body) > 1;
        match how {
            Create::Whole { size } | Create::Resume { size } | Create::Update { size }
                if size.is_some_and(|size| size > self.limit) =>
            {
                refuse(ErrorKind::NoSpace)
            }
            Create::Whole { .. } => Ok(empty()),
            Create::Resume { .. } => match tree.partial(path) {
                Some(partial) if busy(partial) => refuse(ErrorKind::Busy),
                Some(Partial { body, held, over }) => {
                    let way = Way::Whole(over.clone());
                    Ok(sink(Arc::clone(body), held.clone(), way))
                }
                None => Ok(empty()),
            },
            Create::Update { .. } => match tree.partial(path) {
                Some(partial) if busy(partial) => refuse(ErrorKind::Busy),
                Some(Partial { over: None, .. }) => refuse(ErrorKind::Incomplete),
                _ => {
                    let (copy, over) = old.map(Over::copy).unzip();
                    let copy = copy.unwrap_or_default();
                    let held = RangeSet::up_to(len(&copy));
                    Ok(sink(Body::new(copy), held, Way::Whole(over)))
                }
            },
            Create::InPlace { .. } | Create::Append => {
                let truncate = how == Create::InPlace { truncate: true };
                let alone = truncate || how == Create::Append;
                let body = old.unwrap_or_else(|| Body::new(Vec::new()));
                let mut inner = lock(&body);
                if inner.alone || alone && inner.writers > 0 {
                    return refuse(ErrorKind::Busy);
                }
                inner.alone = alone;
                inner.writers += 1;
                if truncate {
                    inner.bytes.clear();
                }
                let held = RangeSet::up_to(len(&inner.bytes));
                drop(inner);
                tree.nodes
                    .insert(path.clone(), Node::File(Arc::clone(&body)));
                Ok(sink(body, held, Way::InPlace))
            }
        }
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<MemorySink> {
        let tree = self.change(user, "join", path)?;
        let share = tree.shares.find(user, path, token)?;
        Ok(MemorySink {
            memory: self.clone(),
            path: path.clone(),
            body: Arc::default(),
            held: RangeSet::new(),
            way: Way::Joined(share),
            user: user.name.clone(),
            share: OnceLock::new(),
        })
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        let tree = self.change(user, "look for partial file", path)?;
        Ok(tree
            .partial(path)
            .map_or_else(RangeSet::new, |partial| partial.held.clone()))
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        let mut tree = self.change(user, "remove partial file", path)?;
        let refuse = |kind| Err(Error::new(kind, "remove partial file").at(path));
        match tree.partials.get(path) {
            None => refuse(ErrorKind::NotFound),
            Some(partial) if Arc::strong_count(&partial.body) > 1 => refuse(ErrorKind::Busy),
            Some(_) => {
                tree.partials.remove(path);
                Ok(())
            }
        }
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        let mut tree = self.change(user, "make directory", path)?;
        if path.is_root() || tree.nodes.contains_key(path) {
            return Err(Error::new(ErrorKind::Exists, "make directory").at(path));
        }
        tree.place("make directory", path)?;
        tree.nodes.insert(path.clone(), Node::Directory);
        Ok(())
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        let mut tree = self.change(user, "remove directory", path)?;
        let refuse = |kind| Err(Error::new(kind, "remove directory").at(path));
        match tree.get("remove directory", path)? {
            _ if path.is_root() => refuse(ErrorKind::Denied),
            Node::File(_) => refuse(ErrorKind::NotDirectory),
            Node::Directory if !tree.below(path).is_empty() => refuse(ErrorKind::NotEmpty),
            Node::Directory => {
                tree.nodes.remove(path);
                Ok(())
            }
        }
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        let mut tree = self.change(user, "remove", path)?;
        tree.file("remove", path)?;
        tree.nodes.remove(path);
        Ok(())
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        let mut tree = self.change(user, "remove tree", path)?;
        tree.place("remove tree", path)?;
        tree.get("remove tree", path)?;
        for inner in tree.below(path) {
            tree.nodes.remove(&inner);
        }
        tree.nodes.remove(path);
        Ok(())
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        let mut tree = self.change(user, "rename", from)?;
        tree.place("rename", from)?;
        tree.place("rename", to)?;
        let node = tree.get("rename", from)?;
        if from == to {
            return Ok(());
        }
        let inner = tree.below(from);
        if to
            .as_bytes()
            .strip_prefix(from.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'/'))
        {
            return Err(Error::new(ErrorKind::BadName, "rename").at(to));
        }
        match (&node, tree.nodes.get(to)) {
            (Node::File(_), Some(Node::Directory)) => {
                return Err(Error::new(ErrorKind::IsDirectory, "rename").at(to));
            }
            (Node::Directory, Some(Node::File(_))) => {
                return Err(Error::new(ErrorKind::NotDirectory, "rename").at(to));
            }
            (Node::Directory, Some(Node::Directory)) if !tree.below(to).is_empty() => {
                return Err(Error::new(ErrorKind::NotEmpty, "rename").at(to));
            }
            _ => {}
        }
        tree.nodes.remove(to);
        tree.nodes.remove(from);
        tree.nodes.insert(to.clone(), node);
        for old in inner {
            let tail = old
                .as_bytes()
                .get(from.as_bytes().len()..)
                .unwrap_or_default();
            let new = DsiPath::new(&[to.as_bytes(), tail].concat());
            if let (Some(new), Some(node)) = (new, tree.nodes.remove(&old)) {
                tree.nodes.insert(new, node);
            }
        }
        Ok(())
    }

    async fn symlink(&self, _user: &User, _target: &[u8], link: &DsiPath) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "make link").at(link))
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        let body = self
            .change(user, "set metadata", path)?
            .file("set metadata", path)?;
        if meta.mode.is_some() || meta.group.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "set metadata").at(path));
        }
        let mut body = lock(&body);
        body.modified = meta.modified.unwrap_or(body.modified);
        Ok(())
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        let body = self
            .change(user, "truncate", path)?
            .file("truncate", path)?;
        let mut body = lock(&body);
        match usize::try_from(length) {
            Ok(length) if length <= body.bytes.len() => body.bytes.truncate(length),
            _ => return Err(Error::new(ErrorKind::TooLarge, "truncate").at(path)),
        }
        body.modified = now();
        Ok(())
    }

    async fn checksum(
        &self,
        _user: &User,
        path: &DsiPath,
        _algorithm: ChecksumAlgorithm,
        _offset: u64,
        _length: Option<u64>,
        _progress: &Progress,
    ) -> Result<String> {
        Err(Error::new(ErrorKind::Unsupported, "checksum").at(path))
    }
}

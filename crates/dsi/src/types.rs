//! `Stat`, `User`, `DsiPath`, `Create` and the other values of the interface.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zeroize::Zeroizing;

pub use crate::capability::{Capabilities, ChecksumAlgorithm, WriteModel};

/// An extended attribute of a file: its name, `user.` at the beginning, and its value.
pub type Attribute = (Vec<u8>, Vec<u8>);

/// Most extended attributes of a file that are told.
pub const MAX_ATTRIBUTES: usize = 64;

/// Longest value of an extended attribute that is told, in bytes.
pub const MAX_VALUE: usize = 4096;

/// Most partial files of a directory that are told.
pub const MAX_PARTIALS: usize = 256;

/// A path within the exported tree: absolute, normalised, bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsiPath(Vec<u8>);

impl DsiPath {
    /// Normalises an absolute path: removes empty and `.` components and resolves `..` by text,
    /// never above the root. `None` for a relative path, a NUL, or a component above 255 bytes.
    pub fn new(path: &[u8]) -> Option<Self> {
        if path.first() != Some(&b'/') || path.contains(&0) {
            return None;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in path.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop();
                }
                part if part.len() > 255 => return None,
                part => parts.push(part),
            }
        }
        let mut out = vec![b'/'];
        out.extend_from_slice(&parts.join(&b'/'));
        Some(Self(out))
    }

    /// The root of the tree.
    pub fn root() -> Self {
        Self(vec![b'/'])
    }

    /// The bytes, beginning with `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the root of the tree.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The components; none for the root.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|part| !part.is_empty())
    }

    /// The last component; `/` for the root.
    pub fn name(&self) -> &[u8] {
        self.parts().next_back().unwrap_or(b"/")
    }

    /// The directory that contains it; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let cut = self
            .0
            .iter()
            .rposition(|b| *b == b'/')
            .filter(|_| !self.is_root())?;
        Some(
            self.0
                .get(..cut)
                .filter(|up| !up.is_empty())
                .map_or_else(Self::root, |up| Self(up.to_vec())),
        )
    }

    /// This path as seen from `dir`: the root for `dir` itself, and `None` for a path outside it.
    pub fn below(&self, dir: &Self) -> Option<Self> {
        if dir.is_root() {
            return Some(self.clone());
        }
        match self.0.strip_prefix(dir.as_bytes())? {
            b"" => Some(Self::root()),
            rest => rest.starts_with(b"/").then(|| Self(rest.to_vec())),
        }
    }

    /// The entry `name` of this directory; `None` unless that is one component.
    pub fn child(&self, name: &[u8]) -> Option<Self> {
        if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
            return None;
        }
        Self::new(&[self.as_bytes(), b"/", name].concat())
    }
}

impl fmt::Display for DsiPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for DsiPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The user for whom an operation runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// Login name.
    pub name: String,
    /// Initial directory of a session.
    pub home: DsiPath,
    /// Whether the user may change files and names.
    pub may_write: bool,
    /// Whether symbolic links are followed, and may be created. A session confined to a part of the
    /// tree by its paths alone relies on their absence.
    pub follows_links: bool,
    /// The credential that the user handed over, for a storage that acts in the user's name
    /// elsewhere ([`Capabilities::acts_for_users`]).
    pub credential: Option<Delegated>,
}

/// A delegated credential: certificates and their key, PEM. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Delegated(Arc<Zeroizing<Vec<u8>>>);

impl Delegated {
    /// Takes a credential, PEM with its key.
    pub fn new(pem: &[u8]) -> Self {
        Self(Arc::new(Zeroizing::new(pem.to_vec())))
    }

    /// The certificates and the key.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Delegated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delegated(..)")
    }
}

impl User {
    /// A user called `name` with the initial directory `home`.
    pub fn new(name: impl Into<String>, home: DsiPath, may_write: bool) -> Self {
        Self {
            name: name.into(),
            home,
            may_write,
            follows_links: true,
            credential: None,
        }
    }
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// A symbolic link without a target in the tree.
    Link,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// FIFO.
    Fifo,
    /// Anything else.
    Other,
}

/// Facts of one object, symbolic links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// Last component of its path; `/` for the root.
    pub name: Vec<u8>,
    /// The kind of object.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Permission bits, the lowest twelve.
    pub mode: u32,
    /// Number of links.
    pub links: u64,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Target of the link through which the object was reached, if any.
    pub target: Option<Vec<u8>>,
    /// Whether the data is at hand, in a backend that moves files to an archive; a listing need not
    /// tell.
    pub staged: Option<bool>,
}

impl Stat {
    /// An empty object of this name and kind, with one link; the caller sets the rest.
    pub fn new(name: impl Into<Vec<u8>>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            size: 0,
            modified: (0, 0),
            mode: if kind == Kind::Directory {
                0o755
            } else {
                0o644
            },
            links: 1,
            uid: 0,
            gid: 0,
            device: 0,
            inode: 0,
            target: None,
            staged: None,
        }
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// The partial file of an interrupted upload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Partial {
    /// Path that the whole object is to have, relative to the directory that was asked for.
    pub name: Vec<u8>,
    /// Bytes that are kept.
    pub held: u64,
    /// Bytes of the whole object, where the upload told them.
    pub size: Option<u64>,
    /// Time of the last change: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Whether an upload writes to it now.
    pub in_use: bool,
}

impl Partial {
    /// The partial file of `name`, empty; the caller sets the rest.
    pub fn new(name: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            held: 0,
            size: None,
            modified: (0, 0),
            in_use: false,
        }
    }
}

/// The way a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Create {
    /// A new object under a temporary name, with which `finish` replaces any old one.
    Whole {
        /// Expected bytes, for early refusal when space is short.
        size: Option<u64>,
    },
    /// As `Whole`, but continues the partial object of an earlier attempt, if there is one.
    Resume {
        /// Expected bytes.
        size: Option<u64>,
    },
    /// A copy of the present object, with which `finish` replaces it: all unwritten bytes stay.
    /// `finish` fails with [`ErrorKind::Changed`] if the name has another object by then.
    ///
    /// Fails with [`ErrorKind::Incomplete`] while a partial object of an interrupted upload to the
    /// name is kept: a client that continues that one would mix it with the old object.
    ///
    /// [`ErrorKind::Changed`]: crate::ErrorKind::Changed
    /// [`ErrorKind::Incomplete`]: crate::ErrorKind::Incomplete
    Update {
        /// Expected bytes.
        size: Option<u64>,
    },
    /// The object itself, created if missing: writes are visible at once. With `truncate` it has no
    /// other writer meanwhile.
    InPlace {
        /// Whether to truncate it to 0 bytes first.
        truncate: bool,
    },
    /// The object itself, created if missing, to be written from the end of [`Sink::held`] on; it
    /// has no other writer meanwhile.
    ///
    /// [`Sink::held`]: crate::Sink::held
    Append,
}

/// Metadata to set; `None` changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Group, by name or number.
    pub group: Option<String>,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub modified: Option<(i64, u32)>,
}

impl Meta {
    /// Changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the permission bits.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the group, by name or number.
    #[must_use]
    pub fn with_group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets the modification time: seconds since 1970 and nanoseconds.
    #[must_use]
    pub fn with_modified(mut self, seconds: i64, nanos: u32) -> Self {
        self.modified = Some((seconds, nanos));
        self
    }
}

/// The place of a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Staging {
    /// At hand: reading begins at once.
    Here,
    /// On its way from an archive.
    Retrieving,
}

/// The byte count of a long operation; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// A count of zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the count.
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_and_never_rise_above_the_root() {
        for (given, meant) in [
            ("/", "/"),
            ("//a///b/", "/a/b"),
            ("/./a/./b/.", "/a/b"),
            ("/../../a", "/a"),
            ("/a/b/../../../c", "/c"),
            ("/a/...", "/a/..."),
            ("/%2e%2e/a", "/%2e%2e/a"),
            ("/a\\..\\b", "/a\\..\\b"),
        ] {
            assert_eq!(
                DsiPath::new(given.as_bytes()).unwrap().as_bytes(),
                meant.as_bytes(),
                "{given}"
            );
        }
        assert_eq!(DsiPath::new(b"a"), None);
        assert_eq!(DsiPath::new(b""), None);
        assert_eq!(DsiPath::new(b"/a\0b"), None);
        assert_eq!(
            DsiPath::new(&[b"/".as_slice(), &[b'x'; 256]].concat()),
            None
        );
        assert!(DsiPath::new(&[b"/".as_slice(), &[b'x'; 255]].concat()).is_some());
    }

    #[test]
    fn paths_are_split_and_joined() {
        let path = DsiPath::new(b"/a/b").unwrap();
        assert_eq!(path.name(), b"b");
        assert_eq!(path.parent(), DsiPath::new(b"/a"));
        assert_eq!(path.parent().unwrap().parent(), Some(DsiPath::root()));
        assert_eq!(DsiPath::root().parent(), None);
        assert_eq!(DsiPath::root().name(), b"/");
        assert_eq!(DsiPath::root().child(b"x"), DsiPath::new(b"/x"));
        assert_eq!(path.child(b"c"), DsiPath::new(b"/a/b/c"));
        assert_eq!(path.child(b".."), None);
        assert_eq!(path.child(b"c/d"), None);
        assert_eq!(path.parts().collect::<Vec<_>>(), [b"a", b"b"]);
        let below = |dir| path.below(&DsiPath::new(dir).unwrap());
        assert_eq!(below(b"/"), Some(path.clone()));
        assert_eq!(below(b"/a"), DsiPath::new(b"/b"));
        assert_eq!(below(b"/a/b"), Some(DsiPath::root()));
        assert_eq!(below(b"/a/b/c"), None);
        assert_eq!(
            DsiPath::new(b"/ab")
                .unwrap()
                .below(&DsiPath::new(b"/a").unwrap()),
            None
        );
        assert_eq!(
            format!("{}", DsiPath::new(b"/a\n\x1b").unwrap()),
            "/a\\n\\x1b"
        );
    }
}

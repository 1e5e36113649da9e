//! MLSx facts, and the listing entry they describe (RFC 3659 §7).

use std::fmt;

pub use crate::listing::{safe_name, wire_name};
pub use crate::time::TimeVal;

/// The kind of an object in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// The directory being listed.
    Cdir,
    /// The parent of the directory being listed.
    Pdir,
    /// A symbolic link without a target.
    Slink,
    /// Character device.
    Char,
    /// Block device.
    Block,
    /// FIFO.
    Pipe,
    /// Anything else.
    Other,
}

impl EntryKind {
    /// The value of the `Type` fact.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Cdir => "cdir",
            Self::Pdir => "pdir",
            Self::Slink => "slink",
            Self::Char => "OS.unix=chr",
            Self::Block => "OS.unix=blk",
            Self::Pipe => "OS.unix=pipe",
            Self::Other => "OS.unix=other",
        }
    }

    /// Reads the value of the `Type` fact, in any case; an unknown one is `Other`.
    pub fn from_fact(value: &[u8]) -> Self {
        let value = value.to_ascii_lowercase();
        match value.as_slice() {
            b"file" => Self::File,
            b"dir" => Self::Dir,
            b"cdir" => Self::Cdir,
            b"pdir" => Self::Pdir,
            b"slink" | b"os.unix=slink" | b"os.unix=symlink" => Self::Slink,
            b"os.unix=chr" => Self::Char,
            b"os.unix=blk" => Self::Block,
            b"os.unix=pipe" => Self::Pipe,
            value if value.starts_with(b"os.unix=slink:") => Self::Slink,
            _ => Self::Other,
        }
    }

    /// Says whether it is a directory, the listed one and its parent included.
    pub const fn is_dir(self) -> bool {
        matches!(self, Self::Dir | Self::Cdir | Self::Pdir)
    }
}

/// One object in a listing, with all its facts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The kind of object.
    pub kind: EntryKind,
    /// Its name, or its path relative to the listing.
    pub name: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub modified: TimeVal,
    /// Permission bits, the lowest twelve.
    pub mode: u32,
    /// Operations permitted to this user (`Perm`), as letters.
    pub perm: String,
    /// Number of links.
    pub links: u64,
    /// The owner's number and name.
    pub owner: (u32, String),
    /// The group's number and name.
    pub group: (u32, String),
    /// Device and inode, equal for two names of the same object.
    pub unique: (u64, u64),
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Entries in it, `.` and `..` included; only for `Cdir`.
    pub count: Option<u64>,
    /// Whether the data of a file is at hand, in storage that moves files to an archive.
    pub staged: Option<bool>,
    /// The error met while listing it (`OpenFailed`, `InvalidLink`, `InvalidName`).
    pub error: Option<String>,
}

impl Entry {
    /// Whether it is a symbolic link, of which a server may not tell the target.
    pub fn is_link(&self) -> bool {
        self.kind == EntryKind::Slink || self.target.is_some()
    }

    /// An entry with all other fields zero, empty or absent.
    pub fn new(kind: EntryKind, name: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            name: name.into(),
            size: 0,
            modified: TimeVal::new(0, 0),
            mode: 0,
            perm: String::new(),
            links: 1,
            owner: (0, String::new()),
            group: (0, String::new()),
            unique: (0, 0),
            target: None,
            count: None,
            staged: None,
            error: None,
        }
    }
}

/// One fact a listing can print, in the order FEAT names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Kind of object.
    Type,
    /// Bytes.
    Size,
    /// Time of modification.
    Modify,
    /// Operations permitted to the user.
    Perm,
    /// Character set of the name.
    Charset,
    /// Permission bits.
    UnixMode,
    /// Owner's name.
    UnixOwner,
    /// Owner's number.
    UnixUid,
    /// Group's name.
    UnixGroup,
    /// Group's number.
    UnixGid,
    /// Identity of the object.
    Unique,
    /// Target of a symbolic link.
    UnixSlink,
    /// Number of entries of the listed directory.
    Count,
    /// Whether the data of a file is at hand.
    Staged,
}

impl Fact {
    /// All facts, in the order of FEAT.
    pub const ALL: [Self; 14] = [
        Self::Type,
        Self::Size,
        Self::Modify,
        Self::Perm,
        Self::Charset,
        Self::UnixMode,
        Self::UnixOwner,
        Self::UnixUid,
        Self::UnixGroup,
        Self::UnixGid,
        Self::Unique,
        Self::UnixSlink,
        Self::Count,
        Self::Staged,
    ];

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Type => "Type",
            Self::Size => "Size",
            Self::Modify => "Modify",
            Self::Perm => "Perm",
            Self::Charset => "Charset",
            Self::UnixMode => "UNIX.mode",
            Self::UnixOwner => "UNIX.owner",
            Self::UnixUid => "UNIX.uid",
            Self::UnixGroup => "UNIX.group",
            Self::UnixGid => "UNIX.gid",
            Self::Unique => "Unique",
            Self::UnixSlink => "UNIX.slink",
            Self::Count => "X.count",
            Self::Staged => "X.staged",
        }
    }

    /// The fact with this name, in any case (RFC 3659 §7.2).
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|fact| fact.as_str().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The facts that a listing prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactSet(pub(crate) u16);

impl FactSet {
    /// No fact.
    pub const NONE: Self = Self(0);
    /// Every fact.
    pub const ALL: Self = Self((1 << Fact::ALL.len()) - 1);
    /// The facts printed by default: all but `Charset` and `X.count`.
    pub const DEFAULT: Self = Self::ALL.without(Fact::Charset).without(Fact::Count);

    /// The set and `fact`.
    #[must_use]
    pub const fn with(self, fact: Fact) -> Self {
        Self(self.0 | 1 << fact as u16)
    }

    /// The set without `fact`.
    #[must_use]
    pub const fn without(self, fact: Fact) -> Self {
        Self(self.0 & !(1 << fact as u16))
    }

    /// Says whether `fact` is in the set.
    pub const fn contains(self, fact: Fact) -> bool {
        self.0 & (1 << fact as u16) != 0
    }

    /// Says whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The facts in the set.
    pub fn iter(self) -> impl Iterator<Item = Fact> {
        Fact::ALL
            .into_iter()
            .filter(move |fact| self.contains(*fact))
    }

    /// Parses `Type;Size;…`: whole names in any case; unknown ones are skipped (RFC 3659 §7.9).
    pub fn parse(text: &[u8]) -> Self {
        let names = text.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        names
            .filter_map(Fact::from_name)
            .fold(Self::NONE, Self::with)
    }

    /// Every fact as in FEAT, those in this set marked with `*` (RFC 3659 §7.8).
    ///
    /// `X.staged`, which other servers lack, is named only where it is in the set.
    pub fn feat(self) -> String {
        let item = |fact: Fact| {
            format!(
                "{}{};",
                fact.as_str(),
                if self.contains(fact) { "*" } else { "" }
            )
        };
        let all = Fact::ALL.into_iter();
        all.filter(|fact| *fact != Fact::Staged || self.contains(*fact))
            .map(item)
            .collect()
    }
}

impl Default for FactSet {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for FactSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|fact| write!(f, "{};", fact.as_str()))
    }
}

//! MLSx facts and time-val (RFC 3659 §2.3, §7).

/// A point in time as MDTM and the `Modify` fact give it, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeVal {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

/// What kind of object an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// The directory being listed.
    Cdir,
    /// The parent of the directory being listed.
    Pdir,
    /// A symbolic link that leads nowhere.
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

/// All that can be said of one object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// Its name, or its path relative to the listing.
    pub name: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub modified: TimeVal,
    /// Permission bits, the lowest twelve.
    pub mode: u32,
    /// What this user may do with it (`Perm`), as letters.
    pub perm: String,
    /// Number of links.
    pub links: u64,
    /// Owner's number and name.
    pub owner: (u32, String),
    /// Group's number and name.
    pub group: (u32, String),
    /// Device and inode: the same for the same object.
    pub unique: (u64, u64),
    /// Where it points, when it is a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Entries in it, `.` and `..` included; only for `Cdir`.
    pub count: Option<u64>,
    /// What went wrong, in a recursive listing (`OpenFailed`, `InvalidLink`).
    pub error: Option<String>,
}

/// Which facts a listing prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactSet(pub(crate) u16);

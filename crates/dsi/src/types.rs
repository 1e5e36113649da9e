//! `Stat`, `User`, `DsiPath`, `Create` and the other nouns of the interface.

use std::fmt;
use std::sync::atomic::AtomicU64;

/// A path within the exported tree: absolute, normalised, bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsiPath(Vec<u8>);

impl DsiPath {
    /// Takes an absolute path, removes empty and `.` components and resolves `..` by text, never
    /// above the root; `None` for a relative path, a NUL, or a component above 255 bytes.
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

    /// The bytes, beginning with `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
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

/// On whose behalf an operation runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// Login name.
    pub name: String,
    /// Where sessions start.
    pub home: DsiPath,
    /// Whether anything may be changed.
    pub may_write: bool,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// A symbolic link that leads nowhere, or out of the tree.
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
    /// What it is.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Permission bits, the lowest twelve.
    pub mode: u32,
    /// Number of links.
    pub links: u64,
    /// Owner's number.
    pub uid: u32,
    /// Group's number.
    pub gid: u32,
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Where the link points, when the object was reached through one.
    pub target: Option<Vec<u8>>,
}

/// How a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Create {
    /// A new object under a temporary name, published by `finish` in the place of any old one.
    Whole {
        /// Bytes expected, for early refusal when space is short.
        size: Option<u64>,
    },
    /// As `Whole`, but continuing what an earlier attempt left, where something is left.
    Resume {
        /// Bytes expected.
        size: Option<u64>,
    },
    /// The object itself, created when missing, truncated when asked: writes show at once.
    InPlace {
        /// Whether to cut it to nothing first.
        truncate: bool,
    },
}

/// Metadata to set; `None` stays as it is.
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

/// A checksum algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChecksumAlgorithm {
    /// MD5.
    Md5,
    /// Adler-32.
    Adler32,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// CRC-32C.
    Crc32c,
}

/// The order in which a backend can take writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteModel {
    /// Any offset at any time.
    Random,
    /// Whole parts of this many bytes, in any order.
    Parts(u64),
    /// From the start to the end.
    Sequential,
}

/// What a backend can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Name for the FEAT line `DSI name-version`.
    pub name: &'static str,
    /// The order of writes it can take.
    pub writes: WriteModel,
    /// Checksum algorithms with their relative costs, cheapest first.
    pub checksums: Vec<(ChecksumAlgorithm, u8)>,
    /// Whether it has symbolic links.
    pub symlinks: bool,
    /// Whether an interrupted upload can be continued.
    pub resume: bool,
}

/// A count that a long operation raises and an onlooker reads.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

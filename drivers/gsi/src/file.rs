//! Files with credentials: read once, within bounds, and only with the owner and mode they need.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

/// Bound of a file with a credential, in bytes.
const MAX_CREDENTIAL: u64 = 1024 * 1024;

/// The protection that a file must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// That of a private key: of this user, and nobody else may read it.
    Secret {
        /// The effective user.
        uid: u32,
    },
    /// That of a certificate: nobody else may write it.
    Certificate,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
#[non_exhaustive]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fault: FileFault,
}

/// The fault of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The system refused.
    #[error("{0}")]
    Io(io::Error),
    /// It is a directory, a pipe or the like.
    #[error("it is no regular file")]
    NotAFile,
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is too large.
    #[error("it has {0} bytes, and at most {1} are read")]
    TooLarge(u64, u64),
    /// It belongs to another user.
    #[error(
        "it belongs to user {owner}, and a private key must belong to user {uid} who uses it: \
         `chown {uid}` it, or give another file"
    )]
    Owner {
        /// Its owner.
        owner: u32,
        /// The effective user.
        uid: u32,
    },
    /// Others may read it.
    #[error("its mode {:04o} lets others at the private key: `chmod 600` it", .0)]
    Mode(u32),
    /// Others may write it.
    #[error("its mode {:04o} lets others change the certificate: `chmod 644` it", .0)]
    CertificateMode(u32),
}

impl FileError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            fault: FileFault::Io(error),
        }
    }

    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        matches!(&self.fault, FileFault::Io(error) if missing.contains(&error.kind()))
    }

    /// Whether the file is for another user.
    pub(crate) fn is_foreign(&self) -> bool {
        match &self.fault {
            FileFault::Io(error) => error.kind() == io::ErrorKind::PermissionDenied,
            FileFault::Owner { .. } => true,
            _ => false,
        }
    }
}

/// Opens a file for reading; a pipe without a writer does not block.
pub(crate) fn open(path: &Path) -> Result<File, FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    file.map(File::from)
        .map_err(|error| FileError::io(path, error.into()))
}

/// Reads a file with a credential.
pub(crate) fn read(path: &Path, protection: Protection) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let file = open(path)?;
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| FileError::io(path, error))?;
    let mode = metadata.mode() & 0o7777;
    let fault = match protection {
        _ if !metadata.is_file() => Some(FileFault::NotAFile),
        _ if metadata.len() == 0 => Some(FileFault::Empty),
        Protection::Secret { uid } if metadata.uid() != uid => Some(FileFault::Owner {
            owner: metadata.uid(),
            uid,
        }),
        Protection::Secret { .. } if mode & 0o177 != 0 => Some(FileFault::Mode(mode)),
        Protection::Certificate if mode & 0o133 != 0 => Some(FileFault::CertificateMode(mode)),
        Protection::Secret { .. } | Protection::Certificate => None,
    };
    match fault {
        Some(fault) => Err(FileError {
            path: path.to_owned(),
            fault,
        }),
        None => contents(path, &file, MAX_CREDENTIAL),
    }
}

/// Reads an open file of at most `most` bytes.
pub(crate) fn contents(
    path: &Path,
    file: &File,
    most: u64,
) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let at = |fault| FileError {
        path: path.to_owned(),
        fault,
    };
    let metadata = file
        .metadata()
        .map_err(|error| FileError::io(path, error))?;
    if !metadata.is_file() {
        return Err(at(FileFault::NotAFile));
    }
    let length = metadata.len();
    if length > most {
        return Err(at(FileFault::TooLarge(length, most)));
    }
    // Room for all of it, so that no copy of a key is left behind by a reallocation.
    let room = usize::try_from(length).unwrap_or_default() + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| FileError::io(path, error))?;
    match bytes.len() as u64 {
        read if read > most => Err(at(FileFault::TooLarge(read, most))),
        _ => Ok(bytes),
    }
}

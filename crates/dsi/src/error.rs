//! `Error { kind, op, path, source }` with kinds an operator recognises.

use std::fmt;

/// The kind of an error, in an operator's words.
///
/// Exhaustive, since the server answers each kind with its own reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "each kind has its reply")]
pub enum ErrorKind {
    /// No such object.
    NotFound,
    /// Permission denied.
    Denied,
    /// The path, or a link on it, leaves the exported tree.
    Outside,
    /// The name exists already.
    Exists,
    /// The object is not a directory.
    NotDirectory,
    /// The object is a directory.
    IsDirectory,
    /// The directory holds entries.
    NotEmpty,
    /// The object is neither a regular file nor a directory (FIFO, device, socket).
    NotRegular,
    /// No space left.
    NoSpace,
    /// Quota exceeded.
    Quota,
    /// Too large for the file system, or beyond the end.
    TooLarge,
    /// The name or path is too long, or not allowed.
    BadName,
    /// Read-only storage.
    ReadOnly,
    /// In use by another operation.
    Busy,
    /// The object changed or vanished while in use.
    Changed,
    /// The digest differs from the expected one.
    Mismatch,
    /// The content does not have the form that it is read as.
    Malformed,
    /// Fewer bytes arrived than announced; they are kept for a restart.
    Incomplete,
    /// The backend cannot do this.
    Unsupported,
    /// The process or host that has the storage is not there.
    Unavailable,
    /// The storage failed.
    Io,
}

/// An error of a storage backend. `Display` prints this level only.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    op: &'static str,
    path: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of an operation of a backend.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of the operation `op` (`"open"`, `"rename"`).
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self {
            kind,
            op,
            path: String::new(),
            source: None,
        }
    }

    /// Adds the path, as the user knows it.
    #[must_use]
    pub fn at(mut self, path: impl fmt::Display) -> Self {
        self.path = path.to_string();
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The path, as the user knows it; empty if there is none.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl ErrorKind {
    /// The kind in a few words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "no such file or directory",
            Self::Denied => "permission denied",
            Self::Outside => "the path leaves the exported tree",
            Self::Exists => "the name exists already",
            Self::NotDirectory => "not a directory",
            Self::IsDirectory => "is a directory",
            Self::NotEmpty => "the directory is not empty",
            Self::NotRegular => "not a regular file",
            Self::NoSpace => "no space left",
            Self::Quota => "quota exceeded",
            Self::TooLarge => "too large, or beyond the end of the file",
            Self::BadName => "name not allowed or too long",
            Self::ReadOnly => "the storage is read-only",
            Self::Busy => "in use by another",
            Self::Changed => "the file changed while in use",
            Self::Mismatch => "the checksum differs",
            Self::Malformed => "the content is not of this form",
            Self::Incomplete => "less arrived than was announced",
            Self::Unsupported => "not supported by this storage",
            Self::Unavailable => "the storage is not available, try again later",
            Self::Io => "the storage failed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    /// Whether the same operation may succeed when repeated unchanged.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Busy | ErrorKind::Changed | ErrorKind::Incomplete | ErrorKind::Unavailable
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "storage: {}", self.op)?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn display_prints_this_level_only_and_the_cause_is_kept() {
        let cause = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = Error::new(ErrorKind::NoSpace, "write")
            .at("/a b")
            .because(cause);
        assert_eq!(error.to_string(), "storage: write /a b: no space left");
        assert_eq!(error.source().unwrap().to_string(), "no storage space");
        assert!(!error.is_transient());
        assert!(Error::new(ErrorKind::Busy, "open").is_transient());
    }
}

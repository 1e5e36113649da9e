//! `Error { kind, op, path, source }` with kinds an operator recognises.

use std::fmt;

/// What went wrong, in an operator's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such object.
    NotFound,
    /// Permission denied.
    Denied,
    /// The path, or a link on it, leaves the exported tree.
    Outside,
    /// Something of that name exists.
    Exists,
    /// A directory was needed.
    NotDirectory,
    /// A file was needed.
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
    /// In use by another.
    Busy,
    /// The object changed or vanished while in use.
    Changed,
    /// The digest differs from the expected one.
    Mismatch,
    /// Less arrived than was announced; what arrived is kept for a restart.
    Incomplete,
    /// The backend cannot do this.
    Unsupported,
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

/// What backends return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an error: what went wrong in which operation (`"open"`, `"rename"`).
    pub fn new(kind: ErrorKind, op: &'static str) -> Self {
        Self { kind, op, path: String::new(), source: None }
    }

    /// Names the path, as the user knows it.
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

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Which operation.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// Which path, as the user knows it; empty when none.
    pub fn path(&self) -> &str {
        &self.path
    }
}

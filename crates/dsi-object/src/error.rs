//! Errors of the store as errors of the storage interface.

use std::error::Error as _;
use std::fmt;
use std::io;

use gridftp_dsi::{Error, ErrorKind};
use object_store::Error as StoreError;
use object_store::client::HttpError;

/// The kind of an error of the store.
pub(crate) fn kind(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::NotFound { .. } => ErrorKind::NotFound,
        StoreError::InvalidPath { .. } => ErrorKind::BadName,
        StoreError::NotSupported { .. } | StoreError::NotImplemented { .. } => {
            ErrorKind::Unsupported
        }
        StoreError::AlreadyExists { .. } => ErrorKind::Exists,
        StoreError::Precondition { .. } | StoreError::NotModified { .. } => ErrorKind::Changed,
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            ErrorKind::Denied
        }
        // Below a file of a local directory there is nothing.
        _ if is_below_file(error) => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    }
}

fn is_below_file(error: &StoreError) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return io.kind() == io::ErrorKind::NotADirectory;
        }
        cause = error.source();
    }
    false
}

/// Whether the store or the way to it failed, so that the same request may succeed later, or has
/// succeeded. `object_store` tells a status only in words.
pub(crate) fn is_transient(error: &StoreError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        let status = text.strip_prefix("Server returned non-2xx status code: ");
        let is_busy = |status: &str| ["5", "408", "429"].iter().any(|s| status.starts_with(s));
        // `InternalError` or `SlowDown` behind status 200.
        let is_body = text.starts_with("Server returned error response: ");
        if error.is::<HttpError>() || is_body || status.is_some_and(is_busy) {
            return true;
        }
        cause = error.source();
    }
    // Another operation on the key is under way.
    matches!(error, StoreError::AlreadyExists { .. })
}

/// Whether the request was repeated, so that an earlier attempt may have been executed.
/// `object_store` tells it only in words.
pub(crate) fn is_repeated(error: &StoreError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    std::iter::from_fn(|| {
        let error = cause?;
        cause = error.source();
        Some(error.to_string())
    })
    .any(|text| text.contains(" retries, "))
}

/// The error of an operation on `path`.
pub(crate) fn of(op: &'static str, path: impl fmt::Display, error: StoreError) -> Error {
    Error::new(kind(&error), op).at(path).because(error)
}

/// An error with a reason in words.
pub(crate) fn refused(
    kind: ErrorKind,
    op: &'static str,
    path: impl fmt::Display,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::new(kind, op).at(path).because(why)
}

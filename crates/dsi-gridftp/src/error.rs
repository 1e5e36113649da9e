//! Errors of the upstream server as errors of the storage interface.

use std::fmt;
use std::io;

use ftp_proto::client::FailureKind;
use gridftp_client::error::{ConnectError, ControlError, TransferError};
use gridftp_dsi::{Error, ErrorKind};

/// An error with a reason in words.
pub(crate) fn refused(
    kind: ErrorKind,
    op: &'static str,
    path: impl fmt::Display,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::new(kind, op).at(path).because(why)
}

/// The error of a reader or a writer.
pub(crate) fn of_io(error: io::Error) -> TransferError {
    error.downcast().unwrap_or_else(|error| {
        // The library's own errors of a handle that failed before.
        TransferError::request(error.to_string(), "")
    })
}

/// The kind of an upstream's refusal or failure.
pub(crate) fn kind(error: &TransferError) -> ErrorKind {
    match error {
        TransferError::Connect(ConnectError::Busy { .. }) => ErrorKind::Busy,
        TransferError::Connect(
            ConnectError::Unreachable { .. } | ConnectError::Late { .. } | ConnectError::Control(_),
        ) => ErrorKind::Io,
        // No account, no protection: trying again does not help.
        TransferError::Connect(_) => ErrorKind::Denied,
        TransferError::Control(error) => of_control(error),
        TransferError::Size { .. } | TransferError::Changed { .. } => ErrorKind::Changed,
        TransferError::Shrunk { .. } => ErrorKind::Changed,
        TransferError::Cut { cause, .. } => match kind(cause) {
            // It was accepted, so that the connection broke.
            ErrorKind::Unsupported | ErrorKind::Denied => ErrorKind::Io,
            kind => kind,
        },
        TransferError::BadName { .. } => ErrorKind::BadName,
        _ => ErrorKind::Io,
    }
}

fn of_control(error: &ControlError) -> ErrorKind {
    let Some(reply) = error.reply() else {
        return ErrorKind::Io;
    };
    // Our own servers say so of a name or a group; others of a file that they cannot create.
    if reply.code().number() == 553 && reply.error_class().is_some() {
        return ErrorKind::BadName;
    }
    match FailureKind::of(reply) {
        FailureKind::NotFound => ErrorKind::NotFound,
        FailureKind::Denied | FailureKind::Login => ErrorKind::Denied,
        FailureKind::NotADirectory => ErrorKind::NotDirectory,
        FailureKind::IsADirectory => ErrorKind::IsDirectory,
        FailureKind::Exists => ErrorKind::Exists,
        FailureKind::NoSpace => ErrorKind::NoSpace,
        FailureKind::ChecksumMismatch => ErrorKind::Mismatch,
        FailureKind::Unsupported => ErrorKind::Unsupported,
        FailureKind::Busy => ErrorKind::Busy,
        FailureKind::DataChannel | FailureKind::Aborted | FailureKind::Sequence => ErrorKind::Io,
        // A 5xx without a known word: it will be the same next time.
        FailureKind::Failed => ErrorKind::Denied,
    }
}

/// Whether the upstream gave no reason that a kind could be read from.
pub(crate) fn is_vague(error: &TransferError) -> bool {
    matches!(error, TransferError::Control(error)
        if error.kind() == Some(FailureKind::Failed) || error.kind() == Some(FailureKind::Denied))
}

/// Whether the upstream refused a command, so that the session can be used further.
pub(crate) fn is_refusal(error: &TransferError) -> bool {
    matches!(
        error,
        TransferError::Control(ControlError::Refused { .. })
            | TransferError::BadName { .. }
            | TransferError::Size { .. }
    )
}

/// The name of the upstream and its words.
pub(crate) fn words(scheme: &str, site: &str, error: &TransferError) -> String {
    let fact = match error {
        TransferError::Control(error) => error.fact(),
        error => error.to_string(),
    };
    match fact.starts_with(site) {
        true => format!("upstream {scheme}://{fact}"),
        false => format!("upstream {scheme}://{site}: {fact}"),
    }
}

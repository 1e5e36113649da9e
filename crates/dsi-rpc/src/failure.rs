//! Errors of the storage interface as statuses of calls, and back.

use std::error::Error as _;
use std::io;

use gridftp_dsi::{Error, ErrorKind};
use tonic::{Code, Status};

use crate::proto::ErrorKind as Named;

/// The metadata that names the kind of an error.
const KIND: &str = "storage-error";

/// The metadata with the number of the operating system, if there is one.
const NUMBER: &str = "storage-errno";

/// The metadata of a call that the peer refused before it began.
const REFUSED: &str = "storage-refused";

/// Longest cause in a status, in characters.
const CAUSE: usize = 1000;

/// Whether the peer told the status; without a kind, only a connection that `is_open` has told it.
pub(crate) fn is_answered(status: &Status, is_open: impl FnOnce() -> bool) -> bool {
    status.metadata().contains_key(KIND) || status.source().is_none() && is_open()
}

/// The status of a call that is refused because of its caller, before it begins: another peer may
/// take it, and it tells nothing about the file.
#[must_use]
pub fn refused(why: &str) -> Status {
    let mut status = Status::permission_denied(why);
    let yes = tonic::metadata::MetadataValue::from_static("1");
    status.metadata_mut().insert(REFUSED, yes);
    status
}

/// Whether the peer did not begin the call.
pub(crate) fn is_not_begun(status: &Status) -> bool {
    if status.metadata().contains_key(REFUSED) {
        return true;
    }
    let mut next = status.source();
    while let Some(cause) = next {
        if let Some(cause) = cause.downcast_ref::<hyper::Error>() {
            return cause.is_canceled();
        }
        next = cause.source();
    }
    false
}

/// The error of a call that the peer refused.
pub(crate) fn error(status: &Status, op: &'static str) -> Error {
    let text = |key| status.metadata().get(key)?.to_str().ok();
    let named = text(KIND).and_then(Named::from_str_name);
    let kind = named.map_or_else(|| by_code(status.code()), kind);
    let error = Error::new(kind, op);
    match text(NUMBER).and_then(|number| number.parse().ok()) {
        Some(number) => error.because(io::Error::from_raw_os_error(number)),
        None if status.message().is_empty() => error,
        None => {
            let cause: String = status.message().chars().take(CAUSE).collect();
            error.because(cause.escape_debug().to_string())
        }
    }
}

/// The status of a failed operation.
pub(crate) fn status(error: &Error) -> Status {
    let (mut cause, mut number) = (String::new(), None);
    let mut next = error.source();
    while let Some(source) = next {
        let io = source.downcast_ref::<io::Error>();
        number = number.or_else(|| io?.raw_os_error());
        if !cause.is_empty() {
            cause.push_str(": ");
        }
        cause.push_str(&source.to_string());
        next = source.source();
    }
    let cause: String = cause.chars().take(CAUSE).collect();
    let mut status = Status::failed_precondition(cause);
    let metadata = status.metadata_mut();
    if let Ok(kind) = name(error.kind()).as_str_name().parse() {
        metadata.insert(KIND, kind);
    }
    if let Some(number) = number {
        metadata.insert(NUMBER, number.into());
    }
    status
}

/// The kinds, each with its name in messages.
macro_rules! kinds {
    ($($kind:ident)+) => {
        fn name(kind: ErrorKind) -> Named {
            match kind { $(ErrorKind::$kind => Named::$kind,)+ }
        }

        fn kind(named: Named) -> ErrorKind {
            match named { $(Named::$kind => ErrorKind::$kind,)+ }
        }
    };
}

kinds! {
    Io NotFound Denied Outside Exists NotDirectory IsDirectory NotEmpty NotRegular NoSpace Quota
    TooLarge BadName ReadOnly Busy Changed Mismatch Incomplete Unsupported Malformed Unavailable
}

/// The kind of an error of a peer that names none.
fn by_code(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::Exists,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::ResourceExhausted => ErrorKind::Busy,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::Unavailable => ErrorKind::Unavailable,
        _ => ErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_cause_and_number_pass() {
        let cause = io::Error::from_raw_os_error(28);
        let sent = Error::new(ErrorKind::NoSpace, "write").because(cause);
        let received = error(&status(&sent), "write");
        assert_eq!(received.kind(), ErrorKind::NoSpace);
        let cause = received.source().unwrap().downcast_ref::<io::Error>();
        assert_eq!(cause.unwrap().raw_os_error(), Some(28));
        let sent = Error::new(ErrorKind::Unavailable, "open").because("line\r\nline");
        let received = error(&status(&sent), "open");
        assert_eq!(received.kind(), ErrorKind::Unavailable);
        assert_eq!(received.source().unwrap().to_string(), "line\\r\\nline");
        let bare = error(&Status::permission_denied("no"), "open");
        assert_eq!(bare.kind(), ErrorKind::Denied);
        let many = error(&Status::resource_exhausted("calls"), "open");
        assert_eq!(many.kind(), ErrorKind::Busy);
    }
}

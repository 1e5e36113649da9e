//! Errors of the client: site, operation, path, reply and remedy.

mod fields;
mod remedies;

use ftp_proto::client::FailureKind;
use ftp_wire::reply::Reply;

pub use crate::connect_error::ConnectError;
use crate::text::bytes;
pub(crate) use crate::text::{Chain, Text};
use crate::url::show;
pub use crate::web::WebError;
pub use fields::{Class, Fields};
use remedies::{BAD_NAME, CHANGED, CUT, MISMATCH, SHRUNK, SIZE, UNMARKED, data_remedy, remedy};
pub(crate) use remedies::{RELAY, Remedy, is_cut_off, names_refused_host};

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The failure of a command.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The server refused it.
    #[error("{site}: {command}: {}{}", Text(.reply), Remedy(remedy(.command, .reply)))]
    Refused {
        /// `host:port`.
        site: String,
        /// The command, secrets masked.
        command: String,
        /// The server's reply.
        reply: Reply,
    },
    /// The control connection ended first.
    #[error("{site}: {command}: {why}")]
    Lost {
        /// `host:port`.
        site: String,
        /// The command, secrets masked.
        command: String,
        /// The reason.
        why: String,
    },
    /// The server broke the protocol.
    #[error("{site}: {command}: server broke the protocol: {what}")]
    Misbehaved {
        /// `host:port`.
        site: String,
        /// The command, secrets masked.
        command: String,
        /// The breach.
        what: String,
    },
}

impl ControlError {
    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { reply, .. } => FailureKind::of(reply).is_transient(),
            Self::Lost { .. } => true,
            Self::Misbehaved { .. } => false,
        }
    }

    /// Says whether the server has no object of that name.
    pub fn is_not_found(&self) -> bool {
        self.kind() == Some(FailureKind::NotFound)
    }

    /// The meaning of the server's refusal, when it refused.
    pub fn kind(&self) -> Option<FailureKind> {
        self.reply().map(FailureKind::of)
    }

    /// The reply that refused the command.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Refused { reply, .. } => Some(reply),
            Self::Lost { .. } | Self::Misbehaved { .. } => None,
        }
    }

    /// Tells the parts of the error.
    pub fn fields(&self) -> Fields<'_> {
        let (Self::Refused { site, command, .. }
        | Self::Lost { site, command, .. }
        | Self::Misbehaved { site, command, .. }) = self;
        let class = match self {
            Self::Lost { .. } => Class::Connect,
            _ if self.kind() == Some(FailureKind::ChecksumMismatch) => Class::Verify,
            Self::Refused { .. } | Self::Misbehaved { .. } => Class::Transfer,
        };
        let fields = Fields {
            site: Some(site),
            operation: Some(command),
            ..Fields::of(class)
        };
        match self.reply() {
            Some(reply) => fields.with_reply(reply).with_remedy(remedy(command, reply)),
            None => fields,
        }
    }
}

/// Says whether `reply` tells that the object is there already.
pub(crate) fn is_exists(reply: &Reply) -> bool {
    FailureKind::of(reply) == FailureKind::Exists
}

/// Says whether a transfer was refused for its data connections, so that none is left for the next.
pub(crate) fn lacks_channel(error: &ControlError) -> bool {
    matches!(
        error.kind(),
        Some(FailureKind::DataChannel | FailureKind::Aborted)
    )
}

/// The reason why a file was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A server could not be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A command failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The exchange with a web server failed.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The data connections failed.
    #[error("{site}: {path}: {}{}", Chain(.cause), Remedy(data_remedy(.cause)))]
    Data {
        /// The server at the other end, `host:port`.
        site: String,
        /// The object there.
        path: String,
        /// The error of the data channel.
        #[source]
        cause: gridftp_data::Error,
    },
    /// The local file system failed.
    #[error("local: {op} {path}: {}", Chain(.cause.as_ref()))]
    Local {
        /// Which operation.
        op: &'static str,
        /// The local path.
        path: String,
        /// The error of the system.
        #[source]
        cause: Cause,
    },
    /// Fewer or more bytes came than the source has.
    #[error("transfer: check {path}: {} came of {expected}; {SIZE}", bytes(.got))]
    Size {
        /// The source.
        path: String,
        /// Bytes it has.
        expected: u64,
        /// Bytes that came.
        got: u64,
    },
    /// Data of unknown length ended without close-notify.
    #[error(
        "transfer: check {path}: its length is unknown, and the data ended after {} \
         without close-notify, so that it may have been cut off; {UNMARKED}",
        bytes(.got)
    )]
    Unmarked {
        /// The source.
        path: String,
        /// Bytes that came.
        got: u64,
    },
    /// The source changed while it was read.
    #[error("transfer: read {path}: it changed meanwhile; {CHANGED}")]
    Changed {
        /// The source.
        path: String,
    },
    /// The source has become smaller since its copying began.
    #[error(
        "transfer: read {path}: it has {}, and had {before} when its copying began; {SHRUNK}",
        bytes(.now)
    )]
    Shrunk {
        /// The source.
        path: String,
        /// Bytes it had.
        before: u64,
        /// Bytes it has.
        now: u64,
    },
    /// Both ends' digests differ.
    #[error(
        "verify: {path}: {algorithm} of the source is {original}, of the copy {copy}; {MISMATCH}"
    )]
    Mismatch {
        /// The copy.
        path: String,
        /// Algorithm.
        algorithm: String,
        /// The source's digest.
        original: String,
        /// The copy's digest.
        copy: String,
    },
    /// The source has a name that must not be used as a path here.
    #[error("source: name {name}: {why}; {BAD_NAME}")]
    BadName {
        /// The name, made safe to print.
        name: String,
        /// The fault.
        why: &'static str,
    },
    /// The source cannot be copied as it is.
    #[error("source: {path}: {what}{}", Remedy(.remedy))]
    Source {
        /// Which object.
        path: String,
        /// The fault.
        what: String,
        /// The remedy; empty where none is known.
        remedy: &'static str,
    },
    /// A file that is read in order ended before its end.
    #[error("{cause}; the received part ends at byte {at}, {CUT}")]
    Cut {
        /// Offset of the first byte that did not come.
        at: u64,
        /// The failure that ended it.
        #[source]
        cause: Box<Self>,
    },
    /// The request itself makes no sense.
    #[error("{what}{}", Remedy(.remedy))]
    Request {
        /// The place and the fault.
        what: String,
        /// The remedy; empty where none is known.
        remedy: &'static str,
    },
    /// The copy is whole and has its name, and lacks an attribute, a time or a mode of its source.
    #[error("{path}: the copy is whole and stays, without its {parts}: {cause}")]
    Unset {
        /// The copy.
        path: String,
        /// The names of the parts that it lacks.
        parts: String,
        /// The reason.
        #[source]
        cause: Box<Self>,
    },
    /// Two servers do not move data between them, and it was not to pass this machine.
    #[error("{cause}; {RELAY}")]
    ThirdPartyRefused {
        /// The refusal.
        cause: Box<Self>,
    },
    /// Both servers of a third-party copy failed.
    #[error("source: {source}; destination: {destination}")]
    Both {
        /// The failure at the source.
        source: Box<Self>,
        /// The failure at the destination.
        destination: Box<Self>,
    },
}

impl TransferError {
    /// The failure of wildcards that match no name; `pattern` is the URL with them.
    pub fn no_match(pattern: String) -> Self {
        let remedy = "in a name, write * ? and [ as %2A, %3F and %5B";
        Self::source(pattern, "no name there matches", remedy)
    }

    /// The failure of a request that makes no sense, with its remedy if there is one.
    pub fn request(what: impl Into<String>, remedy: &'static str) -> Self {
        let what = what.into();
        Self::Request { what, remedy }
    }

    /// The failure of a source that cannot be copied as it is, with its remedy if there is one.
    pub(crate) fn source(
        path: impl Into<String>,
        what: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self::Source {
            path: path.into(),
            what: what.into(),
            remedy,
        }
    }

    /// Makes an error of the local file system.
    pub(crate) fn local(op: &'static str, path: impl AsRef<[u8]>, cause: impl Into<Cause>) -> Self {
        Self::Local {
            op,
            path: show(path.as_ref()),
            cause: cause.into(),
        }
    }

    /// The error of a name that no command to a server can carry.
    pub(crate) fn unsendable(name: &[u8]) -> Self {
        Self::BadName {
            name: show(name),
            why: "no command to this server can carry it",
        }
    }

    /// The failure of a command.
    pub(crate) fn control(&self) -> Option<&ControlError> {
        match self {
            Self::Control(error) => Some(error),
            Self::ThirdPartyRefused { cause } | Self::Unset { cause, .. } => cause.control(),
            _ => None,
        }
    }

    /// The reply that refused a command.
    pub(crate) fn reply(&self) -> Option<&Reply> {
        self.control()?.reply()
    }

    /// Says whether something has the name of a file that was to replace nothing.
    pub(crate) fn is_taken(&self) -> bool {
        match self {
            Self::Local { cause, .. } => cause
                .downcast_ref::<gridftp_dsi::Error>()
                .is_some_and(|error| error.kind() == gridftp_dsi::ErrorKind::Exists),
            Self::Both { destination, .. } => destination.is_taken(),
            Self::ThirdPartyRefused { cause } => cause.is_taken(),
            Self::Unset { .. } => false,
            error => error.reply().map(FailureKind::of) == Some(FailureKind::Exists),
        }
    }

    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_transient(),
            Self::Control(error) => error.is_transient(),
            Self::Web(error) => error.is_transient(),
            Self::Data { cause, .. } => cause.is_transient(),
            Self::Cut { cause, .. } => cause.is_transient_midway(),
            Self::ThirdPartyRefused { cause } => cause.is_transient(),
            Self::Size { .. } | Self::Changed { .. } | Self::Mismatch { .. } => true,
            Self::Local { .. }
            | Self::Unmarked { .. }
            | Self::Shrunk { .. }
            | Self::BadName { .. }
            | Self::Source { .. }
            | Self::Unset { .. }
            | Self::Request { .. } => false,
            Self::Both {
                source,
                destination,
            } => source.is_transient() && destination.is_transient(),
        }
    }

    /// Says whether trying again may help when this came in the middle of a transfer: the command
    /// had been accepted, so a refusal that names no cause is that of a connection that broke.
    pub(crate) fn is_transient_midway(&self) -> bool {
        match self {
            Self::Control(ControlError::Refused { reply, .. }) if !self.is_corrupt() => {
                match FailureKind::of(reply) {
                    FailureKind::Unsupported | FailureKind::Sequence | FailureKind::Failed => true,
                    kind => kind.is_transient(),
                }
            }
            Self::Both {
                source,
                destination,
            } => source.is_transient_midway() && destination.is_transient_midway(),
            Self::ThirdPartyRefused { cause } => cause.is_transient_midway(),
            // As after connections that broke, when the data of the next file comes in place of
            // this one's.
            Self::Data { cause, .. } if cause.kind() == gridftp_data::ErrorKind::Protocol => true,
            error => error.is_corrupt() || error.is_transient(),
        }
    }

    /// Says whether the bytes of the copy are not those of the source, so that none is of use.
    pub(crate) fn is_corrupt(&self) -> bool {
        match self {
            Self::Mismatch { .. } => true,
            Self::Data { cause, .. } => cause.kind() == gridftp_data::ErrorKind::Corrupt,
            Self::Both {
                source,
                destination,
            } => source.is_corrupt() || destination.is_corrupt(),
            Self::ThirdPartyRefused { cause } => cause.is_corrupt(),
            Self::Unset { .. } => false,
            error => error.reply().map(FailureKind::of) == Some(FailureKind::ChecksumMismatch),
        }
    }

    /// Says whether the server was gone, or the connection to it: it may come back.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Control(ControlError::Lost { .. })
            | Self::Connect(
                ConnectError::Unreachable { .. } | ConnectError::Control(ControlError::Lost { .. }),
            ) => true,
            Self::Web(error) => error.is_gone(),
            Self::Both {
                source,
                destination,
            } => source.is_gone() || destination.is_gone(),
            Self::ThirdPartyRefused { cause } => cause.is_gone(),
            _ => false,
        }
    }

    /// The class of the failure, for an exit status.
    pub fn class(&self) -> Class {
        self.fields().class
    }

    /// Tells the parts of the error.
    pub fn fields(&self) -> Fields<'_> {
        match self {
            Self::Connect(error) => error.fields(),
            Self::Control(error) => error.fields(),
            Self::Web(error) => error.fields(),
            Self::Data { site, path, cause } => Fields {
                site: Some(site),
                class: match self.is_corrupt() {
                    true => Class::Verify,
                    false => Class::Transfer,
                },
                ..Fields::local("data", path).with_remedy(data_remedy(cause))
            },
            Self::Local { op, path, .. } => Fields::local(op, path),
            Self::Size { path, .. } => Fields::local("check", path).with_remedy(SIZE),
            Self::Unmarked { path, .. } => Fields::local("check", path).with_remedy(UNMARKED),
            Self::Changed { path } => Fields::local("read", path).with_remedy(CHANGED),
            Self::Shrunk { path, .. } => Fields::local("read", path).with_remedy(SHRUNK),
            Self::Mismatch { path, .. } => Fields {
                class: Class::Verify,
                ..Fields::local("verify", path).with_remedy(MISMATCH)
            },
            Self::BadName { name, .. } => Fields::local("name", name).with_remedy(BAD_NAME),
            Self::Source { path, remedy, .. } => Fields::local("source", path).with_remedy(remedy),
            Self::Cut { cause, .. } | Self::Unset { cause, .. } => cause.fields(),
            Self::ThirdPartyRefused { cause } => cause.fields().with_remedy(RELAY),
            Self::Request { remedy, .. } => Fields::of(Class::Usage).with_remedy(remedy),
            Self::Both {
                source,
                destination,
            } => Fields::of_both(source, destination),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn causes_are_kept_to_the_end_of_the_chain() {
        let cause = std::io::Error::from_raw_os_error(13);
        let local = TransferError::local("read", "/f", cause);
        let error = TransferError::Cut {
            at: 7,
            cause: Box::new(local),
        };
        let text = "local: read /f: Permission denied (os error 13); the received part ends at byte 7, \
                    read on from there";
        assert_eq!(error.to_string(), text);
        let local = error.source().unwrap();
        let end = local.source().unwrap().downcast_ref::<std::io::Error>();
        assert_eq!(end.unwrap().raw_os_error(), Some(13));
        let fields = error.fields();
        assert_eq!((fields.operation, fields.path), (Some("read"), Some("/f")));
    }

    #[test]
    fn remedies_are_told_behind_the_fact_and_as_fields() {
        let request = TransferError::request("source: /d: is a directory", "add --recursive");
        let source = TransferError::source("/d", "is a directory", "add --recursive");
        for error in [request, source] {
            assert_eq!(
                error.to_string(),
                "source: /d: is a directory; add --recursive"
            );
            assert_eq!(error.fields().remedy, Some("add --recursive"));
        }
        let plain = TransferError::source("/d", "leads back", "");
        assert_eq!(plain.to_string(), "source: /d: leads back");
        assert_eq!(plain.fields().remedy, None);
    }
}

//! Errors of the client: which side, which operation, which path, and what to try.

use std::fmt;

use ftp_proto::client::FailureKind;
use ftp_wire::reply::Reply;

pub use crate::connect_error::ConnectError;
pub(crate) use crate::text::{Chain, Text};
use crate::url::show;

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a command did not do what it was asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ControlError {
    /// The server refused it.
    Refused {
        /// `host:port`.
        site: String,
        /// The command, secrets masked.
        command: String,
        /// What the server said.
        reply: Reply,
    },
    /// The control connection ended first.
    Lost {
        /// `host:port`.
        site: String,
        /// The command, secrets masked.
        command: String,
        /// How it ended.
        why: String,
    },
    /// The server broke the protocol.
    Misbehaved {
        /// `host:port`.
        site: String,
        /// The command, secrets masked.
        command: String,
        /// What was wrong.
        what: String,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused {
                site,
                command,
                reply,
            } => {
                let hint = match FailureKind::of(reply) {
                    FailureKind::Unsupported if command.starts_with("LIST") => {
                        "; without it directories cannot be listed, name each file"
                    }
                    _ if command.starts_with("MODE E") => {
                        "; leave --mode out, or use --mode stream"
                    }
                    _ => hint(reply),
                };
                write!(f, "{site}: {command}: {}{hint}", Text(reply))
            }
            Self::Lost { site, command, why } => write!(f, "{site}: {command}: {why}"),
            Self::Misbehaved {
                site,
                command,
                what,
            } => {
                write!(f, "{site}: {command}: server broke the protocol: {what}")
            }
        }
    }
}

impl std::error::Error for ControlError {}

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

    /// What the server's refusal means, when it refused.
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

/// Says whether a data connection could not be made, where other replies tell of one that broke, or for
/// which no command had come.
fn is_cut_off(reply: &Reply) -> bool {
    let text = reply.text().to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|&words| text.contains(words));
    says(&["unable to connect", "connection refused"])
        || reply.code().number() == 425 && !says(&["pasv"])
}

fn hint(reply: &Reply) -> &'static str {
    match FailureKind::of(reply) {
        FailureKind::NotFound => "; check the path",
        FailureKind::Denied => "; this account may not do that there",
        FailureKind::NoSpace => "; free some space there",
        FailureKind::Login => "; name an account with --user or --netrc",
        FailureKind::DataChannel if is_cut_off(reply) => "; a firewall may stand between",
        FailureKind::Busy => "; try again later, or with a smaller --concurrency",
        _ => "",
    }
}

/// Why a file was not copied.
#[derive(Debug)]
#[non_exhaustive]
pub enum TransferError {
    /// A server could not be used.
    Connect(ConnectError),
    /// A server did not do what it was asked.
    Control(ControlError),
    /// The data connections failed.
    Data {
        /// The server at the other end, `host:port`.
        site: String,
        /// The object there.
        path: String,
        /// What the data channel says.
        cause: gridftp_data::Error,
    },
    /// The local file system failed.
    Local {
        /// Which operation.
        op: &'static str,
        /// The local path.
        path: String,
        /// What the system says.
        cause: Cause,
    },
    /// Fewer or more bytes came than the source has.
    Size {
        /// The source.
        path: String,
        /// Bytes it has.
        expected: u64,
        /// Bytes that came.
        got: u64,
    },
    /// The source changed while it was read.
    Changed {
        /// The source.
        path: String,
    },
    /// The source has become smaller since its copying began.
    Shrunk {
        /// The source.
        path: String,
        /// Bytes it had.
        before: u64,
        /// Bytes it has.
        now: u64,
    },
    /// Both ends' digests differ.
    Mismatch {
        /// The copy.
        path: String,
        /// Algorithm.
        algorithm: String,
        /// The source's digest.
        source: String,
        /// The copy's digest.
        copy: String,
    },
    /// The source has a name that must not be used as a path here.
    BadName {
        /// The name, made safe to print.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The source cannot be copied as it is.
    Source {
        /// Which object.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file that is read in order ended before its end.
    Cut {
        /// Offset of the first byte that did not come.
        at: u64,
        /// How it ended.
        cause: Box<Self>,
    },
    /// The request itself makes no sense.
    Request(String),
    /// Both servers of a third-party copy failed.
    Both {
        /// What the source said.
        source: Box<Self>,
        /// What the destination said.
        destination: Box<Self>,
    },
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::Data { site, path, cause } => write!(f, "{site}: {path}: {}", Chain(cause)),
            Self::Local { op, path, cause } => {
                write!(f, "local: {op} {path}: {}", Chain(cause.as_ref()))
            }
            Self::Size {
                path,
                expected,
                got,
            } => write!(
                f,
                "transfer: check {path}: {got} bytes came of {expected}; \
                 the source may have changed, copy again"
            ),
            Self::Changed { path } => {
                write!(
                    f,
                    "transfer: read {path}: it changed meanwhile; copy again when it is at rest"
                )
            }
            Self::Shrunk { path, before, now } => write!(
                f,
                "transfer: read {path}: it has {now} bytes, and had {before} when its copying began; \
                 see that it is not the destination itself, then copy again"
            ),
            Self::Mismatch {
                path,
                algorithm,
                source,
                copy,
            } => write!(
                f,
                "verify: {path}: {algorithm} of the source is {source}, of the copy {copy}; \
                 do not use the copy, copy again"
            ),
            Self::BadName { name, why } => {
                write!(
                    f,
                    "source: name {name}: {why}; it is not copied, rename it there"
                )
            }
            Self::Source { path, what } => write!(f, "source: {path}: {what}"),
            Self::Cut { at, cause } => {
                write!(
                    f,
                    "{cause}; what came ends at byte {at}, read on from there"
                )
            }
            Self::Request(what) => f.write_str(what),
            Self::Both {
                source,
                destination,
            } => {
                write!(f, "source: {source}; destination: {destination}")
            }
        }
    }
}

impl std::error::Error for TransferError {}

impl From<ConnectError> for TransferError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<ControlError> for TransferError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl TransferError {
    /// The failure of wildcards that match no name; `pattern` is the URL with them.
    pub fn no_match(pattern: String) -> Self {
        Self::Source {
            path: pattern,
            what: "no name there matches; in a name, write * ? and [ as %2A, %3F and %5B"
                .to_owned(),
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
            _ => None,
        }
    }

    /// The reply that refused a command.
    pub(crate) fn reply(&self) -> Option<&Reply> {
        self.control()?.reply()
    }

    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_transient(),
            Self::Control(error) => error.is_transient(),
            Self::Data { cause, .. } => cause.is_transient(),
            Self::Cut { cause, .. } => cause.is_transient_midway(),
            Self::Size { .. } | Self::Changed { .. } | Self::Mismatch { .. } => true,
            Self::Local { .. }
            | Self::Shrunk { .. }
            | Self::BadName { .. }
            | Self::Source { .. }
            | Self::Request(_) => false,
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
            Self::Control(ControlError::Refused { reply, .. }) => match FailureKind::of(reply) {
                FailureKind::Unsupported | FailureKind::Sequence | FailureKind::Failed => true,
                kind => kind.is_transient(),
            },
            Self::Both {
                source,
                destination,
            } => source.is_transient_midway() && destination.is_transient_midway(),
            // As after connections that broke, when the data of the next file comes in place of this one's.
            Self::Data { cause, .. } if cause.kind() == gridftp_data::ErrorKind::Protocol => true,
            error => error.is_transient(),
        }
    }

    /// Says whether the server was gone, or the connection to it: it may come back.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Control(ControlError::Lost { .. })
            | Self::Connect(
                ConnectError::Unreachable { .. } | ConnectError::Control(ControlError::Lost { .. }),
            ) => true,
            Self::Both {
                source,
                destination,
            } => source.is_gone() || destination.is_gone(),
            _ => false,
        }
    }

    /// Says what class of failure this is, for an exit status.
    pub fn class(&self) -> Class {
        match self {
            Self::Connect(ConnectError::Login { .. } | ConnectError::Security { .. }) => {
                Class::Login
            }
            Self::Connect(ConnectError::Stack { .. }) | Self::Request(_) => Class::Usage,
            Self::Connect(ConnectError::StackRefused { .. }) => Class::Transfer,
            Self::Connect(_) => Class::Connect,
            Self::Mismatch { .. } => Class::Verify,
            Self::Control(ControlError::Lost { .. }) => Class::Connect,
            Self::Both { source, .. } => source.class(),
            Self::Cut { cause, .. } => cause.class(),
            Self::Control(_)
            | Self::Data { .. }
            | Self::Local { .. }
            | Self::Size { .. }
            | Self::Shrunk { .. }
            | Self::Changed { .. }
            | Self::Source { .. }
            | Self::BadName { .. } => Class::Transfer,
        }
    }
}

/// What kind of failure an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// The request makes no sense.
    Usage,
    /// A server cannot be reached.
    Connect,
    /// A server refused the login.
    Login,
    /// A file was not copied.
    Transfer,
    /// A copy differs from its source.
    Verify,
}

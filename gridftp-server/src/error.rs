//! `Error`: whatever can end an action, before it becomes a reply.

use std::fmt;

use gridftp_data::{ErrorKind as DataErrorKind, Wait};

use crate::auth::Refused;

/// Why an action failed. `Display` prints this level only.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The login was refused.
    Login(Refused),
    /// Nobody is logged in.
    NotLoggedIn,
    /// The storage refused or failed.
    Storage(gridftp_dsi::error::Error),
    /// The data channel failed.
    Data(gridftp_data::Error),
    /// Nobody connected to a data port that lets in the client's own host only.
    Unvisited(gridftp_data::Error),
    /// The policy forbids it.
    Forbidden(Forbidden),
    /// The peer claims to continue what is not here.
    NothingToResume {
        /// First byte claimed that is not held.
        missing: u64,
    },
    /// The client claims to hold bytes that the file does not have.
    RestartBeyondEnd {
        /// End of what the client claims to hold.
        held: u64,
        /// Length of the file, or of the region asked for.
        length: u64,
    },
    /// The way of storing is none that this server knows.
    NoSuchPlacement,
    /// Fewer bytes came than were announced; they are kept.
    Short {
        /// Bytes that are here.
        held: u64,
        /// Bytes announced.
        announced: u64,
    },
    /// The bytes that came have holes between them; they are kept.
    Holes {
        /// First byte that is missing.
        first: u64,
    },
    /// It was stopped before its own end.
    Aborted(AbortedBy),
    /// This server's storage has no such checksum.
    NoSuchChecksum,
    /// The client's stack names what it may not, or makes no sense.
    Stack(xio::Error),
    /// A file behind layers can only be moved whole.
    NotThroughLayers,
    /// `REST` before a store of text: a length on the wire is no place in the file.
    RestartOfText,
}

/// Who stops work before its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbortedBy {
    /// The client, by `ABOR` or by going away.
    Client,
    /// This server, because its time to drain is over.
    Server,
}

/// What a policy of this server forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Forbidden {
    /// A user without the right to write.
    Write,
    /// Data to a host other than the client's.
    ThirdParty,
    /// Data to a port below 1024.
    LowPort,
    /// A data port is wanted, but the advertised address is of the other family, which has this number
    /// (RFC 2428 §2).
    Family(u8),
}

impl From<gridftp_dsi::error::Error> for Error {
    fn from(error: gridftp_dsi::error::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<gridftp_data::Error> for Error {
    fn from(error: gridftp_data::Error) -> Self {
        Self::Data(error)
    }
}

impl From<Forbidden> for Error {
    fn from(forbidden: Forbidden) -> Self {
        Self::Forbidden(forbidden)
    }
}

impl Error {
    /// The same, naming the policy where a data port was open to the client's own host only and nobody came.
    pub(crate) fn at_own_port(self) -> Self {
        match self {
            Self::Data(error) if matches!(error.kind(), DataErrorKind::Timeout(Wait::Accept)) => {
                Self::Unvisited(error)
            }
            other => other,
        }
    }

    /// The storage error at the bottom, if one is.
    pub(crate) fn storage(&self) -> Option<&gridftp_dsi::error::Error> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Data(error) if error.kind() == DataErrorKind::Storage => error.storage_error(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Login(Refused::Incorrect) => f.write_str("login: wrong name or password"),
            Self::Login(Refused::LockedOut) => {
                f.write_str("login: too many failures, try again later")
            }
            Self::Login(Refused::Full) => {
                f.write_str("login: all places are taken, try again later")
            }
            Self::Login(Refused::Busy) => {
                f.write_str("login: the password could not be checked, try again later")
            }
            Self::NotLoggedIn => f.write_str("session: nobody is logged in"),
            Self::Storage(error) => error.fmt(f),
            Self::Data(error) => error.fmt(f),
            Self::Unvisited(error) => write!(
                f,
                "{error}; a transfer between two servers needs --third-party at this one"
            ),
            Self::Forbidden(what) => what.fmt(f),
            Self::NothingToResume { missing } => write!(
                f,
                "restart: byte {missing} is claimed to be here and is not, send the file from its start"
            ),
            Self::RestartBeyondEnd { held, length } => {
                write!(
                    f,
                    "restart: {held} bytes are claimed to be held of a file of {length}"
                )
            }
            Self::NoSuchPlacement => f.write_str("store: this way of storing is not known here"),
            Self::Short { held, announced } => write!(
                f,
                "store: {held} of {announced} announced bytes came, they are kept for a restart"
            ),
            Self::Holes { first } => {
                write!(
                    f,
                    "store: byte {first} never came, what came is kept for a restart"
                )
            }
            Self::Aborted(AbortedBy::Client) => f.write_str("transfer: aborted by the client"),
            Self::Aborted(AbortedBy::Server) => {
                f.write_str("transfer: aborted, the server is stopping")
            }
            Self::Stack(error) => {
                let hint = match error.kind() {
                    xio::ErrorKind::UnknownDriver => ": not whitelisted",
                    _ => "",
                };
                write!(f, "{error}{hint}")
            }
            Self::NotThroughLayers => f.write_str(
                "transfer: a file behind a disk stack is moved whole: no restart, no region, no digest ahead",
            ),
            Self::RestartOfText => f.write_str(
                "store: a restart in TYPE A has no place in the file, as lines end in two bytes on the way, \
                 send TYPE I or begin at the start",
            ),
            Self::NoSuchChecksum => {
                f.write_str("checksum: unknown algorithm, FEAT lists those offered")
            }
        }
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            // Clients read the list in the parentheses (RFC 2428 §2).
            Self::Family(there_is) => {
                return write!(f, "policy: network protocol not supported, use ({there_is})");
            }
            Self::Write => "policy: this user may not change anything",
            Self::ThirdParty => {
                "policy: data goes to and comes from the client's own host only, see the server's --third-party"
            }
            Self::LowPort => "policy: no data connections to ports below 1024",
        })
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` of the three carriers prints the carried error, so its source is the next level.
        match self {
            Self::Storage(error) => error.source(),
            Self::Data(error) | Self::Unvisited(error) => error.source(),
            Self::Stack(error) => error.source(),
            Self::Login(_)
            | Self::NotLoggedIn
            | Self::Forbidden(_)
            | Self::NothingToResume { .. }
            | Self::RestartBeyondEnd { .. }
            | Self::NoSuchPlacement
            | Self::Short { .. }
            | Self::Holes { .. }
            | Self::Aborted(_)
            | Self::NoSuchChecksum
            | Self::NotThroughLayers
            | Self::RestartOfText => None,
        }
    }
}

/// An error and everything below it, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let why = cause.to_string();
        // A layer may have told the system's error already, in its words and without its number.
        let words = why.split(" (os error").next().unwrap_or_default();
        if !text.ends_with(&why) && !text.to_lowercase().ends_with(&words.to_lowercase()) {
            text = format!("{text}: {why}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use xio::Operation;

    use super::*;

    #[test]
    fn what_the_system_said_is_told_once() {
        let refused = std::io::Error::from_raw_os_error(111);
        let cause = refused.to_string();
        let error = xio::Error::from_io(refused, "tcp", Operation::Connect).about("[::1]:9");
        assert_eq!(chain(&error), format!("tcp: connect: [::1]:9: {cause}"));
        let denied = std::io::Error::from_raw_os_error(13);
        let error =
            gridftp_dsi::Error::new(gridftp_dsi::ErrorKind::Denied, "create").because(denied);
        assert_eq!(chain(&error), "storage: create: permission denied");
    }
}

//! `ConnectError`: why a server could not be used, and what to try.

use std::fmt;
use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::reply::Reply;

use crate::error::{Cause, ControlError};
use crate::text::{Chain, Text};
use crate::url::show;

/// Why a server could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The stack string of the options is wrong.
    Stack {
        /// What the parser of stacks says.
        cause: Cause,
    },
    /// No connection could be made.
    Unreachable {
        /// `host:port`.
        site: String,
        /// What the transport says.
        cause: Cause,
    },
    /// The server was reached, and the login took too long.
    Late {
        /// `host:port`.
        site: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The server's greeting was a refusal.
    Busy {
        /// `host:port`.
        site: String,
        /// What it said.
        reply: Reply,
    },
    /// The server takes no login in clear text.
    Security {
        /// `host:port`.
        site: String,
        /// What it said.
        reply: Reply,
    },
    /// The account was refused.
    Login {
        /// `host:port`.
        site: String,
        /// The account.
        user: String,
        /// What the server said.
        reply: Reply,
    },
    /// The server does not build the stack that was asked for.
    StackRefused {
        /// `host:port`.
        site: String,
        /// The stack, as the server was told it.
        stack: String,
        /// What it said.
        reply: Reply,
    },
    /// The control connection failed before the login was over.
    Control(ControlError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stack { cause } => write!(f, "stack: parse: {}", Chain(cause.as_ref())),
            Self::Unreachable { site, cause } => {
                write!(
                    f,
                    "{site}: connect: {}; check host and port, and that the server runs",
                    Chain(cause.as_ref())
                )?;
                if site.ends_with(":21") {
                    f.write_str(
                        " (ftp:// means port 21; GridFTP servers listen on 2811: ftp://HOST:2811/)",
                    )?;
                }
                Ok(())
            }
            Self::Late { site, limit } => write!(
                f,
                "{site}: login: not done within {} s; give it longer by --timeout",
                limit.as_secs()
            ),
            Self::StackRefused { site, stack, reply } => {
                write!(f, "{site}: stack {stack}: {}", Text(reply))?;
                // Other refusals say themselves what is wrong with it.
                if reply.text().contains("whitelisted") {
                    f.write_str(
                        "; the server must allow its drivers (net-stacks and disk-stacks, or \
                         -dc-whitelist and -fs-whitelist of a Globus server)",
                    )?;
                }
                Ok(())
            }
            Self::Busy { site, reply } => {
                write!(
                    f,
                    "{site}: connect: server refuses sessions: {}",
                    Text(reply)
                )
            }
            Self::Security { site, reply } => write!(
                f,
                "{site}: login: {}; it takes no login in clear text, use a port that does",
                Text(reply)
            ),
            Self::Login { site, user, reply } => write!(
                f,
                "{site}: login as {}: {}; check the account, or name one with --user or --netrc",
                show(user.as_bytes()),
                Text(reply)
            ),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<ControlError> for ConnectError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl ConnectError {
    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Stack { .. } | Self::StackRefused { .. } | Self::Security { .. } => false,
            Self::Unreachable { .. } | Self::Late { .. } => true,
            Self::Busy { reply, .. } | Self::Login { reply, .. } => {
                FailureKind::of(reply).is_transient()
            }
            Self::Control(error) => error.is_transient(),
        }
    }
}

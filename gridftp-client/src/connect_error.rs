//! `ConnectError`: the reason why a server could not be used, and the remedy.

use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::reply::Reply;

use crate::error::{Cause, Class, ControlError, Fields, Remedy};
use crate::grid::MAPPED;
use crate::text::{Chain, Text};
use crate::url::show_text;

/// The reason why a server could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The stack string of the options is wrong.
    #[error("stack: parse: {}", Chain(.cause.as_ref()))]
    Stack {
        /// The error of the stack parser.
        #[source]
        cause: Cause,
    },
    /// No connection could be made.
    #[error("{site}: connect: {}{}", Chain(.cause.as_ref()), Remedy(unreachable(.site)))]
    Unreachable {
        /// `host:port`.
        site: String,
        /// The error of the transport.
        #[source]
        cause: Cause,
    },
    /// The server was reached, and the login took too long.
    #[error("{site}: login: not done within {} s{}", .limit.as_secs(), Remedy(LATE))]
    Late {
        /// `host:port`.
        site: String,
        /// The time limit.
        limit: Duration,
    },
    /// The server's greeting was a refusal.
    #[error("{site}: connect: server refuses sessions: {}", Text(.reply))]
    Busy {
        /// `host:port`.
        site: String,
        /// The greeting.
        reply: Reply,
    },
    /// Options contradict each other.
    #[error("{what}{}", Remedy(.remedy))]
    Choice {
        /// The option and the contradiction.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The TLS handshake failed; neither name nor password was sent.
    #[error("{site}: {cause}{}", Remedy(.remedy))]
    Tls {
        /// `host:port`.
        site: String,
        /// The error of the layer.
        #[source]
        cause: Cause,
        /// The remedy; empty where the cause names it.
        remedy: &'static str,
    },
    /// The server says nothing before a handshake of TLS, which the session does not begin with.
    #[error(
        "{site}: connect: the server has no greeting, and speaks TLS{}",
        Remedy(IMPLICIT)
    )]
    Implicit {
        /// `host:port`.
        site: String,
    },
    /// The server refuses TLS, or a third party on the way does; neither name nor password was sent.
    #[error("{site}: AUTH TLS: {}{}", Text(.reply), Remedy(no_tls(*.for_password)))]
    NoTls {
        /// `host:port`.
        site: String,
        /// The refusal.
        reply: Reply,
        /// Whether TLS was not asked for, and is the way of a password.
        for_password: bool,
    },
    /// Grid security failed, or has no credential; no name was sent.
    #[error("{site}: {cause}{}", Remedy(.remedy))]
    Grid {
        /// `host:port`.
        site: String,
        /// The failure of this end or of the handshake.
        #[source]
        cause: Cause,
        /// The remedy; empty where the cause names it.
        remedy: &'static str,
    },
    /// The server refuses Grid security, or a third party on the way does; no name was sent.
    #[error("{site}: AUTH GSSAPI: {}{}", Text(.reply), Remedy(NO_GRID))]
    NoGrid {
        /// `host:port`.
        site: String,
        /// The refusal.
        reply: Reply,
    },
    /// The server cannot protect data connections as was asked for.
    #[error(
        "{site}: FEAT: it lists no {feature}, which protects data connections{}",
        Remedy(NO_PROTECTION)
    )]
    NoProtection {
        /// `host:port`.
        site: String,
        /// The feature.
        feature: &'static str,
    },
    /// The server takes no login in clear text.
    #[error("{site}: login: {}{}", Text(.reply), Remedy(SECURITY))]
    Security {
        /// `host:port`.
        site: String,
        /// The refusal.
        reply: Reply,
    },
    /// The account was refused.
    #[error("{site}: login {}: {}{}", account(.user), Text(.reply), Remedy(login(.user)))]
    Login {
        /// `host:port`.
        site: String,
        /// The account.
        user: String,
        /// The refusal.
        reply: Reply,
    },
    /// The server does not build the stack that was asked for.
    #[error("{site}: stack {stack}: {}{}", Text(.reply), Remedy(stack_refused(.reply)))]
    StackRefused {
        /// `host:port`.
        site: String,
        /// The stack, as the server was told it.
        stack: String,
        /// The refusal.
        reply: Reply,
    },
    /// The control connection failed before the login was over.
    #[error(transparent)]
    Control(#[from] ControlError),
}

const IMPLICIT: &str = "--security implicit begins with TLS";
const LATE: &str = "give it longer by --timeout";
const SECURITY: &str =
    "it takes no login in clear text: write gsiftp:// or ftps://, or give --security tls";
const NO_GRID: &str = "the server has no Grid security, or something on the way hides it; nothing else \
                       was sent";
pub(crate) const NO_PROTECTION: &str = "--dcau none --protect clear leaves data in clear text";
const LOGIN: &str = "check the account, or name one with --user or --netrc";

/// The account of a login, in words.
fn account(user: &str) -> String {
    match user {
        MAPPED => "by certificate".to_owned(),
        user => format!("as {}", show_text(user.as_bytes())),
    }
}

fn login(user: &str) -> &'static str {
    match user {
        MAPPED => "its administrator maps identities to accounts",
        _ => LOGIN,
    }
}

fn unreachable(site: &str) -> &'static str {
    match site.ends_with(":21") {
        true => {
            "check host and port, and that the server runs (ftp:// means port 21; GridFTP servers \
             listen on 2811: ftp://HOST:2811/)"
        }
        false => "check host and port, and that the server runs",
    }
}

fn no_tls(for_password: bool) -> &'static str {
    match for_password {
        true => {
            "the server has no TLS, or something on the way hides it, and no password was sent; \
             --security none sends it in clear text"
        }
        false => "the server has no TLS, or something on the way hides it; nothing else was sent",
    }
}

fn stack_refused(reply: &Reply) -> &'static str {
    match reply.text().contains("whitelisted") {
        true => {
            "the server must allow its drivers (net-stacks and disk-stacks, or -dc-whitelist and \
             -fs-whitelist of a Globus server)"
        }
        // Other refusals name the mistake themselves.
        false => "",
    }
}

impl ConnectError {
    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Stack { .. }
            | Self::StackRefused { .. }
            | Self::Security { .. }
            | Self::Choice { .. }
            | Self::Implicit { .. }
            | Self::NoGrid { .. }
            | Self::NoProtection { .. }
            | Self::NoTls { .. } => false,
            Self::Tls { cause, .. } | Self::Grid { cause, .. } => {
                let cause = cause.downcast_ref::<xio_core::Error>();
                cause.is_some_and(xio_core::Error::is_transient)
            }
            Self::Unreachable { .. } | Self::Late { .. } => true,
            Self::Busy { reply, .. } | Self::Login { reply, .. } => {
                FailureKind::of(reply).is_transient()
            }
            Self::Control(error) => error.is_transient(),
        }
    }

    /// Tells the parts of the error.
    pub fn fields(&self) -> Fields<'_> {
        let at = |class, site, operation| Fields {
            site: Some(site),
            operation: Some(operation),
            ..Fields::of(class)
        };
        match self {
            Self::Stack { .. } => Fields {
                operation: Some("stack"),
                ..Fields::of(Class::Usage)
            },
            Self::Choice { remedy, .. } => Fields {
                operation: Some("security"),
                ..Fields::of(Class::Usage).with_remedy(remedy)
            },
            Self::Tls { site, remedy, .. } => at(Class::Connect, site, "tls").with_remedy(remedy),
            Self::Implicit { site } => at(Class::Connect, site, "connect").with_remedy(IMPLICIT),
            Self::Grid { site, remedy, .. } => at(Class::Login, site, "gssapi").with_remedy(remedy),
            Self::NoGrid { site, reply } => at(Class::Login, site, "AUTH GSSAPI")
                .with_reply(reply)
                .with_remedy(NO_GRID),
            Self::NoProtection { site, .. } => {
                at(Class::Login, site, "FEAT").with_remedy(NO_PROTECTION)
            }
            Self::NoTls {
                site,
                reply,
                for_password,
            } => at(Class::Login, site, "AUTH TLS")
                .with_reply(reply)
                .with_remedy(no_tls(*for_password)),
            Self::Unreachable { site, .. } => {
                at(Class::Connect, site, "connect").with_remedy(unreachable(site))
            }
            Self::Late { site, .. } => at(Class::Connect, site, "login").with_remedy(LATE),
            Self::Busy { site, reply } => at(Class::Connect, site, "connect").with_reply(reply),
            Self::Security { site, reply } => at(Class::Login, site, "login")
                .with_reply(reply)
                .with_remedy(SECURITY),
            Self::Login { site, reply, user } => at(Class::Login, site, "login")
                .with_reply(reply)
                .with_remedy(login(user)),
            Self::StackRefused { site, reply, .. } => at(Class::Transfer, site, "stack")
                .with_reply(reply)
                .with_remedy(stack_refused(reply)),
            Self::Control(error) => Fields {
                class: Class::Connect,
                ..error.fields()
            },
        }
    }
}

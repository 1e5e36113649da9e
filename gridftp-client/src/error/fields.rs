//! `Fields`: the parts of an error, for programs.

use ftp_wire::reply::Reply;
use serde::Serialize;

use super::{ControlError, Text, TransferError, names_refused_host};

/// The parts of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fields<'a> {
    /// Kind of failure.
    pub class: Class,
    /// The server, `host:port`.
    pub site: Option<&'a str>,
    /// The command, secrets masked, or the operation.
    pub operation: Option<&'a str>,
    /// The object, where the operation does not name it.
    pub path: Option<&'a str>,
    /// Code of the server's reply.
    pub code: Option<u16>,
    /// The remedy.
    pub remedy: Option<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(class: Class) -> Self {
        Self {
            class,
            site: None,
            operation: None,
            path: None,
            code: None,
            remedy: None,
        }
    }

    pub(crate) fn with_reply(self, reply: &Reply) -> Self {
        let code = Some(reply.code().number());
        Self { code, ..self }
    }

    pub(crate) fn with_remedy(self, remedy: &'static str) -> Self {
        let remedy = Some(remedy).filter(|remedy| !remedy.is_empty());
        Self { remedy, ..self }
    }

    /// Those of the more telling of two failures: a source knows only that it was reset where the
    /// destination names the host that it refused.
    pub(super) fn of_both(source: &'a TransferError, destination: &'a TransferError) -> Self {
        match destination.reply() {
            Some(reply) if names_refused_host(reply) => destination.fields(),
            _ => source.fields(),
        }
    }

    pub(super) fn local(operation: &'a str, path: &'a str) -> Self {
        Self {
            operation: Some(operation),
            path: Some(path),
            ..Self::of(Class::Transfer)
        }
    }
}

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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

impl ControlError {
    /// The failure without the remedy, which is about the options of `gridftp-cp`.
    pub fn fact(&self) -> String {
        match self {
            Self::Refused {
                site,
                command,
                reply,
            } => format!("{site}: {command}: {}", Text(reply)),
            other => other.to_string(),
        }
    }
}

//! `Error`: the failures of connections, calls, certificates and tokens.

use std::io;
use std::time::Duration;

use crate::identity::Role;
use crate::message::Malformed;

/// Longest reason of a peer that is kept, in characters.
const MAX_REASON: usize = 1024;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure between a front end and a node, or of the files of a member.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A connection cannot be made, or breaks.
    #[error("cluster: connection with {peer}: {source}")]
    Connection {
        /// Name or address of the other end.
        peer: String,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The other end sent nothing for too long: its process or the network stands still.
    #[error("cluster: {peer}: silent for {} ms", after.as_millis())]
    Silent {
        /// Name of the other end.
        peer: String,
        /// The longest silence.
        after: Duration,
    },
    /// The other end refused a call.
    #[error("cluster: refused by {peer}: {reason}")]
    Refused {
        /// Name or address of the other end.
        peer: String,
        /// Its reason.
        reason: String,
    },
    /// The session ended.
    #[error("cluster: session with {peer}: ended")]
    Ended {
        /// Name of the other end.
        peer: String,
    },
    /// A message breaks the protocol.
    #[error("cluster: message of {peer}: {source}")]
    Malformed {
        /// Name of the other end.
        peer: String,
        /// The field at fault.
        source: Malformed,
    },
    /// The major versions of the service differ.
    #[error(
        "cluster: {peer} speaks version {theirs} of the service, and this program {ours}: \
         run the same release on every member"
    )]
    Version {
        /// Name of the other end.
        peer: String,
        /// Its major version.
        theirs: u32,
        /// The one of this program.
        ours: u32,
    },
    /// A certificate is of another cluster, role or name than the call needs.
    #[error("cluster: certificate of {found}, where one of a {} is needed", expected.name())]
    Role {
        /// The identity in the certificate.
        found: String,
        /// The role needed.
        expected: Role,
    },
    /// A certificate, a key or a request is not usable.
    #[error("cluster: {place}: {fact}")]
    Certificate {
        /// The file or the peer.
        place: String,
        /// The reason.
        fact: String,
    },
    /// A file cannot be read or written.
    #[error("cluster: {op} {place}: {source}")]
    File {
        /// The operation.
        op: &'static str,
        /// The path.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// A token to join is not valid.
    #[error("cluster: join token: {0}")]
    Token(&'static str),
    /// Two processes have the name of one node.
    #[error(
        "cluster: another node {name} is connected from {address}: give each node a name of its \
         own, with a certificate of its own by `cluster join`"
    )]
    Rival {
        /// The name.
        name: String,
        /// The address of the first one.
        address: String,
    },
    /// The storage of a node is not that of the front end and of the other nodes.
    #[error(
        "cluster: node {name} has another storage than {other}: give a front end and all its nodes \
         the same storage"
    )]
    Storage {
        /// The name of the node.
        name: String,
        /// The front end, or the node that was there first.
        other: String,
    },
    /// The certificate was revoked.
    #[error("cluster: the certificate of {0} is revoked: it joins again with a token")]
    Revoked(String),
    /// No node of this name is connected.
    #[error("cluster: no node {0} is connected")]
    NoNode(String),
}

impl Error {
    /// Makes the error of a connection.
    pub(crate) fn connection(
        peer: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Connection {
            peer: peer.into(),
            source: source.into(),
        }
    }

    /// Makes the error of a certificate.
    pub(crate) fn certificate(place: impl ToString, fact: impl ToString) -> Self {
        Self::Certificate {
            place: place.to_string(),
            fact: fact.to_string(),
        }
    }

    /// Makes the error of a call.
    pub(crate) fn of_call(peer: &str, status: tonic::Status) -> Self {
        use tonic::Code;
        match status.code() {
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::ResourceExhausted
            | Code::Unauthenticated
            | Code::OutOfRange
            | Code::NotFound
            | Code::Unimplemented => Self::Refused {
                peer: peer.into(),
                reason: printable(status.message()),
            },
            // Its text names types of libraries.
            _ => Self::connection(peer, "it broke off, or the process ended"),
        }
    }
}

/// The text of a peer, for one line of a log.
fn printable(text: &str) -> String {
    let text = text.chars().take(MAX_REASON);
    text.map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_peer_is_one_bounded_line() {
        let text = format!("a\r\nb{}", "x".repeat(9999));
        let error = Error::of_call("one", tonic::Status::invalid_argument(text)).to_string();
        assert!(
            error.starts_with("cluster: refused by one: a  bx"),
            "{error}"
        );
        assert_eq!(error.len(), "cluster: refused by one: ".len() + MAX_REASON);
    }
}

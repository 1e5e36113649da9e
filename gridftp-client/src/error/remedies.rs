//! The remedies that errors name.

use std::fmt;

use ftp_proto::client::FailureKind;
use ftp_wire::reply::Reply;

use super::Chain;
use crate::connect_error::NO_PROTECTION;

/// Says whether a server refused data connections, and tells the hosts and its option: our words.
pub(crate) fn names_refused_host(reply: &Reply) -> bool {
    let text = reply.text();
    ["data connections from", "were refused", "--third-party"]
        .iter()
        .all(|&words| text.contains(words))
}

/// Says whether a data connection could not be made, where other replies tell of one that broke, or
/// for which no command had come.
pub(crate) fn is_cut_off(reply: &Reply) -> bool {
    let text = reply.text().to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|&words| text.contains(words));
    says(&["unable to connect", "connection refused"])
        || reply.code().number() == 425 && !says(&["pasv"])
        || names_refused_host(reply)
}

/// The remedy for the refusal of a command; empty where none is known.
pub(super) fn remedy(command: &str, reply: &Reply) -> &'static str {
    match FailureKind::of(reply) {
        FailureKind::Unsupported if command.starts_with("LIST") => {
            "without it directories cannot be listed, name each file"
        }
        _ if command.starts_with("PROT P") => "--protect clear leaves data in clear text",
        _ if ["DCSC", "DCAU", "PROT S"]
            .iter()
            .any(|grid| command.starts_with(grid)) =>
        {
            NO_PROTECTION
        }
        _ if tells_of_another(&reply.text()) => ANOTHER,
        _ if command.starts_with("MODE E") => "leave --mode out, or use --mode stream",
        FailureKind::NotFound => "check the path",
        FailureKind::Denied => "this account may not do that there",
        FailureKind::NoSpace => "free some space there",
        FailureKind::Login => "name an account with --user or --netrc",
        // The reply tells the remedy.
        FailureKind::DataChannel if names_refused_host(reply) => "",
        FailureKind::DataChannel if is_cut_off(reply) => "a firewall may stand between",
        FailureKind::Busy => "try again later, or with a smaller --concurrency",
        _ => "",
    }
}

pub(super) fn data_remedy(cause: &gridftp_data::Error) -> &'static str {
    match cause.kind() {
        gridftp_data::ErrorKind::Corrupt => CORRUPT,
        _ if tells_of_another(&Chain(cause).to_string()) => ANOTHER,
        _ => "",
    }
}

/// Says whether one end of a data connection is another than the other end expects: our words are
/// those of the Globus server.
fn tells_of_another(text: &str) -> bool {
    text.contains("Expected the peer to authenticate as")
}

/// Prints a remedy behind the fact.
pub(crate) struct Remedy<'a>(pub(crate) &'a str);

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

const ANOTHER: &str = "--dcau names the identity of both ends of data connections";
pub(super) const SIZE: &str = "the source may have changed, copy again";
pub(super) const CHANGED: &str = "copy again when it is at rest";
pub(super) const SHRUNK: &str = "see that it is not the destination itself, then copy again";
pub(super) const MISMATCH: &str = "do not use the copy, copy again";
const CORRUPT: &str = "nothing of the copy is kept, copy again";
pub(super) const BAD_NAME: &str = "it is not copied, rename it there";
pub(super) const CUT: &str = "read on from there";
/// The remedy for servers that move no data between them.
pub(crate) const RELAY: &str = "--relay always has it pass this machine";
pub(super) const UNMARKED: &str = "use --mode extended, which tells the end";

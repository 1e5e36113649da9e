//! `Error`: the failures of an action, before they become replies.

use std::net::IpAddr;
use std::time::Duration;

use gridftp_cluster::Failed;
use gridftp_data::{ErrorKind as DataErrorKind, Peers, Wait};
use tokio::time::Instant;

use crate::auth::Refused;

/// Longest delay of the reply to a failed upload while it is recorded.
pub(crate) const KEEPING: Duration = Duration::from_secs(60);

/// Time from the notice of a lost node to the reply: a frozen one is silent for 3.5 s before, and the
/// client is told within five.
const RECORDED: Duration = Duration::from_millis(1500);

/// The part of that time for the transfers of the other nodes to end.
pub(crate) const AFTER_LOSS: Duration = Duration::from_secs(1);

/// The reason for a failed action. `Display` prints this level only.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The login was refused.
    #[error("login: {0}")]
    Login(Refused),
    /// No account belongs to the identity of the client.
    #[error("login: {0}{remedy}", remedy = .0.remedy())]
    Unmapped(gsi::gridmap::Unmapped),
    /// The credential for data connections cannot be used.
    #[error(transparent)]
    Credential(#[from] crate::grid::BadCredential),
    /// The action needs a login.
    #[error("session: not logged in")]
    NotLoggedIn,
    /// The storage refused or failed.
    #[error(transparent)]
    Storage(#[from] gridftp_dsi::error::Error),
    /// The data channel failed.
    #[error(transparent)]
    Data(#[from] gridftp_data::Error),
    /// No connection came to a data port that admits the client's own host only.
    #[error("{0}; a transfer between two servers needs --third-party at this one")]
    Unvisited(gridftp_data::Error),
    /// A transfer failed, and its data port had refused other hosts: one may be the peer.
    #[error("{}", refusing(.error, .hosts))]
    Refusing {
        /// The failure.
        error: Box<Self>,
        /// The refused hosts.
        hosts: Vec<IpAddr>,
    },
    /// A data node failed or refused.
    #[error(transparent)]
    Node(#[from] NodeFault),
    /// The policy forbids it.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// `REST` names bytes that are not kept here.
    #[error(
        "restart: byte {missing} of the partial file is not here, send the file from its start"
    )]
    NothingToResume {
        /// First byte named that is not kept.
        missing: u64,
    },
    /// The client sent bytes again that its `REST` named: their recorded values may be wrong now.
    #[error("restart: byte {at} came again, which REST named as held")]
    Repeated {
        /// First byte that came again.
        at: u64,
    },
    /// `REST` names bytes beyond the end of the file to send.
    #[error("restart: REST names {held} bytes as held, the file has {length}")]
    RestartBeyondEnd {
        /// End of the ranges that the client holds.
        held: u64,
        /// Length of the file, or of the requested region.
        length: u64,
    },
    /// Fewer bytes arrived than were announced; they are kept.
    #[error("store: {held} of {announced} announced bytes arrived, they are kept for a restart")]
    Short {
        /// Bytes that are here.
        held: u64,
        /// Bytes announced.
        announced: u64,
    },
    /// The protected connection ended without close-notify, and no announced length shows that all
    /// arrived; the received bytes are kept.
    #[error(
        "store: the data connection ended without close-notify after {held} bytes, which may not \
         be all; they are kept for a restart; announce the length by ALLO"
    )]
    Unmarked {
        /// Bytes that are here.
        held: u64,
    },
    /// The received ranges have holes between them; they are kept.
    #[error("store: byte {first} never arrived, the received ranges are kept for a restart")]
    Holes {
        /// First byte that is missing.
        first: u64,
    },
    /// No digest proves the bytes that an earlier upload left; all are kept.
    #[error(
        "store: {held} bytes are those of an earlier upload, and no digest of the file was announced \
         or told; they are kept; announce one by SITE STORATTR, or send the file from its start"
    )]
    Unproven {
        /// Bytes of the earlier upload.
        held: u64,
    },
    /// The action was stopped before its end.
    #[error("transfer: {0}")]
    Aborted(AbortedBy),
    /// A measurement goes on behind its time.
    #[error("measurement: its data goes on long after its time, it is ended")]
    Overtime,
    /// So many measurements of anonymous users of the client's host run, and no more may.
    #[error(
        "measurement: {0} of anonymous users of this address run already, try again when one has ended"
    )]
    Measured(usize),
    /// This server's storage has no such checksum.
    #[error("checksum: unknown algorithm, FEAT lists the supported ones")]
    NoSuchChecksum,
    /// The client's stack does not parse.
    #[error(transparent)]
    Stack(xio::Error),
    /// The client's stack names a driver that it may not use.
    #[error("{0}: not whitelisted")]
    NotWhitelisted(xio::Error),
    /// A file behind layers can only be moved whole.
    #[error(
        "transfer: a file behind a disk stack is moved whole: no restart, no region, no digest ahead"
    )]
    NotThroughLayers,
    /// `REST` before a store of text: a length on the wire is no offset in the file.
    #[error(
        "store: TYPE A has no restart, as lines end in two bytes on the wire: send TYPE I or begin at the start"
    )]
    RestartOfText,
}

/// The side that stopped an action before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AbortedBy {
    /// The client, by `ABOR` or by closing the control connection.
    #[error("aborted by the client")]
    Client,
    /// This server, at the end of its time to drain.
    #[error("aborted, the server is stopping")]
    Server,
}

/// A rule of this server's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forbidden {
    /// The user may not write.
    #[error("policy: this user may not change anything")]
    Write,
    /// Data goes to the client's own host only.
    #[error(
        "policy: data goes to and comes from the client's own host only, see the server's --third-party"
    )]
    ThirdParty,
    /// Data goes to no port below 1024.
    #[error("policy: no data connections to ports below 1024")]
    LowPort,
    /// Data would go in clear although its protection is in force.
    #[error(
        "policy: the protection of data connections is not to be had, send PROT C or log in anew"
    )]
    NoProtection,
    /// The advertised address is of the other family, which has this number. Clients read the list
    /// in the parentheses (RFC 2428 §2).
    #[error("policy: network protocol not supported, use ({0})")]
    Family(u8),
}

/// The failure of a data node of a front end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeFault {
    /// No node is connected that could take the transfer.
    #[error("data nodes: none is connected and free, try again later")]
    NoNode,
    /// The set-up of the data connections is gone, or there was none.
    #[error("data nodes: no data connection is set up, send PASV, SPAS, PORT or SPOR first")]
    NoChannel,
    /// The connection to a node ended.
    #[error("data node {node}: lost")]
    Lost {
        /// The node.
        node: String,
        /// The failure of its connection.
        #[source]
        why: Box<gridftp_cluster::Error>,
        /// The time of the notice.
        at: Instant,
    },
    /// A node does not answer in time.
    #[error("data node {0}: no answer in time")]
    Silent(String),
    /// A node does not end an upload that it publishes itself, after an abort; or the storage does
    /// not show the file.
    #[error("data node {0}: no end of the upload within a minute, it may publish the file or not")]
    Unknown(String),
    /// A node answers something else than it was asked.
    #[error("data node {0}: an answer to another request, are front end and node of one version?")]
    Protocol(String),
    /// A node refused, or its transfer failed.
    #[error("data node {node}: {}", .failed.reply.text())]
    Refused {
        /// The node.
        node: String,
        /// Its reply.
        failed: Box<Failed>,
    },
    /// The nodes report another number of bytes than the file has.
    #[error(
        "data nodes: {sent} bytes sent, {wanted} wanted: the file changed, or a node reports wrongly"
    )]
    Amount {
        /// Bytes reported.
        sent: u64,
        /// Bytes of the file that the client does not hold.
        wanted: u64,
    },
    /// A node reports ranges that are not in the file.
    #[error(
        "data nodes: byte {at} was reported as stored and is not in the file, it is not published"
    )]
    Absent {
        /// First byte that is not there.
        at: u64,
    },
    /// The file that a node stored alone has another size than it reports.
    #[error(
        "data nodes: {reported} bytes reported as stored, the file has {found}: another upload \
         changed it, or a node reports wrongly"
    )]
    Size {
        /// Size by the report of the node, and by the announcement of the client.
        reported: u64,
        /// Size of the file.
        found: u64,
    },
    /// Several nodes cannot store one file in this storage.
    #[error(
        "data nodes: this storage takes an upload from one node only, send PASV instead of SPAS"
    )]
    NotShared,
}

impl Error {
    /// The same, naming the policy where a data port of `peers` refused hosts, or where it was open
    /// to the client's own host only and no connection came.
    pub(crate) fn at_port(self, peers: &Peers, refused: Vec<IpAddr>) -> Self {
        match self.beside_refused(refused) {
            Self::Data(error)
                if matches!(peers, Peers::Only(_))
                    && error.kind() == DataErrorKind::Timeout(Wait::Accept) =>
            {
                Self::Unvisited(error)
            }
            other => other,
        }
    }

    /// The same, naming the hosts that the data port refused, where one may be the peer whose data
    /// did not come or go.
    pub(crate) fn beside_refused(self, hosts: Vec<IpAddr>) -> Self {
        if hosts.is_empty() || !self.is_of_peer() {
            return self;
        }
        let error = Box::new(self);
        Self::Refusing { error, hosts }
    }

    /// Says whether the transfer lacked data or a connection of its peer, or was given up.
    fn is_of_peer(&self) -> bool {
        match self {
            Self::Data(error) => match error.kind() {
                DataErrorKind::Open | DataErrorKind::Closed => true,
                DataErrorKind::Timeout(wait) => wait != Wait::Storage,
                _ => false,
            },
            Self::Aborted(_) | Self::Short { .. } | Self::Unmarked { .. } | Self::Holes { .. } => {
                true
            }
            _ => false,
        }
    }

    /// Says whether the data was changed on its way.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(self, Self::Data(error) if error.kind() == DataErrorKind::Corrupt)
    }

    /// Says whether a node was lost, or does not answer.
    pub(crate) const fn is_lost_node(&self) -> bool {
        matches!(
            self,
            Self::Node(NodeFault::Lost { .. } | NodeFault::Silent(_))
        )
    }

    /// Latest time of the reply to this failure while the upload is recorded; the recording itself
    /// continues.
    pub(crate) fn record_until(&self) -> Instant {
        match self {
            Self::Node(NodeFault::Lost { at, .. }) => *at + RECORDED,
            Self::Node(NodeFault::Silent(_)) => Instant::now() + (RECORDED - AFTER_LOSS),
            _ => Instant::now() + KEEPING,
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

impl From<xio::Error> for Error {
    fn from(error: xio::Error) -> Self {
        match error.kind() {
            xio::ErrorKind::UnknownDriver => Self::NotWhitelisted(error),
            _ => Self::Stack(error),
        }
    }
}

/// The words of [`Error::Refusing`].
fn refusing(error: &Error, hosts: &[IpAddr]) -> String {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    format!(
        "{}; data connections from {} were refused: hosts other than the client's need \
         --third-party at this server",
        chain(error),
        hosts.join(" and ")
    )
}

/// An error and everything below it, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let why = cause.to_string();
        // A layer may have included the system's error already, in the same words and without its
        // number.
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
    fn refused_hosts_are_told_beside_failures_of_a_peer_only() {
        let hosts = || [1, 2].map(|n| IpAddr::from([192, 0, 2, n])).to_vec();
        let own = Peers::Only([192, 0, 2, 9].into());
        let aborted = || Error::Aborted(AbortedBy::Client);
        assert_eq!(
            chain(&aborted().at_port(&own, hosts())),
            "transfer: aborted by the client; data connections from 192.0.2.1 and 192.0.2.2 were \
             refused: hosts other than the client's need --third-party at this server"
        );
        let silent = aborted().at_port(&own, Vec::new());
        assert!(matches!(silent, Error::Aborted(_)), "{silent:?}");
        let full = gridftp_data::Descriptors::new(0).take(1).unwrap_err();
        for other in [Error::from(Forbidden::Write), full.into()] {
            let told = other.at_port(&own, hosts());
            assert!(!matches!(told, Error::Refusing { .. }), "{told:?}");
        }
    }

    #[test]
    fn the_systems_error_is_printed_once() {
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

//! Messages of a session: requests of the front end and reports of the node, as typed values.

mod bounds;
#[cfg(test)]
mod malformed_tests;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

use byte_ranges::{Layout, RangeSet};
use digest_tree::Known;
use ftp_proto::modules::RetrieveModule;
use ftp_proto::security::DataProtection;
use ftp_proto::types::{Channel, ListForm, Placement};
use ftp_wire::command::{Family, StackSide, Tag};
use ftp_wire::facts::TimeVal;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;
use gridftp_dsi::User;
use zeroize::Zeroizing;

pub use bounds::Malformed;
pub(crate) use bounds::{MAX_MESSAGE, check, text};
pub(crate) use receive::{open, reply, request};

/// The start of a session on a node: the client, the user and the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The name of the session in the logs of both ends.
    pub task: String,
    /// The client's address on the control connection.
    pub client: SocketAddr,
    /// The user of the storage.
    pub user: User,
    /// Limits on the data connections.
    pub limits: SessionLimits,
}

/// Limits on the data connections of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Longest time to open a connection, and to wait for the first one.
    pub connect_timeout: Duration,
    /// Longest time without a byte moved.
    pub stall_timeout: Duration,
    /// Most simultaneous connections of one transfer.
    pub max_streams: u32,
}

/// A request of a front end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToNode {
    /// Listen for data connections. Answered by [`FromNode::Listening`] or [`FromNode::Failed`].
    Listen(Box<Listen>),
    /// Remember the addresses of the data connections; the transfer connects. Answered by
    /// [`FromNode::Done`] or [`FromNode::Failed`].
    Connect(Box<Connect>),
    /// Build data connections or files with this stack from now on; `None` for the node's own
    /// choice. Answered by [`FromNode::Done`] or [`FromNode::Failed`].
    Stack(StackSide, Option<String>),
    /// Move the node's part of a file, or a listing. Answered by [`FromNode::Transferred`] or
    /// [`FromNode::Failed`], after any number of events.
    Transfer(Box<Transfer>),
    /// Stop the transfer; its own answer still comes. Not answered itself.
    Abort,
    /// Publish the file of an [`FromNode::Arrived`]. Not answered itself.
    Publish,
    /// Send the end marks of the connections, after an [`FromNode::Sent`], and ahead of them the digest of
    /// the file, if this node is to tell it. Not answered itself.
    EndData(Option<Box<Told>>),
    /// Close data connections, cached or not, and data listeners. Not answered.
    DropData,
    /// Keep to this number of bytes a second on the data connections of this session together, each
    /// way, from now on, and of a running transfer too; `None` for any number. It holds for connections
    /// that are set up behind the first such request. Not answered.
    Rate(Option<NonZero<u64>>),
}

/// An answer or an event of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromNode {
    /// The request succeeded, and has no value.
    Done,
    /// The request failed.
    Failed(Box<Failed>),
    /// The address of the listener, in the form for the peer.
    Listening(SocketAddr),
    /// Event: the data connections are open.
    Opened {
        /// Whether cached connections serve again.
        reused: bool,
    },
    /// Event: ranges on stable storage since the last such event.
    Received(RangeSet),
    /// Event: bytes of this transfer moved so far.
    Moved(u64),
    /// Event: the storage takes long to open the file.
    Waiting,
    /// Event: the file of a [`TransferKind::Whole`] has arrived by a stream, which ends as well
    /// if the client dies. It is published after [`ToNode::Publish`], and kept for a restart after
    /// [`ToNode::Abort`].
    Arrived,
    /// Event: values of the digest of this node's part since the last such event; all of them come
    /// before [`FromNode::Transferred`]. Of the bytes in memory and not of those on stable storage.
    Hashed(Box<Known>),
    /// Event: the digest of the file that the sender of the data told this node, ahead of
    /// [`FromNode::Transferred`].
    Told(Box<Told>),
    /// Event: all data of this node's part is on the connections, so many bytes, and all values of its
    /// digest are told. The end marks wait for [`ToNode::EndData`].
    Sent(u64),
    /// The transfer ended well.
    Transferred(Box<Transferred>),
}

/// The hosts other than the client's own that may be the other end of data connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerRule {
    /// None: the client's own host only.
    Own,
    /// Any, for transfers between two servers.
    Any,
    /// Those of these networks, as `192.0.2.0/24`.
    Among(Vec<String>),
}

/// The identity of our end of data connections, for Grid security.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataIdentity {
    /// Its credential.
    pub credential: Option<Credential>,
    /// Whether the credential brings its own authorities (`DCSC`).
    pub own_authorities: bool,
}

/// A credential with its private key, PEM: never printed, and overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(Zeroizing<Vec<u8>>);

impl Credential {
    /// Wraps `pem`.
    pub fn new(pem: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(pem.into()))
    }

    /// Returns the PEM text.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// The parameters of a data listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Address family; `None` for that of the control connection.
    pub family: Option<Family>,
    /// TCP send buffer in bytes; 0 for the kernel's choice.
    pub send_buffer: u64,
    /// TCP receive buffer in bytes; 0 for the kernel's choice.
    pub receive_buffer: u64,
    /// The hosts that may connect.
    pub peers: PeerRule,
    /// The protection of the connections.
    pub protection: DataProtection,
    /// The identity of our end.
    pub identity: DataIdentity,
}

/// The addresses of data connections to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// One address or more.
    pub addresses: Vec<SocketAddr>,
    /// The hosts that these addresses may be on.
    pub peers: PeerRule,
    /// The protection of the connections.
    pub protection: DataProtection,
    /// The identity of our end.
    pub identity: DataIdentity,
}

/// One movement of bytes over the data channel of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The file or the listing, its direction, and the node's part.
    pub kind: TransferKind,
    /// Parameters of the data channel. Its protection is that of the last [`Listen`] or
    /// [`Connect`], and its layout that of the kind.
    pub channel: Channel,
    /// Interval of [`FromNode::Moved`]; `None` for none.
    pub perf_every: Option<Duration>,
    /// Interval of [`FromNode::Received`]; `None` for none.
    pub restart_every: Option<Duration>,
    /// Whether to read and discard the rest of a failed upload.
    pub drains: bool,
    /// The tag of the data in MODE E, for transfers with a receipt.
    pub tag: Option<NodeTag>,
}

/// The tag of the data of a transfer, and the node's part of its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTag {
    /// The tag.
    pub tag: Tag,
    /// The offset where the digested bytes begin, for a node that has a part of them and tells the
    /// values of that ([`FromNode::Hashed`]); `None` for one that has all of them, and tells the digest
    /// ([`Transferred::proven`]).
    pub part_of: Option<u64>,
    /// Whether the node asks ([`FromNode::Sent`]) before it sends the end marks of its part.
    pub asks: bool,
}

/// The digest of a file, and the hints of it, as its sender computed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// BLAKE3 of the file.
    pub digest: [u8; 32],
    /// The first bytes of the values of its sections, in order, and the sums over its groups.
    pub hints: Vec<[u8; 16]>,
}

/// The file or the listing of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferKind {
    /// A part of a file to the peer.
    Retrieve {
        /// The file.
        path: FtpPath,
        /// Offset and length of the region; wire offsets are relative to it.
        region: Option<(u64, Option<u64>)>,
        /// Ranges the receiver already holds, relative to the region.
        held: RangeSet,
        /// The distribution of the file over the stripes.
        layout: Layout,
        /// The index of this stripe, below [`Self::Retrieve::stripes`].
        stripe: u32,
        /// The number of stripes.
        stripes: u32,
    },
    /// Blocks of a file from the peer, into an upload that several nodes share.
    Store {
        /// The final name of the file.
        path: FtpPath,
        /// The token of the shared upload, which the front end opened.
        upload: Vec<u8>,
        /// The position of wire offset 0.
        base: u64,
        /// Ranges held according to the peer, relative to wire offset 0.
        held: RangeSet,
        /// The way of storing of the front end.
        rules: StoreRules,
    },
    /// The output of a module of ERET, to the peer.
    RetrieveBy {
        /// The file or directory.
        path: FtpPath,
        /// The module.
        module: RetrieveModule,
    },
    /// A file from the peer, which this node alone receives and publishes.
    Whole(Box<Whole>),
    /// A directory listing to the peer.
    List {
        /// The directory or file.
        path: FtpPath,
        /// The form of its lines.
        form: ListForm,
    },
}

/// The end of a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The reply for the client.
    pub reply: Reply,
    /// The party at fault.
    pub fault: Fault,
}

/// The party at fault in a failure on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The node itself: another one may succeed.
    Node,
    /// The other end of the data connections, or the network to it.
    Peer,
    /// The storage, the same on every node.
    Storage,
    /// The request: parameters that the node does not accept.
    Request,
    /// Nobody: the transfer was aborted.
    Aborted,
}

/// A file that one node receives and publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The final name of the file.
    pub path: FtpPath,
    /// The way it is opened, and the position of wire offset 0.
    pub into: Placement,
    /// Ranges held according to the peer, relative to wire offset 0.
    pub held: RangeSet,
    /// Expected number of bytes.
    pub size: Option<u64>,
    /// Modification time to set.
    pub modified: Option<TimeVal>,
    /// Algorithm and digest that the complete file must have.
    pub checksum: Option<(String, String)>,
    /// Algorithm and digest of the bytes sent: the file is changed with that digest only.
    pub proof: Option<(String, String)>,
    /// The way of storing of the front end.
    pub rules: StoreRules,
}

/// A server's way of storing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreRules {
    /// Whether files are written under their final names.
    pub in_place: bool,
    /// Whether data is on stable storage before a marker names it, and before publication.
    pub durable: bool,
    /// Whether the client announces the length of every upload but an empty one.
    pub empty_unannounced: bool,
}

/// The result of a transfer that ended well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transferred {
    /// Payload bytes moved by this node.
    pub bytes: u64,
    /// Of an upload: all ranges on stable storage by this transfer, relative to wire offset 0.
    pub ranges: RangeSet,
    /// One past the last byte of the upload in the file.
    pub end: u64,
    /// Whether a protected connection of MODE S ended without its end mark.
    pub ended_unmarked: bool,
    /// Number of data connections.
    pub connections: u32,
    /// Algorithm and digest of the bytes, where a module of ERET makes one.
    pub digest: Option<(String, String)>,
    /// BLAKE3 of a [tagged](NodeTag) transfer with all of its bytes on this node, where that knows it.
    pub proven: Option<[u8; 32]>,
}

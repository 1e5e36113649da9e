//! What a server session asks its edge to do, and what the edge answers.

use std::net::SocketAddr;
use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_wire::command::{Family, Mode, Secret, StackSide, Type};
use ftp_wire::facts::{FactSet, TimeVal};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;

/// Names one outstanding action, or one command a client has sent; the answer carries it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// What a server says first: the reply to no command of a client.
    pub const BANNER: Self = Self(0);
}

/// Work a session cannot do itself.
///
/// Every path is absolute within the user's tree, normalised, and already inside the session's
/// virtual root; the edge still resolves it safely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Check a name and password. Answered by [`Outcome::LoggedIn`] or [`Outcome::Failed`].
    Login {
        /// The name given by `USER`.
        user: String,
        /// The password given by `PASS`.
        password: Secret,
    },
    /// Listen for data connections. Answered by [`Outcome::Listening`].
    Listen {
        /// Address family asked for; `None` for that of the control connection.
        family: Option<Family>,
        /// TCP send buffer in bytes; 0 for the kernel's choice.
        send_buffer: u64,
        /// TCP receive buffer in bytes, which must be set before listening; 0 for the kernel's
        /// choice.
        receive_buffer: u64,
    },
    /// Remember these addresses to send data to, or take it from; the connections are made by the
    /// transfer. Answered by [`Outcome::Done`].
    ///
    /// The session has already refused ports below 1024 and, where third-party transfers are not
    /// allowed, hosts other than the peer's.
    Connect(Vec<SocketAddr>),
    /// Move a file or a listing over the data channel. Answered by [`Outcome::Transferred`], or by
    /// [`Outcome::Proven`] and [`Outcome::Spared`] where it is tagged.
    Transfer(Box<Transfer>),
    /// Stop the transfer or checksum with this ticket; its own outcome still comes. Not answered
    /// itself.
    Abort(Ticket),
    /// Close data connections, cached or not, and data listeners. Not answered.
    ///
    /// The session says so whenever the data side is spent: after every transfer in MODE S that
    /// began, after a transfer that failed once it had begun, and after an abort. A transfer that
    /// fails before [`Event::Opened`] leaves listener and connections for the next one.
    /// [`Self::Listen`] and [`Self::Connect`] replace whatever was there before without this
    /// action.
    DropData,
    /// Anything on names. Answered as the variant says.
    Names(Names),
    /// Build data connections or files with this stack from now on; `None` for this server's own
    /// choice. Answered by [`Outcome::Done`], or by [`Outcome::Failed`] when the stack is not
    /// allowed or makes no sense, and then all stays as it was.
    ///
    /// The session has closed whatever data side there was before.
    Stack(StackSide, Option<String>),
    /// Follow no symbolic link from now on, and make none. Not answered.
    ///
    /// The session has narrowed its view (`SITE CHROOT`, `SITE RESTRICT`), which it keeps by the
    /// text of paths: a link would lead around that.
    NoLinks,
    /// Facts for the log: `SITE CLIENTINFO` and `SITE TASKID`. Not answered.
    Annotate {
        /// `clientinfo` or `taskid`.
        key: &'static str,
        /// What the client said.
        value: String,
    },
}

impl Action {
    /// Says whether an outcome comes back for it.
    pub const fn is_answered(&self) -> bool {
        !matches!(
            self,
            Self::Abort(_) | Self::DropData | Self::NoLinks | Self::Annotate { .. }
        )
    }
}

/// Work on names and metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// One object's facts. Answered by [`Outcome::Stat`].
    Stat(FtpPath),
    /// Lines of a listing for the control channel (`STAT path`, `MLSC`). Answered by
    /// [`Outcome::Lines`].
    Lines(FtpPath, ListForm),
    /// Make a directory. [`Outcome::Done`], like all that follow where nothing else is said.
    MakeDir(FtpPath),
    /// Remove an empty directory.
    RemoveDir(FtpPath),
    /// Remove a file.
    Delete(FtpPath),
    /// Remove a tree without following links.
    RemoveTree(FtpPath),
    /// Rename, replacing what is there.
    Rename(FtpPath, FtpPath),
    /// Set permission bits.
    SetMode(FtpPath, u32),
    /// Set the group by name or number.
    SetGroup(FtpPath, String),
    /// Set the modification time.
    SetModified(FtpPath, TimeVal),
    /// Make a symbolic link: target text, then the link.
    Symlink(FtpPath, FtpPath),
    /// What is kept of an upload that broke. Answered by [`Outcome::Held`].
    Held(FtpPath),
    /// Remove what is kept of an upload that broke.
    DropHeld(FtpPath),
    /// Cut a file to a length that is not above its present one.
    Truncate(FtpPath, u64),
    /// Hash a region. Answered by [`Outcome::Checksum`]; [`Event::Hashed`] on the way.
    Checksum {
        /// The file.
        path: FtpPath,
        /// One of the names the backend offers, upper case.
        algorithm: String,
        /// First byte.
        offset: u64,
        /// Number of bytes; `None` to the end.
        length: Option<u64>,
        /// How often to report progress; `None` never.
        markers: Option<Duration>,
    },
}

/// One movement of bytes over the data channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// What is moved.
    pub kind: TransferKind,
    /// How it crosses the network.
    pub channel: Channel,
    /// Interval of 112 performance markers; `None` for none.
    pub perf_every: Option<Duration>,
    /// Interval of 111 restart markers; `None` for none.
    pub restart_every: Option<Duration>,
    /// Tag of the data, in MODE E; the peer sends it whatever is answered.
    pub tag: Option<u64>,
    /// Whether the rest of an upload that fails is to be taken off its connection: clients of plain
    /// FTP look for the reply when they have sent all, those of GridFTP wait for the connection to
    /// break.
    pub drains: bool,
}

impl Transfer {
    /// Makes a transfer without markers.
    pub const fn new(kind: TransferKind, channel: Channel) -> Self {
        Self {
            kind,
            channel,
            perf_every: None,
            restart_every: None,
            tag: None,
            drains: false,
        }
    }

    /// Says whether the server sends the data.
    pub const fn is_sending(&self) -> bool {
        matches!(
            self.kind,
            TransferKind::Retrieve { .. } | TransferKind::List { .. }
        )
    }
}

/// What a transfer moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferKind {
    /// A file, or a region of it, to the peer.
    Retrieve {
        /// The file.
        path: FtpPath,
        /// `ERET P`: offset and length of the region; wire offsets are relative to it.
        region: Option<(u64, Option<u64>)>,
        /// Ranges the receiver already holds, relative to the region.
        held: RangeSet,
    },
    /// A file from the peer.
    Store {
        /// The file.
        path: FtpPath,
        /// How it is opened and where wire offset 0 lies.
        into: Placement,
        /// Ranges the peer says we hold (`REST`), relative to wire offset 0.
        held: RangeSet,
        /// Expected number of bytes (`ALLO`).
        size: Option<u64>,
        /// Modification time to set when complete.
        modified: Option<TimeVal>,
        /// Algorithm (upper case) and digest that the complete file must have.
        checksum: Option<(String, String)>,
    },
    /// A directory listing to the peer.
    List {
        /// The directory or file.
        path: FtpPath,
        /// The form of its lines.
        form: ListForm,
    },
}

/// How a file to be stored is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// `STOR`: a new file in the place of any old one; with ranges held, a continued one.
    Whole,
    /// `ESTO A`: an existing or new file, not truncated, wire offset 0 at this offset.
    At(u64),
    /// `APPE`: wire offset 0 at the present end.
    End,
}

/// The form of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListForm {
    /// `LIST` and `STAT`: like `ls -l`.
    Long,
    /// `NLST`: names.
    Names {
        /// What goes before each name that a pattern matches: the pattern's directory as the client
        /// wrote it, slash included, so that the line is a path to that object (RFC 1123 §4.1.2.7).
        before: Vec<u8>,
    },
    /// `MLSD` and `MLSC`: facts of one directory.
    Facts {
        /// Facts to print.
        facts: FactSet,
        /// Whether the directory is the root as the client sees it, which is its own parent.
        root: bool,
    },
    /// `MLSR`: facts of a whole tree.
    Tree {
        /// Facts to print.
        facts: FactSet,
        /// Whether to go through symbolic links to directories.
        follow: bool,
        /// Whether a directory that cannot be read ends the listing.
        fail: bool,
    },
}

/// How a transfer crosses the network.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Channel {
    /// Transmission mode.
    pub mode: Mode,
    /// Representation type.
    pub ty: Type,
    /// Connections to open per address when sending in MODE E; at least 1.
    pub parallelism: u32,
    /// TCP send buffer in bytes; 0 for the kernel's choice.
    pub send_buffer: u64,
    /// TCP receive buffer in bytes; 0 for the kernel's choice.
    pub receive_buffer: u64,
}

impl Channel {
    /// Makes a channel of one connection with the kernel's buffers and TYPE A, as RFC 959 §5.1 has
    /// it begin.
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            ty: Type::Ascii,
            parallelism: 1,
            send_buffer: 0,
            receive_buffer: 0,
        }
    }
}

impl Default for Channel {
    fn default() -> Self {
        Self::new(Mode::Stream)
    }
}

/// The end of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done, with nothing to tell.
    Done,
    /// The action failed; the reply says how. Only the edge's one table makes such replies. After
    /// an [`Action::Abort`] the session answers 426 whatever this reply says.
    Failed(Reply),
    /// The user is in.
    LoggedIn {
        /// Where the session starts, absolute.
        home: FtpPath,
        /// Lines to add to the 230 reply.
        message: Vec<String>,
    },
    /// Listening at these addresses, one a stripe, as the peer should be told them.
    Listening(Vec<SocketAddr>),
    /// One object.
    Stat(Box<ftp_wire::facts::Entry>),
    /// The last lines of a listing, without line ends; those before came as [`Event::Lines`].
    Lines(Vec<Vec<u8>>),
    /// A digest, lower-case hexadecimal.
    Checksum(String),
    /// Ranges that a restart may build on; none where nothing is kept.
    Held(RangeSet),
    /// The transfer ended well.
    Transferred {
        /// Payload bytes moved.
        bytes: u64,
    },
    /// The tagged transfer ended well, and this crossed.
    Proven(Receipt),
    /// The transfer failed with this reply, and the data connections serve the next one all the
    /// same: what is left on them of this one has a tag to know it by.
    Spared(Reply),
}

/// Progress of an outstanding action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The data connections are there: 150, or 125 when `reused`.
    Opened {
        /// Whether cached connections serve again.
        reused: bool,
    },
    /// 111: ranges safely written since the last such event.
    Received(RangeSet),
    /// 112: bytes moved so far by one stripe.
    Moved {
        /// Wall clock, tenths of a second since 1970.
        at: u64,
        /// Index of the stripe.
        stripe: u32,
        /// Number of stripes.
        stripes: u32,
        /// Bytes of this transfer so far.
        bytes: u64,
    },
    /// Lines of a listing, without line ends; more follow.
    Lines(Vec<Vec<u8>>),
    /// 113: bytes hashed so far.
    Hashed {
        /// Wall clock, tenths of a second since 1970.
        at: u64,
        /// Bytes hashed so far.
        bytes: u64,
    },
}

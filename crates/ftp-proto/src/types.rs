//! Actions of a server session, and the outcomes and events that its caller returns.

use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

use byte_ranges::{Layout, RangeSet};
use ftp_wire::attribute::Attribute;
use ftp_wire::command::{Dcau, Family, Mode, Secret, StackSide, Tag, Type};
use ftp_wire::facts::{FactSet, TimeVal};
use ftp_wire::memory::MemoryLimits;
use ftp_wire::opts::DEFAULT_STRIPE_BLOCK;
use ftp_wire::partial::Partial;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;
use ftp_wire::stored::Stored;
use ftp_wire::waits::Waits;

use crate::modules::{RetrieveModule, StoreModule};
pub use crate::names::Names;
#[cfg(doc)]
use crate::security::Protection;
use crate::security::{DataProtection, Level};

/// Identifies an outstanding action of a server, or a command of a client; its outcome carries it
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// The greeting of a server, which is the reply to no command.
    pub const BANNER: Self = Self(0);
}

/// Work that a session cannot do itself.
///
/// Every path is absolute within the user's tree, normalised, and already inside the session's
/// virtual root; the caller still resolves it safely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Check a name and password. Answered by [`Outcome::LoggedIn`] or [`Outcome::Failed`].
    Login {
        /// The name given by `USER`.
        user: String,
        /// The password given by `PASS`.
        password: Secret,
    },
    /// Log in a user of [`Protection::users`], whose certificate was verified. Answered as
    /// [`Self::Login`].
    LoginCertified {
        /// The name given by `USER`.
        user: String,
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
        /// The protection of the connections, as far as it decides which hosts may connect.
        protection: DataProtection,
        /// The most stripes to listen on, one address each (`SPAS`, where the settings have
        /// stripes); `None` for one address.
        stripes: Option<u32>,
    },
    /// Remember these addresses of the data connections; the transfer connects. Answered by
    /// [`Outcome::Done`].
    ///
    /// Where the settings have stripes, each address is for a stripe of its own, in the order of
    /// their indices; one stripe may serve several if there are more addresses than stripes.
    ///
    /// The session has already refused ports below 1024 and, where neither the settings nor the
    /// protection of the connections allow third-party transfers, hosts other than the peer's.
    Connect(Vec<SocketAddr>, DataProtection),
    /// Move a file or a listing over the data channel. Answered by [`Outcome::Transferred`], by
    /// [`Outcome::Digested`] where a module makes a digest, or by [`Outcome::Proven`] and
    /// [`Outcome::Spared`] where it is tagged.
    Transfer(Box<Transfer>),
    /// Stop the transfer or checksum with this ticket; its own outcome still comes. Not answered
    /// itself.
    Abort(Ticket),
    /// Close data connections, cached or not, and data listeners. Not answered.
    ///
    /// Follows when the data side is used up: after every transfer in MODE S that began, after a
    /// transfer that failed once it had begun, and after an abort. A transfer that fails before
    /// [`Event::Opened`] leaves listener and connections for the next one. [`Self::Listen`] and
    /// [`Self::Connect`] replace the previous data side without this action.
    DropData,
    /// Work on names. Answered as the variant says.
    Names(Names),
    /// Build data connections or files with this stack from now on; `None` for this server's own
    /// choice. Answered by [`Outcome::Done`], or by [`Outcome::Failed`] when the stack is not
    /// allowed or does not parse, which changes nothing.
    ///
    /// The session has closed the previous data side.
    Stack(StackSide, Option<String>),
    /// Measure the transfers from now on, and tell where the time of those since the first such
    /// action went. Answered by [`Outcome::Waits`].
    Waits,
    /// Bound the bytes a second that all data connections of the session send, and as many that
    /// they receive, from now on; `None` for no bound. Not answered, and comes while another action
    /// is outstanding too, for whose data connections it holds at once.
    Rate(Option<NonZero<u64>>),
    /// Follow no symbolic link from now on, and make none. Not answered.
    ///
    /// The session has narrowed its view (`SITE CHROOT`, `SITE RESTRICT`), which it enforces on the
    /// text of paths: a link would lead around that.
    NoLinks,
    /// Authenticate data connections with this credential from now on, PEM in base64; `None` for
    /// that of the session. Answered by [`Outcome::Done`], or by [`Outcome::Failed`] when it cannot
    /// be used, which changes nothing.
    DataCredential(Option<Secret>),
    /// Facts for the log: `SITE CLIENTINFO` and `SITE TASKID`. Not answered.
    Annotate {
        /// `clientinfo` or `taskid`.
        key: &'static str,
        /// The client's text.
        value: String,
    },
}

impl Action {
    /// Says whether it has an outcome.
    pub const fn is_answered(&self) -> bool {
        !matches!(
            self,
            Self::Abort(_) | Self::DropData | Self::Rate(_) | Self::NoLinks | Self::Annotate { .. }
        )
    }
}

/// One movement of bytes over the data channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// The file or the listing, and its direction.
    pub kind: TransferKind,
    /// Parameters of the data channel.
    pub channel: Channel,
    /// Interval of 112 performance markers; `None` for none.
    pub perf_every: Option<Duration>,
    /// Interval of 111 restart markers; `None` for none.
    pub restart_every: Option<Duration>,
    /// Tag of the data; in MODE E the peer may send such data before the reply, and in MODE S a
    /// trailer follows it.
    pub tag: Option<Tag>,
    /// Whether to read and discard the rest of a failed upload: clients of plain FTP read the reply
    /// after all data is sent, clients of GridFTP wait for the connection to break.
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

    /// Says whether a module makes the data, or takes it.
    pub const fn is_of_module(&self) -> bool {
        matches!(
            self.kind,
            TransferKind::RetrieveBy { .. }
                | TransferKind::StoreBy { .. }
                | TransferKind::RetrieveMemory { .. }
                | TransferKind::StoreMemory { .. }
                | TransferKind::RetrieveFiles { .. }
                | TransferKind::StoreFiles { .. }
        )
    }

    /// Says whether the data is that of a file.
    pub const fn is_file(&self) -> bool {
        matches!(
            self.kind,
            TransferKind::Retrieve { .. } | TransferKind::Store { .. }
        )
    }

    /// Says whether the server sends the data.
    pub const fn is_sending(&self) -> bool {
        matches!(
            self.kind,
            TransferKind::Retrieve { .. }
                | TransferKind::RetrieveBy { .. }
                | TransferKind::RetrieveMemory { .. }
                | TransferKind::RetrieveFiles { .. }
                | TransferKind::List { .. }
        )
    }
}

/// The file or the listing of a transfer, and its direction.
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
    /// The output of a module, to the peer.
    RetrieveBy {
        /// The file or directory.
        path: FtpPath,
        /// The module.
        module: RetrieveModule,
    },
    /// A file from the peer.
    Store {
        /// The file.
        path: FtpPath,
        /// The way it is opened, and the position of wire offset 0.
        into: Placement,
        /// Ranges held here according to the peer (`REST`), relative to wire offset 0.
        held: RangeSet,
        /// Expected number of bytes (`ALLO`).
        size: Option<u64>,
        /// Modification time to set when complete.
        modified: Option<TimeVal>,
        /// Algorithm (upper case) and digest that the complete file must have.
        checksum: Option<(String, String)>,
    },
    /// The input of a module, from the peer.
    StoreBy {
        /// The file.
        path: FtpPath,
        /// The module.
        module: StoreModule,
        /// Expected number of bytes (`ALLO`).
        size: Option<u64>,
    },
    /// Small files of one directory to the peer, one behind the other; those that are not small are
    /// left out.
    RetrieveFiles {
        /// The directory.
        dir: FtpPath,
        /// Their names in it, which are neither empty nor `.` nor `..` and have no slash.
        names: Vec<Vec<u8>>,
        /// Whether their modification times and permission bits are told.
        facts: bool,
    },
    /// Small files of one directory from the peer, one behind the other.
    StoreFiles {
        /// The directory.
        dir: FtpPath,
        /// Their number.
        count: usize,
        /// Whether they may get modification times of the client's choice.
        times: bool,
        /// Whether they may get permission bits of the client's choice.
        modes: bool,
    },
    /// Bytes of memory, to the peer, until one of the bounds is reached.
    RetrieveMemory {
        /// The object to which a user without access is refused.
        path: FtpPath,
        /// The bounds.
        most: MemoryLimits,
    },
    /// Bytes from the peer that are discarded, within these bounds.
    StoreMemory {
        /// The object to which a user without access is refused.
        path: FtpPath,
        /// The bounds.
        most: MemoryLimits,
    },
    /// A directory listing to the peer.
    List {
        /// The directory or file.
        path: FtpPath,
        /// The form of its lines.
        form: ListForm,
    },
}

/// The way a file to be stored is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// `STOR`: a new file that replaces any old one; with ranges held, a continued one.
    Whole,
    /// `STOR` with `x.exclusive=1`: as `Whole`, and refused where something has the name, at the
    /// beginning or at the end.
    New,
    /// `ESTO A`: an existing or new file, not truncated, wire offset 0 at this offset.
    At(u64),
    /// `APPE`: wire offset 0 at the present end.
    End,
}

impl Placement {
    /// Whether the stored bytes are a whole file.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::New)
    }
}

/// The form of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListForm {
    /// `LIST` and `STAT`: like `ls -l`.
    Long,
    /// `NLST`: names.
    Names {
        /// Prefix of each name that matches a pattern: the pattern's directory as the client wrote
        /// it, slash included, so that the line is a path to that object (RFC 1123 §4.1.2.7).
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
        /// Whether to follow symbolic links to directories.
        follow: bool,
        /// Whether a directory that cannot be read ends the listing.
        fail: bool,
    },
}

/// The layout of stripes until `OPTS RETR` sets one: blocks of 1 MiB, as in GCT.
pub const DEFAULT_LAYOUT: Layout = match NonZero::new(DEFAULT_STRIPE_BLOCK) {
    Some(block) => Layout::Blocked(block),
    None => Layout::Partitioned,
};

/// Parameters of a data channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Channel {
    /// Transmission mode.
    pub mode: Mode,
    /// Representation type.
    pub ty: Type,
    /// Connections to open per address when sending in MODE E; at least 1.
    pub parallelism: u32,
    /// Connections of which all may carry data later; not below `parallelism`.
    pub most_parallelism: u32,
    /// The stripe of each byte when sending to several addresses in MODE E, where the settings
    /// have stripes.
    pub layout: Layout,
    /// TCP send buffer in bytes; 0 for the kernel's choice.
    pub send_buffer: u64,
    /// TCP receive buffer in bytes; 0 for the kernel's choice.
    pub receive_buffer: u64,
    /// Protection of its connections.
    pub protection: DataProtection,
}

impl Channel {
    /// Makes a channel of one connection with the kernel's buffers and TYPE A, the defaults of
    /// RFC 959 §5.1.
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            ty: Type::Ascii,
            parallelism: 1,
            most_parallelism: 1,
            layout: DEFAULT_LAYOUT,
            send_buffer: 0,
            receive_buffer: 0,
            protection: DataProtection::new(Dcau::None, Level::Clear),
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
    /// Success without a value.
    Done,
    /// The action failed; the reply says how. Only the caller's table of errors makes such replies.
    /// After an [`Action::Abort`] the session answers 426 whatever this reply says, for a transfer
    /// in its words where its code is that.
    Failed(Reply),
    /// The login succeeded.
    LoggedIn {
        /// The user, where it is not the name given by `USER`.
        user: Option<String>,
        /// The initial working directory, absolute.
        home: FtpPath,
        /// Lines to add to the 230 reply.
        message: Vec<String>,
    },
    /// Listening at these addresses, one a stripe in the order of their indices, in the form for the
    /// peer. Replies to commands for one connection name the first.
    Listening(Vec<SocketAddr>),
    /// The facts of one object.
    Stat(Box<ftp_wire::facts::Entry>),
    /// The last lines of a listing, without line ends; the earlier ones were [`Event::Lines`].
    Lines(Vec<Vec<u8>>),
    /// A digest, lower-case hexadecimal.
    Checksum(String),
    /// Ranges kept for a restart; none where nothing is kept.
    Held(RangeSet),
    /// The partial files that are kept in a directory and below it, at most
    /// [`MAX_PARTIALS`](ftp_wire::partial::MAX_PARTIALS), and whether others are.
    Partials(Vec<Partial>, bool),
    /// Where the time of the transfers went.
    Waits(Box<Waits>),
    /// The extended attributes of a file or a directory.
    Attributes(Vec<Attribute>),
    /// Free space, in bytes.
    Free(u64),
    /// Whether the data of a file is at hand; if not, it is being retrieved from an archive.
    Staged(bool),
    /// The transfer ended well.
    Transferred {
        /// Payload bytes moved.
        bytes: u64,
    },
    /// The transfer of a module ended well, with the digest of its data.
    Digested {
        /// Payload bytes moved.
        bytes: u64,
        /// The algorithm, upper case.
        algorithm: String,
        /// The digest, lower-case hexadecimal.
        digest: String,
    },
    /// The tagged transfer ended well, with the receipt of its data.
    Proven(Receipt),
    /// Many small files arrived, and these are stored.
    Unpacked(Stored),
    /// The transfer failed with this reply, and the data connections serve the next one: the rest
    /// of this transfer's data is known by its tag.
    Spared(Reply),
}

/// Progress of an outstanding action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The storage takes long to open the file: the reply of the transfer begins, so that the peer
    /// sees a sign of life.
    Waiting,
    /// The data connections are open: 150, or 125 when `reused`.
    Opened {
        /// Whether cached connections serve again.
        reused: bool,
    },
    /// 111: ranges safely written since the last such event, those of all stripes together.
    Received(RangeSet),
    /// 112: bytes moved so far by one stripe.
    Moved {
        /// Wall clock, tenths of a second since 1970.
        at: u64,
        /// Index of the stripe.
        stripe: u32,
        /// Number of stripes.
        stripes: u32,
        /// Bytes of this transfer and stripe so far.
        bytes: u64,
        /// Where the time of this transfer has gone so far, where the client is to know.
        waits: Option<Box<Waits>>,
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

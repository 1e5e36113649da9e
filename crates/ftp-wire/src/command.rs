//! `Command`: one variant per verb, in the order the specifications list them.

use std::net::SocketAddr;
use std::num::NonZero;

use byte_ranges::RangeSet;
use zeroize::Zeroizing;

use crate::attribute::Attribute;
use crate::facts::TimeVal;
use crate::opts::Opts;
use crate::path::FtpPath;
pub use crate::tagged::Tag;

/// One command of the control channel, parsed.
///
/// Arguments are values: addresses, ranges and times are checked, paths are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    // RFC 959 §4.1.1: access control.
    /// `USER name`.
    User(String),
    /// `PASS password`; never printed.
    Pass(Secret),
    /// `ACCT account`.
    Acct(Secret),
    /// `CWD path`.
    Cwd(FtpPath),
    /// `CDUP`.
    Cdup,
    /// `QUIT`.
    Quit,

    // RFC 959 §4.1.2, RFC 2428, GFD.20: transfer parameters.
    /// `PORT h,h,h,h,p,p`.
    Port(SocketAddr),
    /// `EPRT |af|addr|port|`.
    Eprt(SocketAddr),
    /// `SPOR addr addr …`, one address a stripe.
    Spor(Vec<SocketAddr>),
    /// `PASV`.
    Pasv,
    /// `EPSV [1|2|ALL]`.
    Epsv(Epsv),
    /// `SPAS [1|2]`; the family, where the command names one.
    Spas(Option<Family>),
    /// `TYPE A|I|…`.
    Type(Type),
    /// `STRU F`.
    Stru(char),
    /// `MODE S|E`.
    Mode(Mode),

    // RFC 959 §4.1.3, GFD.20: transfers.
    /// `RETR path`.
    Retr(FtpPath),
    /// `STOR path`.
    Stor(FtpPath),
    /// `APPE path`.
    Appe(FtpPath),
    /// `ERET P offset length path` or `ERET module="args" path`.
    Eret(Eret, FtpPath),
    /// `ESTO A offset path` or `ESTO module="args" path`.
    Esto(Esto, FtpPath),
    /// `ALLO bytes [R record]`.
    Allo(u64),
    /// `REST offset` or `REST a-b,c-d`.
    Rest(Restart),
    /// `ABOR`.
    Abor,
    /// `LIST [path]`; leading `-` options are dropped.
    List(Option<FtpPath>),
    /// `LIST -a`, hidden names included; only clients write it, since parsing drops the options.
    ListAll(FtpPath),
    /// `NLST [path]`.
    Nlst(Option<FtpPath>),
    /// `MLSD [path]` (RFC 3659 §7).
    Mlsd(Option<FtpPath>),
    /// `MLSR [path]`: recursive `MLSD`.
    Mlsr(Option<FtpPath>),
    /// `MLST [path]`.
    Mlst(Option<FtpPath>),
    /// `MLSC [path]`: `MLSD` on the control channel.
    Mlsc(Option<FtpPath>),

    // Names.
    /// `RNFR path`.
    Rnfr(FtpPath),
    /// `RNTO path`.
    Rnto(FtpPath),
    /// `DELE path`.
    Dele(FtpPath),
    /// `RMD path`.
    Rmd(FtpPath),
    /// `MKD path`.
    Mkd(FtpPath),
    /// `PWD`.
    Pwd,
    /// `SIZE path` (RFC 3659 §4).
    Size(FtpPath),
    /// `MDTM path` (RFC 3659 §3).
    Mdtm(FtpPath),
    /// `MFMT time path`.
    Mfmt(TimeVal, FtpPath),
    /// `CKSM algorithm offset length path`; a length of −1 is `None`, to the end of the file.
    Cksm {
        /// The algorithm's name as sent.
        algorithm: String,
        /// First byte to hash.
        offset: u64,
        /// Number of bytes to hash; `None` to the end.
        length: Option<u64>,
        /// The file.
        path: FtpPath,
    },
    /// `SCKS algorithm digest`: the digest the next stored file must have.
    Scks {
        /// The algorithm's name as sent.
        algorithm: String,
        /// The expected digest, hexadecimal, lower case.
        digest: String,
    },

    /// `AVBL path`: the free space there (draft-peterson-streamlined-ftp-command-extensions §4).
    Avbl(FtpPath),

    // RFC 959 §4.1.3, RFC 2389, RFC 2640: service.
    /// `HELP [verb]`.
    Help(Option<String>),
    /// `NOOP`.
    Noop,
    /// `FEAT`.
    Feat,
    /// `OPTS command params`.
    Opts(Opts),
    /// `SYST`.
    Syst,
    /// `STAT [path]`.
    Stat(Option<FtpPath>),
    /// `LANG [tag]`.
    Lang(Option<String>),
    /// `SBUF bytes`: TCP buffers of data connections, both directions; 0 for the kernel's choice.
    Sbuf(u64),
    /// `TREV event interval`: the seconds between markers.
    Trev(Event, u32),
    /// `SITE …`.
    Site(SiteCommand),

    /// A line as it is, of a verb that has no variant here; only clients write it.
    Raw(FtpPath),

    // RFC 2228, GFD.20: security.
    /// `AUTH mechanism`.
    Auth(String),
    /// `ADAT base64`.
    Adat(Secret),
    /// `PBSZ bytes`.
    Pbsz(u64),
    /// `PROT C|S|E|P`.
    Prot(char),
    /// `DCAU N|A|S subject`.
    Dcau(Dcau),
    /// `DCSC P base64|D`.
    Dcsc(Secret),
}

/// A subcommand of `SITE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteCommand {
    /// `SITE HELP [name]`.
    Help(Option<String>),
    /// A receive or send buffer size in bytes, under any of its names.
    Buffer(BufferSide, u64),
    /// `SITE CHMOD mode path`.
    Chmod(u32, FtpPath),
    /// `SITE CHGRP group path`.
    Chgrp(String, FtpPath),
    /// `SITE UTIME time path`.
    Utime(TimeVal, FtpPath),
    /// `SITE SYMLINKFROM target`; the target is kept as sent and may lie outside the tree.
    SymlinkFrom(FtpPath),
    /// `SITE SYMLINKTO link`.
    SymlinkTo(FtpPath),
    /// `SITE SYMLINK target link`: both in one command, as GCT's client library sends it.
    Symlink(FtpPath, FtpPath),
    /// `SITE RDEL path`: remove a tree.
    Rdel(FtpPath),
    /// `SITE HELD path`, ours: the ranges kept of an interrupted upload, or the partial files of a
    /// directory.
    Held(FtpPath),
    /// `SITE DELHELD path`, ours: remove the partial file of an interrupted upload.
    DropHeld(FtpPath),
    /// `SITE STAGE timeout path`: retrieve a file from an archive, and wait so many seconds for it.
    Stage(u64, FtpPath),
    /// `SITE TRNC length path`.
    Trnc(u64, FtpPath),
    /// `SITE XATTR path`, ours: list the extended attributes of a file or a directory.
    Xattr(FtpPath),
    /// `SITE SETXATTR attribute path`, ours: set one of them.
    SetXattr(Attribute, FtpPath),
    /// `SITE WHOAMI`.
    Whoami,
    /// `SITE WAITS`, ours: measure the transfers of the session from now on, and tell where their
    /// time went ([`Waits`](crate::waits::Waits)).
    Waits,
    /// `SITE RATE bytes` or `SITE RATE off`, ours: the bytes a second that all data connections of
    /// the session send, and as many that they receive; `None` for no bound.
    Rate(Option<NonZero<u64>>),
    /// `SITE VERSION`.
    Version,
    /// `SITE CLIENTINFO k="v";…`.
    ClientInfo(String),
    /// `SITE TASKID id`.
    TaskId(String),
    /// `SITE STORATTR k=v;…`.
    StorAttr(StorAttr),
    /// `SITE SETNETSTACK` or `SITE SETDISKSTACK`: the drivers of data connections or of files,
    /// bottom first; `None` for `default`.
    Stack(StackSide, Option<String>),
    /// `SITE RESTRICT paths`.
    Restrict(String),
    /// `SITE CHROOT path`.
    Chroot(FtpPath),
}

/// Attributes that `SITE STORATTR` gives the next stored file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StorAttr {
    /// Modification time to set (`modify=`).
    pub modified: Option<TimeVal>,
    /// Algorithm and digest the file must have (`x.checksum.<alg>=`).
    pub checksum: Option<(String, String)>,
    /// Whether the file replaces nothing (`x.exclusive=1`), ours: it is refused where something has
    /// its name, at the beginning or at the end. `x.exclusive=0` takes that back.
    pub exclusive: Option<bool>,
}

impl StorAttr {
    /// The attribute of a file that replaces nothing.
    pub fn exclusive() -> Self {
        Self {
            exclusive: Some(true),
            ..Self::default()
        }
    }
}

/// The use of a stack: `SITE SETNETSTACK` or `SITE SETDISKSTACK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackSide {
    /// Data connections.
    Net,
    /// Files.
    Disk,
}

/// The socket buffer that a `SITE` command sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferSide {
    /// Both (`SBUF`, `BUFSIZE`).
    Both,
    /// Receiving (`RETRBUFSIZE`, `RBUFSZ`, `RBUFSIZ`).
    Receive,
    /// Sending (`STORBUFSIZE`, `SBUFSZ`, `SBUFSIZ`).
    Send,
}

/// Representation type (RFC 959 §3.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Type {
    /// `A`: lines end in CRLF on the wire; the default of a session (RFC 959 §5.1).
    #[default]
    Ascii,
    /// `I`: bytes as they are.
    Image,
}

/// Transmission mode (RFC 959 §3.4, GFD.20 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// `S`: one connection, whose end is the end of the file.
    #[default]
    Stream,
    /// `E`: extended blocks with offsets over any number of connections.
    Extended,
}

/// Address family as RFC 2428 numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// 1.
    V4,
    /// 2.
    V6,
}

/// The argument of `EPSV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epsv {
    /// None: the family of the control connection.
    Any,
    /// `1` or `2`.
    Family(Family),
    /// `ALL`: no PASV, PORT or EPRT will follow.
    All,
}

/// The operation of `ERET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eret {
    /// `P offset length`: the region as a file of its own, with offsets relative to it.
    Partial {
        /// First byte.
        offset: u64,
        /// Number of bytes; `None` (−1 on the wire) to the end.
        length: Option<u64>,
    },
    /// `tag=n` or `digest=n`, ours: as `RETR` or as `P`, and the tag precedes the data in MODE E.
    Tagged {
        /// Tag of the data.
        tag: Tag,
        /// First byte and number of bytes; `None` for the whole file.
        region: Option<(u64, Option<u64>)>,
    },
    /// `name="args"`: another module, as [`ModuleCall`](crate::module::ModuleCall) reads it.
    Module(String),
}

/// The operation of `ESTO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Esto {
    /// `A offset`: every offset on the wire is moved up by it.
    Adjusted {
        /// Added to every block's offset.
        offset: u64,
    },
    /// `tag=n` or `digest=n`, ours: in MODE E only data preceded by the tag is stored, and it may
    /// arrive before the 150.
    Tagged {
        /// Tag of the data.
        tag: Tag,
        /// Region of the file.
        spot: Spot,
    },
    /// `name="args"`: another module, as [`ModuleCall`](crate::module::ModuleCall) reads it.
    Module(String),
}

/// The region of the file that a tagged store writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// As `STOR`: the whole file.
    Whole,
    /// As `ALLO` and `STOR`: the whole file, of this number of bytes.
    Sized(u64),
    /// As `ESTO A`: every offset on the wire is moved up by this one.
    At(u64),
    /// As `APPE`: behind the present end.
    End,
}

impl Command {
    /// Retrieves a file or, where `region` gives them, a number of bytes from an offset on.
    ///
    /// `tag` needs a server with [`StorTagged`](crate::feat::Feature::StorTagged). A region without
    /// a length ends at the largest offset: a length of −1 ends a session of the Globus server.
    pub fn retrieve(path: FtpPath, region: Option<(u64, Option<u64>)>, tag: Option<Tag>) -> Self {
        let bounded = |(offset, length): (u64, Option<u64>)| {
            let most = (u64::MAX >> 1).saturating_sub(offset);
            (offset, Some(length.unwrap_or(most)))
        };
        match (tag, region.map(bounded)) {
            (Some(tag), region) => Self::Eret(Eret::Tagged { tag, region }, path),
            (None, None) => Self::Retr(path),
            (None, Some((offset, length))) => Self::Eret(Eret::Partial { offset, length }, path),
        }
    }

    /// Stores the region `spot` of a file.
    ///
    /// `tag` needs a server with [`StorTagged`](crate::feat::Feature::StorTagged).
    pub fn store(path: FtpPath, spot: Spot, tag: Option<Tag>) -> Self {
        match (tag, spot) {
            (Some(tag), spot) => Self::Esto(Esto::Tagged { tag, spot }, path),
            (None, Spot::Whole | Spot::Sized(_)) => Self::Stor(path),
            (None, Spot::At(offset)) => Self::Esto(Esto::Adjusted { offset }, path),
            (None, Spot::End) => Self::Appe(path),
        }
    }
}

/// The argument of `REST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restart {
    /// `REST n`: the receiver holds the bytes before `n`.
    Offset(u64),
    /// `REST a-b,c-d`: the receiver holds these ranges, ends exclusive.
    Ranges(RangeSet),
}

/// The kind of marker that `TREV` requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// 112 performance markers.
    Perf,
    /// 111 restart markers.
    Restart,
}

/// Data channel authentication (GFD.20 §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dcau {
    /// `N`: none.
    None,
    /// `A`: the identity of the control channel.
    Own,
    /// `S subject`.
    Subject(String),
}

/// A password, an account, a token or a key: never printed, and overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text, to be compared or sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

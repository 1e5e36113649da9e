//! `Settings`: the choices of a server for all its sessions.

use std::time::Duration;

use ftp_wire::memory::MemoryLimits;

/// Choices that every session of one server shares.
///
/// All of it is read-only for a session, so one value behind an `Arc` serves thousands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Lines of the 220 greeting; never empty.
    pub banner: Vec<String>,
    /// The answer to `SITE VERSION`.
    pub version: String,
    /// Name of the storage backend for FEAT (`DSI name`); `None` for no such line.
    pub dsi: Option<String>,
    /// Checksum algorithms in upper case and their costs, 1 (cheap) to 20.
    pub checksums: Vec<(String, u8)>,
    /// Commands that are refused, in upper case: `STOR`, `SITE RDEL`.
    pub denied: Vec<String>,
    /// Whether `AUTH TLS` is offered.
    pub tls: bool,
    /// Whether `AUTH GSSAPI` is offered.
    pub gssapi: bool,
    /// Whether a session that began in clear takes credentials for data connections by `DCSC`, as
    /// behind `AUTH GSSAPI`: for control connections that belong to one person, such as ssh's.
    pub dcsc: bool,
    /// Whether clear data may go to hosts other than the peer's, for some users at least.
    pub third_party: bool,
    /// Whether markers are sent in MODE S and on sends too.
    pub always_markers: bool,
    /// Interval of 112 markers unless `TREV` changes it; `None` for none.
    pub perf_every: Option<Duration>,
    /// Interval of 111 markers unless `TREV` changes it; `None` for none.
    pub restart_every: Option<Duration>,
    /// Whether transfers may be tagged (`ESTO tag=`), so that data may be sent before the reply; with
    /// [`stripes`](Self::stripes), those over several of them as well.
    pub tags: bool,
    /// Whether broken uploads are kept apart from the final name (`SITE HELD`).
    pub keeps: bool,
    /// Whether modification times can be set (`MFMT`).
    pub times: bool,
    /// Whether a stored file can be published so that it replaces nothing (`SITE STORATTR
    /// x.exclusive=1`).
    pub exclusive: bool,
    /// Whether the reply to a stored file tells that it is on the medium.
    pub durable: bool,
    /// The boot of the machine in which stored files wait to be written to the medium (`BOOT`).
    pub boot: Option<u128>,
    /// Whether free space is told (`AVBL`).
    pub space: bool,
    /// Whether files and directories have extended attributes (`SITE XATTR`).
    pub attributes: bool,
    /// The most stripes of a transfer, of a server whose data connections are on several hosts:
    /// `SPAS` lists up to that many addresses, and `StripeLayout` takes effect. `None` for a server
    /// that has all of them itself.
    pub stripes: Option<u32>,
    /// Whether these stripes store a file together; if not, `SPAS` lists one unless `OPTS SPAS
    /// Command=RETR;` asks for those that send.
    pub shares_uploads: bool,
    /// Whether all data connections are on other hosts than the control connection: the reply to
    /// `EPSV`, which names no host by RFC 2428 §3, has the address for clients of GridFTP then, and
    /// is a refusal for others.
    pub data_elsewhere: bool,
    /// Whether data connections may be over UDT (`SITE SETNETSTACK udt`).
    pub udt: bool,
    /// Whether a sender changes its congestion control on a path that loses packets.
    pub adapts: bool,
    /// Whether the bytes a second of data connections can be bounded (`SITE RATE`).
    pub rates: bool,
    /// Bounds of transfers from and to memory (`ERET memory=`, `ESTO memory=`); `None` for none of
    /// them.
    pub memory: Option<MemoryLimits>,
    /// Whether many small files may share a command (`ERET files=`, `ESTO files=`): the
    /// storage has all of them at hand.
    pub files: bool,
    /// Bounds on the memory and the waits of a session that its peer chooses.
    pub limits: Limits,
}

/// Bounds on the memory and the waits of a session that its peer chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Commands that may wait while another runs.
    pub queued_commands: usize,
    /// Bytes those commands may hold together.
    pub queued_bytes: usize,
    /// Commands that may wait while a password is verified, of a peer not yet known.
    pub queued_before_login: usize,
    /// Bytes those may hold together, the last of them not counted.
    pub queued_bytes_before_login: usize,
    /// Commands of any kind before login before the session ends.
    pub commands_before_login: u32,
    /// Time from the greeting to the end of the login.
    pub login: Duration,
    /// Time without a command while none runs.
    pub idle: Duration,
    /// Refused logins before the session ends.
    pub refused_logins: u32,
    /// Bad commands before login before the session ends.
    pub errors_before_login: u32,
    /// Most connections a client may ask for in one transfer and direction.
    pub parallelism: u32,
    /// Most addresses of one `SPOR`.
    pub stripes: usize,
    /// Smallest block of a stripe, in bytes: each costs a header and a system call.
    pub stripe_block: u64,
    /// Largest TCP buffer a client may ask for, in bytes.
    pub buffer: u64,
}

/// Bounds of the commands that wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) commands: usize,
    pub(super) bytes: usize,
}

impl Limits {
    /// The bounds of the queue before or after login.
    pub(super) const fn queued(&self, logged_in: bool) -> Bounds {
        if logged_in {
            Bounds {
                commands: self.queued_commands,
                bytes: self.queued_bytes,
            }
        } else {
            Bounds {
                commands: self.queued_before_login,
                bytes: self.queued_bytes_before_login,
            }
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queued_commands: 1000,
            queued_bytes: 48 * 1024,
            queued_before_login: 32,
            queued_bytes_before_login: 4096,
            commands_before_login: 100,
            login: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            refused_logins: 4,
            errors_before_login: 32,
            parallelism: 64,
            stripes: 32,
            stripe_block: 4096,
            buffer: 64 * 1024 * 1024,
        }
    }
}

impl Settings {
    /// Makes settings with the usual greeting and defaults.
    pub fn new(host: &str, version: &str) -> Self {
        Self {
            banner: vec![format!("{host} GridFTP Server {version} ready.")],
            version: version.to_owned(),
            dsi: None,
            checksums: Vec::new(),
            denied: Vec::new(),
            tls: false,
            gssapi: false,
            dcsc: false,
            third_party: false,
            always_markers: false,
            perf_every: Some(Duration::from_secs(5)),
            restart_every: Some(Duration::from_secs(5)),
            tags: true,
            keeps: false,
            times: true,
            exclusive: false,
            durable: false,
            boot: None,
            space: false,
            attributes: false,
            stripes: None,
            shares_uploads: true,
            data_elsewhere: false,
            udt: false,
            adapts: false,
            rates: false,
            memory: None,
            files: false,
            limits: Limits::default(),
        }
    }

    /// Says whether the command `verb` (`STOR`, or `SITE RDEL`) is refused.
    pub(crate) fn denies(&self, verb: &str) -> bool {
        self.denied.iter().any(|d| d.eq_ignore_ascii_case(verb))
    }

    /// Says whether a client may set modification times, as FEAT tells it.
    pub(crate) fn sets_times(&self) -> bool {
        self.times && !self.denies("MFMT")
    }

    /// Says whether many small files may share a command. Their data is tagged, and stripes are for
    /// files.
    pub(crate) fn offers_files(&self) -> bool {
        self.files && self.tags && self.stripes.is_none()
    }

    /// Gives the offered spelling of a checksum algorithm, which a peer writes in any case and with
    /// or without hyphens (`SHA-256`).
    pub(crate) fn checksum(&self, name: &str) -> Option<&str> {
        let letters = |name: &str| name.replace('-', "");
        let wanted = letters(name);
        let mut known = self.checksums.iter().map(|(known, _)| known.as_str());
        known.find(|known| letters(known).eq_ignore_ascii_case(&wanted))
    }
}

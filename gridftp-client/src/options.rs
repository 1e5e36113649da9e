//! `Options`: the choices of a caller; the defaults are the fast and safe ones.
//!
//! Each field has a setter of its name, for chains:
//!
//! ```
//! use gridftp_client::options::{ConnectOptions, CopyOptions, Level, Verify};
//!
//! let connect = ConnectOptions::default().protect(Level::Clear);
//! let options = CopyOptions::default().connect(connect).recursive(true).verify(Verify::Cheapest);
//! assert!(options.recursive && options.connect.protect == Some(Level::Clear));
//! ```

mod setters;

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

pub use byte_ranges::Layout;
pub use ftp_proto::security::Level;
use ftp_wire::command::Mode;
pub use ftp_wire::command::{Dcau, Family};
use gridftp_dsi::types::ChecksumAlgorithm;
pub use gsi::exchange::Delegation;
pub use gsi::host::Names;
pub use xio::tls::{Identity, Roots};
pub use xio_core::PortRange;

pub use crate::access::Access;
pub use crate::choice::Choice;
pub use crate::grid::{DataCredential, GridOptions};
pub use crate::links::Links;
pub use crate::manner::{Compare, Manner};
pub use crate::rate_limit::RateLimit;
pub use crate::web::Proxies;

/// Options of a session with a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Transmission mode; `None` takes MODE E where the server has it.
    pub mode: Option<Mode>,
    /// Longest wait for a connection, for the greeting, and for the login to end.
    pub connect_within: Duration,
    /// Longest wait for the reply to a command that moves no data.
    pub reply_within: Duration,
    /// Longest time in which a transfer may move nothing. Behind its end a server may leave the last
    /// bytes unread for twice as long, and for a minute at least.
    pub stall: Duration,
    /// Longest wait for the server to connect to us before it is asked for a listing, to see
    /// whether it can.
    pub reach_within: Duration,
    /// TCP buffer of data connections on both ends, in bytes; `None` leaves it to the kernels.
    pub tcp_buffer: Option<u64>,
    /// Size of the blocks that are sent in MODE E, in bytes.
    pub block_size: Option<u64>,
    /// Stack of the data connections, bottom first; servers are told it unless it is `tcp` alone:
    /// options of TCP are those of our end.
    pub stack: String,
    /// Stack that servers put over their files, `file` at its bottom; `None` for plain files.
    pub disk_stack: Option<String>,
    /// Whether the address in a PASV reply is used although it is not that of the server's control
    /// connection, and the hosts that SPAS tells may connect to us. Off, such an address is replaced
    /// unless the server has data nodes: a server must not aim us at third parties.
    pub trust_pasv: bool,
    /// Password sent with `anonymous`.
    pub anonymous_password: String,
    /// Path of `gridftp-server` on hosts that are reached through ssh; `None` looks in their
    /// `PATH`, and then for the entry of a Globus server.
    pub remote_program: Option<String>,
    /// Protection of control connections.
    pub security: Security,
    /// Protection of data connections; `None` has them private where the control connection is
    /// protected, by ssh too, and clear elsewhere. There is no fall-back to less.
    pub protect: Option<Level>,
    /// The authorities that vouch for servers.
    pub roots: Roots,
    /// The certificate for servers that ask for one.
    pub identity: Option<Identity>,
    /// Grid security, of `gsiftp://` and of data behind ssh.
    pub grid: GridOptions,
    /// Family of the addresses of servers; `None` takes the first address that answers.
    pub family: Option<Family>,
    /// The proxies on the way to web servers.
    pub proxies: Proxies,
    /// Ports to listen at for data connections of servers; `None` leaves them to the kernel.
    pub data_ports: Option<PortRange>,
    /// Ports to connect from to servers that listen for data connections; `None` leaves them to the
    /// kernel.
    pub source_ports: Option<PortRange>,
    /// Address to tell servers that connect to this end, as of the gateway before it; `None` takes
    /// its own.
    pub data_address: Option<IpAddr>,
    /// Bound on the bytes a second of data connections; those of all sessions with a clone of it
    /// together. Each copy between two servers keeps to it by itself.
    pub rate_limit: Option<RateLimit>,
}

/// Protection of a control connection. A server that cannot have it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Security {
    /// Grid security for `gsiftp://`; TLS for `ftps://`, and for `ftp://` where a password would
    /// cross a network or the other options need it; else none.
    #[default]
    Auto,
    /// None: names, passwords and data go in clear text.
    None,
    /// TLS by `AUTH TLS` (RFC 4217); for `ftps://` at port 990 from the first byte on.
    Tls,
    /// TLS from the first byte on, before the greeting.
    Implicit,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            mode: None,
            connect_within: Duration::from_secs(30),
            reply_within: Duration::from_secs(120),
            stall: Duration::from_secs(120),
            reach_within: Duration::from_secs(5),
            tcp_buffer: None,
            block_size: None,
            stack: "tcp".to_owned(),
            disk_stack: None,
            trust_pasv: false,
            anonymous_password: "gridftp-cp@".to_owned(),
            remote_program: None,
            security: Security::Auto,
            protect: None,
            roots: Roots::system(),
            identity: None,
            grid: GridOptions::default(),
            family: None,
            proxies: Proxies::default(),
            data_ports: None,
            source_ports: None,
            data_address: None,
            rate_limit: None,
        }
    }
}

/// The files whose stored bytes outlive a run, for the next one to go on with; of downloads those that
/// a digest of the server proves, or whose source has not changed for an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Resume {
    /// Those of more than 64 MiB.
    #[default]
    Large,
    /// All. Of a small download, too, the received bytes are recorded once a second.
    All,
    /// None: each run begins anew, with the finished files of a tree too.
    Never,
}

impl Resume {
    /// Says whether a file of `size` bytes is continued.
    pub(crate) fn takes(self, size: u64) -> bool {
        match self {
            Self::Large => size > (64 << 20),
            Self::All => size > 0,
            Self::Never => false,
        }
    }
}

/// The parts to copy, and the way.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Options of the sessions with servers.
    pub connect: ConnectOptions,
    /// Data connections of one file in MODE E, to each node where a server has several; `None`
    /// chooses by size, distance and nodes, and by the rate that more or fewer had.
    pub parallel: Option<u32>,
    /// Most data connections of one file in MODE E, to each node where a server has several: at its
    /// begin, whatever served best before, and while it runs. More than 16 are never chosen. It
    /// bounds [`parallel`](field@Self::parallel) too.
    pub max_parallel: Option<NonZero<u32>>,
    /// Most stripes of one file of 64 MiB or more in MODE E, that is hosts of a server that take
    /// part in it; `None` for all, 1 for none. A Globus server that receives from another one takes
    /// part with all.
    pub stripes: Option<NonZero<u32>>,
    /// The parts of a file that the stripes of a source send; `None` for the server's choice. An
    /// upload deals blocks to the stripes as they take them.
    pub stripe_layout: Option<Layout>,
    /// Control connections, that is files at once; `None` chooses by the number of files, and in
    /// MODE S by the distance, too: up to 32 for a server 48 ms away. From 2 ms on it is changed by the
    /// rate that more or fewer had.
    pub concurrency: Option<u32>,
    /// Most files at once: at the begin of a copy, whatever served best before, and while it runs.
    /// More than 16 in MODE E, and 32 in MODE S, are never chosen. It bounds
    /// [`concurrency`](field@Self::concurrency) too.
    pub max_concurrency: Option<NonZero<u32>>,
    /// Whether directories are copied.
    pub recursive: bool,
    /// Treatment of symbolic links in the trees.
    pub links: Links,
    /// The files to copy, among those of the sources.
    pub choice: Choice,
    /// Treatment of files that are at their destination already.
    pub manner: Manner,
    /// First byte to copy.
    pub offset: Option<u64>,
    /// Number of bytes to copy.
    pub length: Option<u64>,
    /// Whether and how both ends' digests are compared before success is told.
    pub verify: Verify,
    /// The way of data between two servers.
    pub relay: Relay,
    /// Which files go on, in a later run too, with the bytes that an earlier attempt stored.
    pub resume: Resume,
    /// Directory of the notes by which uploads and copies between servers go on in a later run, and
    /// copies of trees leave the files that an earlier run finished; `None` for none of them.
    pub notes: Option<PathBuf>,
    /// Number of further attempts at a failed file or a lost connection.
    pub retries: u32,
    /// Time in which a server that is gone, or that an HTTP proxy does not reach, is tried again beyond
    /// those attempts; zero for none. Without any retries it is not tried again at all.
    pub retry_for: Duration,
    /// Longest first pause before trying again; doubled each time, at most a minute.
    pub backoff: Duration,
    /// Whether existing destination files stay as they are.
    pub no_clobber: bool,
    /// Whether modification times and permission bits are carried over.
    pub preserve: bool,
    /// Whether extended attributes of files and directories are carried over, those of the namespace
    /// `user.`. A directory that is there before keeps its other ones.
    pub xattrs: bool,
    /// Whether a file written here, name included, is synced to the medium before it counts as copied.
    /// Warns about uploads to servers that do not do that.
    pub sync_writes: bool,
    /// Whether whole blocks of zeros in a file written here become holes, which take no space. Warns
    /// about uploads, which it has no effect on.
    pub sparse: bool,
    /// Whether the copy is only told, and not made: files, links and directories, and the names that
    /// would move or be removed at the destination. Of a pipe, the file alone.
    pub dry_run: bool,
    /// Whether the first file that fails for good ends the copy; those that are not copied then are
    /// left out.
    pub fail_fast: bool,
    /// Whether the copy yields its path to others while the round trip of its data is longer than half
    /// above the least one of the last minute: with fewer streams, then fewer files at once, then a
    /// lower rate. Its own queue counts, so that it may stay below the rate of a path without other
    /// traffic. Between two servers where the source tells its round trips (`WAITS` in `FEAT`), and with
    /// the lower rate where one of them bounds it (`RATE`).
    pub polite: bool,
    /// Whether data connections may change to UDT on a path that loses packets, where senders cannot
    /// change their congestion control, the servers offer UDT, and the stack is TCP alone, also where
    /// the caller chose that.
    pub over_udt: bool,
    /// File of the numbers of streams and files that served best on each path, from which the next run
    /// starts; `None` for none. Numbers of the caller stand above it. Those of a run with bounds
    /// ([`max_parallel`](field@Self::max_parallel), [`max_concurrency`](Self::max_concurrency)) are the start
    /// of runs with the same bounds alone, the first of which starts from those of runs without.
    pub memory: Option<PathBuf>,
    /// Whether [`Summary::explanation`](crate::Summary::explanation) tells where the time went.
    pub explain: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            parallel: None,
            max_parallel: None,
            stripes: None,
            stripe_layout: None,
            concurrency: None,
            max_concurrency: None,
            recursive: false,
            links: Links::Follow,
            choice: Choice::default(),
            manner: Manner::default(),
            offset: None,
            length: None,
            verify: Verify::Auto,
            relay: Relay::Auto,
            resume: Resume::Large,
            notes: None,
            retries: 3,
            retry_for: Duration::from_secs(600),
            backoff: Duration::from_millis(500),
            no_clobber: false,
            preserve: false,
            xattrs: false,
            sync_writes: false,
            sparse: false,
            dry_run: false,
            fail_fast: false,
            polite: false,
            over_udt: true,
            memory: None,
            explain: false,
        }
    }
}

/// The way of data between two servers: straight from one to the other (third party), or through
/// this machine, which reads each file from the source while it writes it to the destination, in
/// MODE S and without a file here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Relay {
    /// Through this machine where the servers refuse to move data between them, or cannot agree on
    /// its protection; a warning tells it.
    #[default]
    Auto,
    /// Always through this machine.
    Always,
    /// Never through this machine: a refusal is the failure.
    Never,
}

/// Whether and how digests are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Verify {
    /// Where both ends are of this kind, of the bytes while they pass, or else of the stored
    /// files, with the best of the cheap algorithms of the servers; by the length where these give
    /// no digests. On this machine, of the bytes while they are read and of the written file.
    #[default]
    Auto,
    /// By the length alone, but of a file that goes on with the bytes of an earlier run as with
    /// `Auto`. Between ends of this kind also by the first 128 KiB in MODE E, and by all bytes of
    /// small files that share a command.
    No,
    /// With the best algorithm of those that cost the servers little more than their cheapest: a
    /// weak one only where each better one costs much more.
    Cheapest,
    /// As `Cheapest`, with none that only finds accidents (CRC-32C, Adler-32), of the bytes that a
    /// file written here has on the medium, after a sync; a server reads a stored file again.
    Disk,
    /// With this algorithm.
    With(ChecksumAlgorithm),
}

impl CopyOptions {
    /// As many streams of a file, or as many as the caller allows.
    pub(crate) fn hold_streams(&self, streams: u32) -> u32 {
        let most = self.max_parallel.map_or(u32::MAX, NonZero::get);
        streams.min(most)
    }

    /// As many files at once, or as many as the caller allows.
    pub(crate) fn hold_files(&self, files: u32) -> u32 {
        let most = self.max_concurrency.map_or(u32::MAX, NonZero::get);
        files.min(most)
    }

    /// Whether files written here are synced to the medium.
    pub(crate) fn syncs(&self) -> bool {
        self.sync_writes || self.verify == Verify::Disk
    }

    /// Whether a file that appears at the destination meanwhile stays.
    pub(crate) fn keeps_existing(&self) -> bool {
        self.no_clobber || self.manner.immutable
    }

    /// Says whether to try again after so many failures, the first of them so long ago; `gone` says
    /// whether it was the server that was not there.
    pub(crate) fn goes_on(&self, failures: u32, since: Duration, gone: bool) -> bool {
        failures <= self.retries || (gone && self.retries > 0 && since < self.retry_for)
    }

    /// The pause before the `attempt`-th try, the first retry being 1: at random between half of
    /// [`backoff`](Self::backoff) and all of it, so that those that one failure hit do not
    /// come back together.
    pub fn pause(&self, attempt: u32) -> Duration {
        let doubled = self
            .backoff
            .saturating_mul(1_u32 << attempt.saturating_sub(1).min(16));
        let longest = doubled.min(Duration::from_secs(60));
        // The keys of every hasher are random.
        let chance = u32::try_from(RandomState::new().hash_one(attempt) >> 32).unwrap_or(0);
        longest / 2 + (longest / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_not_all_the_same() {
        let options = CopyOptions::default();
        let mut seen = std::collections::HashSet::new();
        for attempt in 1..100 {
            let longest = options.backoff * (1 << (attempt - 1).min(16));
            let longest = longest.min(Duration::from_secs(60));
            let pause = options.pause(attempt);
            assert!(
                pause >= longest / 2 && pause <= longest,
                "{attempt}: {pause:?}"
            );
            seen.insert(pause);
        }
        assert!(seen.len() > 50, "{seen:?}");
    }

    #[test]
    fn a_server_that_is_gone_is_tried_for_its_time_and_others_by_number() {
        let options = CopyOptions::default();
        for (failures, seconds, gone, again) in [
            (3, 9999, false, true),
            (4, 0, false, false),
            (3, 9999, true, true),
            (400, 599, true, true),
            (400, 600, true, false),
        ] {
            let since = Duration::from_secs(seconds);
            let goes_on = options.goes_on(failures, since, gone);
            assert_eq!(goes_on, again, "{failures} in {seconds} s, gone: {gone}");
        }
        let once = CopyOptions::default().retries(0);
        assert!(!once.goes_on(1, Duration::ZERO, true));
    }
}

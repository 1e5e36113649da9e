//! `Config`: checked once, immutable afterwards.

mod cluster;
mod low;
mod reload;
mod security;
mod stacks;
mod storage;
mod values;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use self::cluster::{CLUSTER_PORT, ClusterOptions};
pub use self::low::{Access, LogFormat, LogLevel, Options};
pub use self::security::{
    DemandOn, NetworkDemand, NetworkOption, Require, SessionReuse, ThirdParty, UserDemand,
};
pub(crate) use self::security::{Requirements, TlsPolicy};
pub(crate) use self::storage::Storages;
pub use self::storage::{StorageOption, StorageSection};
use gridftp_cluster::StoreRules;
use gridftp_dsi::{Dsi as _, DynDsi};
use tokio::sync::watch;
use xio::{ByteSize, Entry, PortRange};

use xio_gsi::Environment;

use crate::auth::Users;
pub use crate::grid::BadGrid;
use crate::grid::Grid;
use crate::nodes::Front;

/// The port that GridFTP servers listen on.
pub const DEFAULT_PORT: u16 = 2811;

/// The checked configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Listening addresses: the first that can be bound is used.
    pub listen: Vec<SocketAddr>,
    /// Listening addresses of TLS from the first byte; none where the list is empty.
    pub listen_tls: Vec<SocketAddr>,
    /// The storages and their places.
    pub(crate) storages: Storages,
    /// Bytes moved at once.
    pub block_size: usize,
    /// Bytes of parts in memory for all uploads.
    pub part_memory: usize,
    /// Whether uploads are written under their final names.
    pub in_place: bool,
    /// Whether data is flushed to disk before a marker is sent or a file published.
    pub sync_writes: bool,
    /// Age at which a partial upload is removed; `None` for never.
    pub partial_expiry: Option<Duration>,
    /// Ports of data connections; `None` for any.
    pub data_ports: Option<PortRange>,
    /// Drivers that clients may name for data connections, with the options set by the server.
    pub net_stacks: Vec<Entry>,
    /// Drivers that clients may name over files, `file` among them.
    pub disk_stacks: Vec<Entry>,
    /// Address that clients are told for data, where it is not the control connection's.
    pub advertise: Option<IpAddr>,
    /// Hosts other than the client's that clear data may be exchanged with.
    pub third_party: ThirdParty,
    /// Time for running transfers after a request to stop.
    pub drain_timeout: Duration,
    /// Form of the log.
    pub log_format: LogFormat,
    /// Least level that is logged.
    pub log_level: LogLevel,
    /// The data nodes of a front end; `None` for a server that moves data itself.
    pub(crate) front: Option<Arc<Front>>,
    /// The reloadable part.
    pub policy: Arc<Policy>,
}

/// The reloadable part of the configuration, for logins, transfers and waits that begin after a
/// reload.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Policy {
    /// Access of anonymous users; `None` for no anonymous login.
    pub anonymous: Option<Access>,
    /// Access of names of the grid-mapfile without an account.
    pub gridmap_access: Access,
    /// The accounts of the users file.
    pub users: Users,
    /// TLS; `None` for none.
    pub(crate) tls: Option<Arc<TlsPolicy>>,
    /// Grid security; `None` for none.
    pub(crate) grid: Option<Arc<Grid>>,
    /// The demands on both channels.
    pub(crate) requirements: Requirements,
    /// Most sessions at a time that are logged in.
    pub max_sessions: usize,
    /// Most connections at a time that have not logged in.
    pub max_unauthenticated: usize,
    /// Those from one address; `None` for a quarter of them, and no limit for this host's own.
    pub max_per_address: Option<usize>,
    /// Data connections of one transfer.
    pub max_streams: u32,
    /// Descriptors of all transfers together, for ports, connections, pipes and files; not an
    /// option, but the rest of the process's limit.
    pub max_data_descriptors: usize,
    /// Time for a login.
    pub login_timeout: Duration,
    /// Time without a command before a session ends.
    pub idle_timeout: Duration,
    /// Time to wait for data connections.
    pub connect_timeout: Duration,
    /// Time without a byte before a transfer fails.
    pub stall_timeout: Duration,
    /// Longest measurement from or to memory; `None` for none of them.
    pub max_measurement: Option<Duration>,
    /// Delay of the answer to a refused login.
    pub login_delay: Duration,
    /// Refused logins before a lockout; 0 for none.
    pub login_attempts: u32,
    /// Duration of a lockout.
    pub lockout: Duration,
}

/// The fault of a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadConfig {
    /// A file could not be read.
    #[error("config: read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The configuration file does not parse; the message has line and column.
    #[error("config: {}: {}", .0.display(), .1.to_string().trim_end())]
    Parse(PathBuf, Box<toml::de::Error>),
    /// The users file does not parse.
    #[error("config: users file {}", .0.display())]
    Users(PathBuf, #[source] crate::auth::BadUsers),
    /// A certificate, a key or a list of authorities cannot be used.
    #[error("config: {key}")]
    Tls {
        /// The option.
        key: &'static str,
        /// The fault in it.
        #[source]
        why: xio::Error,
    },
    /// Grid security is asked for and cannot be offered.
    #[error("config: Grid security")]
    Grid(#[source] BadGrid),
    /// The map of certificates does not parse.
    #[error("config: {}: line {line}: need \"NAME\" user[,user...]", .path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// The line at fault.
        line: usize,
    },
    /// An option has no effect without another one.
    #[error("config: {key} needs {needed}")]
    Needs {
        /// The option.
        key: &'static str,
        /// The other one.
        needed: &'static str,
    },
    /// A list of drivers for clients names one that they may never use.
    #[error("config: {key}")]
    Stack {
        /// The option.
        key: &'static str,
        /// The fault in it.
        #[source]
        why: xio::Error,
    },
    /// A storage cannot be used.
    #[error("config: storage at {at}")]
    Storage {
        /// Its place in the tree.
        at: String,
        /// The fault in it.
        #[source]
        why: xio::Error,
    },
    /// A value is out of its range.
    #[error("config: {key} must be {accepts}")]
    Range {
        /// The option.
        key: &'static str,
        /// The accepted values.
        accepts: &'static str,
    },
}

impl Config {
    /// Has these data nodes move the data.
    pub fn set_front(&mut self, front: Front) {
        self.front = Some(Arc::new(front));
    }

    /// The changes of the data nodes that have the storage of this front end; `None` for others.
    pub fn storage_changes(&self) -> Option<watch::Receiver<()>> {
        let front = self.front.as_ref()?;
        self.storages.is_at_nodes().then(|| front.nodes.changes())
    }

    /// The way of storing for a client that does or does not announce every length but 0.
    pub(crate) const fn store_rules(&self, empty_unannounced: bool) -> StoreRules {
        StoreRules {
            in_place: self.in_place,
            durable: self.sync_writes,
            empty_unannounced,
        }
    }

    /// Opens the storages as one tree; `None` where the configuration names none.
    ///
    /// # Errors
    /// The storage that cannot be opened.
    pub fn open_storage(&self) -> gridftp_dsi::Result<Option<Arc<dyn DynDsi>>> {
        let front = self.front.as_ref();
        let opened = self.storages.open(front.map(|front| front.storage()))?;
        if let (Some(front), Some(storage)) = (front, &opened)
            && let Some(identity) = storage.identity()
        {
            front.nodes.expect_storage(identity);
        }
        Ok(opened)
    }
}

impl Options {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`BadConfig`] when it cannot be read, holds an unknown key or a value of the wrong kind; the
    /// message gives line and column.
    pub fn read(path: &Path) -> Result<Self, BadConfig> {
        let text = fs::read_to_string(path).map_err(|error| BadConfig::Read(path.into(), error))?;
        toml::from_str(&text).map_err(|error| BadConfig::Parse(path.into(), Box::new(error)))
    }
}

impl Config {
    /// Checks the options of flags and file, and reads the users file.
    ///
    /// # Errors
    /// [`BadConfig`] for a value out of range or a users file at fault.
    pub fn check(options: &Options) -> Result<Self, BadConfig> {
        let range = |key, accepts| BadConfig::Range { key, accepts };
        let port = options.port.unwrap_or(DEFAULT_PORT);
        let at = |port| match options.bind {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None => vec![
                SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
                SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            ],
        };
        let block_size = options.block_size.map_or(256 << 10, ByteSize::bytes);
        // Eight of the largest blocks fill the shared pool.
        if !(4096..=8 << 20).contains(&block_size) {
            return Err(range("block-size", "between 4K and 8M"));
        }
        if options
            .advertise
            .is_some_and(|ip| ip.is_unspecified() || ip.is_multicast())
        {
            return Err(range("advertise", "an address that clients can connect to"));
        }
        let expiry = options.partial_expiry.unwrap_or(168);
        Ok(Self {
            listen: at(port),
            listen_tls: options.tls_port.map(at).unwrap_or_default(),
            storages: Storages::new(options)?,
            block_size: usize::try_from(block_size)
                .map_err(|_| range("block-size", "between 4K and 8M"))?,
            part_memory: usize::try_from(storage::part_memory(options))
                .map_err(|_| range("part-memory", "smaller"))?,
            in_place: options.in_place.unwrap_or(false),
            sync_writes: options.sync_writes.unwrap_or(false),
            partial_expiry: (expiry > 0).then(|| Duration::from_secs(u64::from(expiry) * 3600)),
            data_ports: options.data_ports,
            net_stacks: stacks::net(options.net_stacks.as_deref())?,
            disk_stacks: stacks::disk(options.disk_stacks.as_deref())?,
            advertise: options.advertise,
            third_party: options.third_party.clone().unwrap_or_default(),
            drain_timeout: seconds(options.drain_timeout, 30),
            log_format: options.log_format.unwrap_or_default(),
            log_level: options.log_level.unwrap_or_default(),
            front: None,
            policy: Arc::new(Policy::check(options)?),
        })
    }
}

impl Policy {
    /// Checks the reloadable options, and reads the users file.
    ///
    /// # Errors
    /// [`BadConfig`] for a value out of range or a users file at fault.
    pub fn check(options: &Options) -> Result<Self, BadConfig> {
        let users = match &options.users {
            None => Users::default(),
            Some(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| BadConfig::Read(path.clone(), error))?;
                Users::parse(&text).map_err(|error| BadConfig::Users(path.clone(), error))?
            }
        };
        Ok(Self {
            anonymous: options.anonymous,
            gridmap_access: options.gridmap_access.unwrap_or(Access::Rw),
            users,
            tls: TlsPolicy::load(options)?,
            grid: Grid::load(options, &Environment::of_process()).map_err(BadConfig::Grid)?,
            requirements: Requirements::new(options),
            max_sessions: count("max-sessions", options.max_sessions, 1000)?,
            max_unauthenticated: count("max-unauthenticated", options.max_unauthenticated, 200)?,
            max_per_address: match options.max_per_address {
                None => None,
                given => Some(count("max-per-address", given, 1)?),
            },
            max_streams: at_least_one("max-streams", options.max_streams, 128)?,
            max_data_descriptors: usize::MAX,
            login_timeout: wait("login-timeout", options.login_timeout, 30)?,
            idle_timeout: wait("idle-timeout", options.idle_timeout, 600)?,
            connect_timeout: wait("connect-timeout", options.connect_timeout, 60)?,
            stall_timeout: wait("stall-timeout", options.stall_timeout, 300)?,
            max_measurement: Some(seconds(options.max_measurement, 60)).filter(|t| !t.is_zero()),
            login_delay: seconds(options.login_delay, 1),
            login_attempts: options.login_attempts.unwrap_or(5),
            lockout: wait("lockout", options.lockout, 300)?,
        })
    }

    /// Says whether users of other hosts cannot log in for lack of a certificate.
    pub fn needs_tls(&self) -> bool {
        !self.users.is_empty() && self.tls.is_none() && !self.requirements.allow_clear()
    }

    /// Says whether any login is possible.
    pub fn admits_anybody(&self) -> bool {
        self.anonymous.is_some() || !self.users.is_empty() || self.grid.is_some()
    }
}

fn at_least_one(key: &'static str, value: Option<u32>, default: u32) -> Result<u32, BadConfig> {
    match value.unwrap_or(default) {
        0 => Err(BadConfig::Range {
            key,
            accepts: "at least 1",
        }),
        value => Ok(value),
    }
}

fn count(key: &'static str, value: Option<u32>, default: u32) -> Result<usize, BadConfig> {
    let value = at_least_one(key, value, default)?;
    usize::try_from(value).map_err(|_| BadConfig::Range {
        key,
        accepts: "smaller",
    })
}

fn wait(key: &'static str, value: Option<u32>, default: u32) -> Result<Duration, BadConfig> {
    match value {
        Some(0) => Err(BadConfig::Range {
            key,
            accepts: "at least 1 second",
        }),
        value => Ok(seconds(value, default)),
    }
}

fn seconds(value: Option<u32>, default: u32) -> Duration {
    Duration::from_secs(value.unwrap_or(default).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gridftp.toml");
        fs::write(&path, text).unwrap();
        Options::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_file_has_the_keys_of_the_flags() {
        let options = parse(
            "port = 0\nbind = \"127.0.0.1\"\nanonymous = \"ro\"\ndata-ports = \"50000-50009\"\nblock-size = \"1M\"\n\
             third-party = \"all\"\nin-place = true\nroot = \"/srv\"\nmax-per-address = 3\n",
        )
        .unwrap();
        let config = Config::check(&options).unwrap();
        assert_eq!(config.listen, ["127.0.0.1:0".parse().unwrap()]);
        assert_eq!(config.block_size, 1 << 20);
        assert_eq!(config.data_ports, PortRange::new(50000, 50009));
        assert_eq!(config.third_party, ThirdParty::All);
        let plain = Config::check(&Options::default()).unwrap();
        assert_eq!(plain.third_party, ThirdParty::Off);
        assert_eq!(config.policy.max_per_address, Some(3));
        assert!(config.in_place && config.policy.admits_anybody());
    }

    #[test]
    fn an_unknown_key_is_refused_with_line_and_column() {
        let error = parse("port = 0\n  max-sesions = 5\n").unwrap_err();
        assert!(
            error.contains("line 2, column 3") && error.contains("max-sesions"),
            "{error}"
        );
    }

    #[test]
    fn a_bad_value_is_refused_with_line_and_column() {
        for text in [
            "\nport = 70000\n",
            "\nanonymous = \"yes\"\n",
            "\nblock-size = \"1Q\"\n",
            "\ndata-ports = \"9-1\"\n",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("line 2, column"), "{text}: {error}");
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = parse("port = 1\nmax-sessions = 7\n").unwrap();
        let flags = Options {
            port: Some(2),
            ..Options::default()
        };
        let merged = flags.or(file);
        assert_eq!((merged.port, merged.max_sessions), (Some(2), Some(7)));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let refuse = |change: fn(&mut Options), key: &str| {
            let mut options = Options::default();
            change(&mut options);
            let error = Config::check(&options).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        };
        refuse(|o| o.max_sessions = Some(0), "max-sessions");
        refuse(|o| o.max_per_address = Some(0), "max-per-address");
        refuse(|o| o.idle_timeout = Some(0), "idle-timeout");
        refuse(|o| o.block_size = Some(ByteSize::new(1)), "block-size");
        refuse(
            |o| o.block_size = Some(ByteSize::new(64 << 20)),
            "between 4K and 8M",
        );
        refuse(
            |o| o.advertise = Some(Ipv4Addr::UNSPECIFIED.into()),
            "advertise",
        );
        refuse(|o| o.users = Some("/nonexistent/users".into()), "users");
    }

    #[test]
    fn without_a_word_nobody_gets_in() {
        assert!(
            !Config::check(&Options::default())
                .unwrap()
                .policy
                .admits_anybody()
        );
    }
}

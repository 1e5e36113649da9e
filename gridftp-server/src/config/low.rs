//! The options as written in the configuration file and the flags: one structure for both, so that
//! they have the same keys.
#![expect(
    clippy::exhaustive_enums,
    reason = "the daemon matches every value of an option"
)]

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use xio::{ByteSize, PortRange, read_value};

use super::cluster::ClusterOptions;
use super::security::{
    NetworkDemand, NetworkOption, Require, SessionReuse, ThirdParty, UserDemand,
};
use super::storage::StorageOption;
use super::values::{in_file, seconds, seconds_in_file};

/// Every option, as a flag (`--max-sessions 50`) and as a key of the file (`max-sessions = 50`).
///
/// `None` means absent; a flag overrides the file.
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Options {
    /// Address to listen on for control connections [default: every address].
    #[arg(long, value_name = "ADDR", help_heading = "Network")]
    pub bind: Option<IpAddr>,

    /// Port to listen on, 0 for any free one [default: 2811].
    #[arg(long, short, value_name = "N", help_heading = "Network")]
    pub port: Option<u16>,

    /// Ports for data connections, for example 50000-51000 [default: any free port].
    #[arg(long, value_name = "LO-HI", value_parser = read_value::<PortRange>, help_heading = "Network")]
    #[serde(default, deserialize_with = "in_file")]
    pub data_ports: Option<PortRange>,

    /// Address that clients are told to connect to for data, when this host is behind address
    /// translation [default: the address of the control connection].
    #[arg(long, value_name = "ADDR", help_heading = "Network")]
    pub advertise: Option<IpAddr>,

    /// Clear data connections with hosts other than the client's, as transfers between two servers
    /// need: `off` for none, `users` for any host and users with a password, `anonymous` (or `all`)
    /// for anonymous users too, or the networks of those hosts. A data port then serves any such
    /// host that connects first; authenticated connections are always allowed [default: off].
    #[arg(long, value_name = "WHO", help_heading = "Network")]
    pub third_party: Option<ThirdParty>,

    /// Drivers that a client may name for data connections with SITE SETNETSTACK, for example
    /// tcp,udt,compress; options given here belong to this server, and no client can change them
    /// [default: tcp].
    #[arg(
        long,
        value_name = "DRIVERS",
        value_delimiter = ',',
        help_heading = "Network"
    )]
    pub net_stacks: Option<Vec<String>>,

    /// Drivers that a client may name over files with SITE SETDISKSTACK, for example
    /// file,compress [default: file].
    #[arg(
        long,
        value_name = "DRIVERS",
        value_delimiter = ',',
        help_heading = "Storage"
    )]
    pub disk_stacks: Option<Vec<String>>,

    /// Directory to serve; nothing outside it is reachable.
    #[arg(long, value_name = "DIR", help_heading = "Storage")]
    pub root: Option<PathBuf>,

    /// Storage of files, `NAME[:OPTIONS]`, as posix:root=/srv/data, `null` (reads zeros of any size
    /// and discards writes, for measurements) or `memory`; `gridftp-server storages` lists them.
    /// Sections `[[storage]]` of the file mount several in one tree [default: posix].
    #[arg(long, value_name = "STORAGE", help_heading = "Storage")]
    pub storage: Option<StorageOption>,

    /// Writes uploads directly under their final names instead of renaming them when complete.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true, help_heading = "Storage")]
    pub in_place: Option<bool>,

    /// Flushes to disk before a restart marker is sent and before an upload is published, so that
    /// both survive a crash of the machine; without it, large uploads with a digest go on behind the
    /// bytes that were synced in the background [default: true for `front` and `node`, else false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true, help_heading = "Storage")]
    pub sync_writes: Option<bool>,

    /// Hours after which a partial upload is removed, 0 for never [default: 168].
    #[arg(long, value_name = "HOURS", help_heading = "Storage")]
    pub partial_expiry: Option<u32>,

    /// Directory of the index of partial uploads, by which old ones are found without a walk of the
    /// tree; a tree whose root the server may not write to needs one of its own [default:
    /// .gridftp-index in the root].
    #[arg(long, value_name = "DIR", help_heading = "Storage")]
    pub partial_index: Option<PathBuf>,

    /// Bytes moved at once, for example 1M, at most 8M [default: 256K].
    #[arg(long, value_name = "SIZE", value_parser = read_value::<ByteSize>, help_heading = "Storage")]
    #[serde(default, deserialize_with = "in_file")]
    pub block_size: Option<ByteSize>,

    /// Memory for parts of all uploads to storages that take whole parts, as object stores; further
    /// uploads wait. All downloads from object stores read ahead within as much again
    /// [default: 128M].
    #[arg(long, value_name = "SIZE", value_parser = read_value::<ByteSize>, help_heading = "Storage")]
    #[serde(default, deserialize_with = "in_file")]
    pub part_memory: Option<ByteSize>,

    /// Allows anonymous login (`anonymous` or `ftp`), to read (`ro`) or to read and write (`rw`).
    #[arg(long, value_name = "ACCESS", help_heading = "Access")]
    pub anonymous: Option<Access>,

    /// File of accounts, one a line: `name:hash[:ro|rw[:home]]`. `gridftp-server passwd NAME`
    /// prints a line.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub users: Option<PathBuf>,

    /// Certificate of this server and its chain, in PEM: offers TLS to clients (AUTH TLS).
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, in PEM and without a password [default: in the same file].
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub tls_key: Option<PathBuf>,

    /// Port for clients that begin with TLS at once (ftps:// on port 990), 0 for any free one; the
    /// other port offers AUTH TLS [default: none].
    #[arg(long, value_name = "N", help_heading = "Protection")]
    pub tls_port: Option<u16>,

    /// Authorities of client certificates, in PEM: asks clients for one, and logs in the users that
    /// --tls-map gives it without a password.
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub tls_client_ca: Option<PathBuf>,

    /// File of lines `"NAME" user[,user...]`, where the name is the subject of a certificate, as
    /// /O=Example/CN=Ann, or an alternative name, as email:ann@example.org.
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub tls_map: Option<PathBuf>,

    /// Demand that data connections resume the TLS session of their control connection: `required`,
    /// or `optional` for clients that cannot and connect from their own host [default: optional].
    #[arg(long, value_name = "WHEN", help_heading = "Protection")]
    pub tls_session_reuse: Option<SessionReuse>,

    /// Credential of this host for Grid security (AUTH GSSAPI): certificate and chain, in PEM
    /// [default: where the Globus programs look, if --host-certs, --ca-dir, --gridmap or `X509_USER_CERT` is set].
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub host_cert: Option<PathBuf>,

    /// Private key of --host-cert, in PEM and without a password [default: in the same file].
    #[arg(
        long,
        value_name = "FILE",
        requires = "host_cert",
        help_heading = "Protection"
    )]
    pub host_key: Option<PathBuf>,

    /// Directory with a directory for each further name of this host, with hostcert.pem and hostkey.pem
    /// in it: a Grid client that asks for a name in one of these certificates meets that one
    /// [default: `X509_VHOST_CRED_DIR`, or none].
    #[arg(long, value_name = "DIR", help_heading = "Protection")]
    pub host_certs: Option<PathBuf>,

    /// Directory of the authorities of Grid users, with signing policies and revocation lists
    /// [default: `X509_CERT_DIR`, or /etc/grid-security/certificates].
    #[arg(long, value_name = "DIR", help_heading = "Protection")]
    pub ca_dir: Option<PathBuf>,

    /// Grid-mapfile: lines of `"DN" user[,user...]` [default: `GRIDMAP`, or
    /// /etc/grid-security/grid-mapfile].
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    pub gridmap: Option<PathBuf>,

    /// Access of names of the grid-mapfile that --users does not list, to the whole tree: to read
    /// (`ro`) or to read and write (`rw`) [default: rw].
    #[arg(long, value_name = "ACCESS", help_heading = "Access")]
    pub gridmap_access: Option<Access>,

    /// Networks whose clients may send passwords without TLS, for example 10.0.0.0/8,192.0.2.7
    /// [default: this host alone].
    #[arg(
        long,
        value_name = "NETWORKS",
        value_delimiter = ',',
        help_heading = "Protection"
    )]
    pub allow_clear_passwords: Option<Vec<NetworkOption>>,

    /// Least protection of the control channel for users with a password: `clear`, `integrity` or
    /// `private` [default: private, and clear from this host].
    #[arg(long, value_name = "LEVEL", help_heading = "Protection")]
    pub require_control: Option<Require>,

    /// Least protection of their data connections [default: clear].
    #[arg(long, value_name = "LEVEL", help_heading = "Protection")]
    pub require_data: Option<Require>,

    /// Least protection of the control channel for anonymous users [default: clear].
    #[arg(long, value_name = "LEVEL", help_heading = "Protection")]
    pub require_anonymous_control: Option<Require>,

    /// Least protection of their data connections [default: clear].
    #[arg(long, value_name = "LEVEL", help_heading = "Protection")]
    pub require_anonymous_data: Option<Require>,

    /// Least protection for every login from a network, in place of the demands above, as
    /// `192.0.2.0/24=clear` for both channels, or `::/0=private/integrity` for control and data; the
    /// first network that has the client's address counts [default: none].
    #[arg(
        long,
        value_name = "NETWORK=LEVEL",
        value_delimiter = ',',
        help_heading = "Protection"
    )]
    pub require_from: Option<Vec<NetworkDemand>>,

    /// Least protection for users by name, in addition to the demands above, as `alice=private` for
    /// both channels, or `bob=private/integrity` for control and data [default: none].
    #[arg(
        long,
        value_name = "NAME=LEVEL",
        value_delimiter = ',',
        help_heading = "Protection"
    )]
    pub require_user: Option<Vec<UserDemand>>,

    /// Delay of the answer to a refused login [default: 1].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Access")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub login_delay: Option<u32>,

    /// Refused logins in a row before a user is locked out from that network, 0 for no lockout
    /// [default: 5].
    #[arg(long, value_name = "N", help_heading = "Access")]
    pub login_attempts: Option<u32>,

    /// Duration of a lockout [default: 300].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Access")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub lockout: Option<u32>,

    /// Most logged-in sessions at a time; beyond it new connections are answered 421 [default:
    /// 1000].
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_sessions: Option<u32>,

    /// Most connections at a time that have not logged in, besides the sessions; beyond it each new
    /// one evicts the oldest one of the address that has most, so that a flood does not keep users
    /// out [default: 200].
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_unauthenticated: Option<u32>,

    /// Most connections at a time from one address (IPv6: from one /64) that have not logged in;
    /// beyond it each new one evicts the oldest one of that address [default: a quarter of
    /// --max-unauthenticated, and no such limit for connections from this host].
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_per_address: Option<u32>,

    /// Most data connections of one transfer [default: 128].
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_streams: Option<u32>,

    /// Time for a login, without the time that verifying the password takes [default: 30].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub login_timeout: Option<u32>,

    /// Time without a command before a session ends [default: 600].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub idle_timeout: Option<u32>,

    /// Time to wait for a data connection [default: 60].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub connect_timeout: Option<u32>,

    /// Time without a byte before a transfer fails [default: 300].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub stall_timeout: Option<u32>,

    /// Time for running transfers to end after a request to stop [default: 30].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub drain_timeout: Option<u32>,

    /// Longest measurement from or to memory (`gridftp speed`), which moves bytes in the way of a
    /// transfer and touches no storage; 0 for none [default: 60].
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    #[serde(default, deserialize_with = "seconds_in_file")]
    pub max_measurement: Option<u32>,

    /// The options of a front end or a data node; flags of `front` and `node`.
    #[arg(skip)]
    pub cluster: Option<ClusterOptions>,

    /// Format of the log on stderr: `text` or `json` [default: text].
    #[arg(long, value_name = "FORM", help_heading = "Log")]
    pub log_format: Option<LogFormat>,

    /// Least level that is logged: `error`, `warn`, `info`, `debug` or `trace` [default: info].
    #[arg(long, value_name = "LEVEL", help_heading = "Log")]
    pub log_level: Option<LogLevel>,
}

/// Access of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read.
    Ro,
    /// Read and write.
    Rw,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Lines of text.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The least level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Errors that need the administrator.
    Error,
    /// Conditions that may become errors.
    Warn,
    /// Sessions and transfers.
    #[default]
    Info,
    /// Commands.
    Debug,
    /// Everything.
    Trace,
}

impl Options {
    /// Completes the absent options from `file`.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        // Each is listed, so that the compiler demands a new option here.
        macro_rules! first {
            ($($option:ident)*) => { Self { $($option: self.$option.or(file.$option)),* } };
        }
        first! {
            bind port data_ports net_stacks disk_stacks advertise third_party root storage
            tls_cert tls_key tls_port tls_client_ca tls_map tls_session_reuse
            host_cert host_key host_certs ca_dir gridmap gridmap_access
            allow_clear_passwords require_control require_data require_anonymous_control
            require_anonymous_data require_from require_user in_place sync_writes partial_expiry partial_index block_size part_memory anonymous users
            login_delay login_attempts lockout max_sessions max_unauthenticated max_per_address
            max_streams login_timeout idle_timeout connect_timeout stall_timeout drain_timeout
            max_measurement cluster log_format log_level
        }
    }
}

//! `ConnectionFlags`: the part of the command line that chooses accounts, protection and patience.

use std::path::PathBuf;
use std::time::Duration;

use crate::options::{
    ConnectOptions, Family, Identity, Level, PortRange, Proxies, Roots, Security,
};
use clap::{Args, ValueEnum, ValueHint};

use crate::program::grid::GridFlags;
use crate::program::values::time;

/// Choices of sessions.
#[derive(Debug, Args)]
pub struct ConnectionFlags {
    /// Account to log in to where the URL names none [default: anonymous]
    #[arg(short, long, value_name = "NAME")]
    pub user: Option<String>,

    /// Look accounts up in ~/.netrc or $NETRC, or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          value_hint = ValueHint::FilePath)]
    pub netrc: Option<Option<PathBuf>>,

    /// Protection of control connections: Grid security for gsiftp://, TLS for ftps:// and for
    /// passwords that cross a network (auto), none, by AUTH TLS, or from the first byte on (implicit); there is no fall-back
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub security: SecurityFlag,

    /// Protection of data connections [default: private where the control connection is protected]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub protect: Option<ProtectFlag>,

    /// Trust servers with certificates of the authorities in this PEM file, or folder of such files
    /// [default: the authorities of the system]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub ca: Option<PathBuf>,

    /// Certificate for servers that ask for one, a PEM file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub cert: Option<PathBuf>,

    /// Key of the certificate, where it is not in the same file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    pub key: Option<PathBuf>,

    #[command(flatten)]
    pub grid: GridFlags,

    /// Longest wait for a connection, a login, a reply, or more data, in seconds, or as 90s, 10m or
    /// 1h; a server that works in silence, on a checksum or on fetching a file, has at least 10m
    /// [default: 2m, and 30s for a connection and its login]
    #[arg(long, value_name = "TIME", value_parser = time(1..=86_400), allow_negative_numbers = true)]
    pub timeout: Option<Duration>,

    /// Path of gridftp-server on hosts that are reached through ssh [default: looked up in their
    /// PATH, then the entry of a Globus server]
    #[arg(long, value_name = "PATH")]
    pub remote_program: Option<String>,

    /// Reach servers at IPv4 addresses only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,

    /// Reach servers at IPv6 addresses only
    #[arg(short = '6', long)]
    pub ipv6: bool,

    /// Ports to listen at for data connections of servers.
    #[arg(long, value_name = "LOW-HIGH", value_parser = ports, help = PORTS)]
    pub data_ports: Option<PortRange>,

    /// Use the data address a server gives although it is not the server's own
    #[arg(long)]
    pub trust_pasv_address: bool,
}

/// The help of `--data-ports`.
const PORTS: &str = "Listen for data connections of servers at a port from LOW to HIGH, as a firewall \
                     lets in [default: GLOBUS_TCP_PORT_RANGE=LOW,HIGH of the environment, else any]";

/// `--security`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecurityFlag {
    /// TLS for ftps:// and for passwords that cross a network.
    Auto,
    /// None: passwords go in clear text.
    None,
    /// TLS by AUTH TLS.
    Tls,
    /// TLS from the first byte on.
    Implicit,
}

/// `--protect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProtectFlag {
    /// None.
    Clear,
    /// Against changes; gsiftp:// and sshftp:// only.
    Safe,
    /// Against readers too.
    Private,
}

impl ConnectionFlags {
    /// The options of connections; reads the certificates.
    pub fn options(&self) -> anyhow::Result<ConnectOptions> {
        let mut options = ConnectOptions::default();
        if let Some(timeout) = self.timeout {
            options.connect_within = timeout;
            options.reply_within = timeout;
            options.stall = timeout;
        }
        self.choose_access(&mut options)?;
        options.protect = self.protect.map(|level| match level {
            ProtectFlag::Clear => Level::Clear,
            ProtectFlag::Safe => Level::Integrity,
            ProtectFlag::Private => Level::Private,
        });
        options.family = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::V4),
            (false, true) => Some(Family::V6),
            (false, false) => None,
        };
        options.proxies = Proxies::read(std::env::var_os);
        let globus = || -> anyhow::Result<_> {
            let text = std::env::var_os("GLOBUS_TCP_PORT_RANGE").unwrap_or_default();
            let text = text.to_string_lossy();
            let range = text.trim().replace(' ', ",");
            let bad = |why| anyhow::anyhow!("GLOBUS_TCP_PORT_RANGE: {text}: {why}");
            let named = Some(&*range).filter(|range| !range.is_empty());
            named.map(|range| ports(range).map_err(bad)).transpose()
        };
        options.data_ports = match self.data_ports {
            Some(ports) => Some(ports),
            None => globus()?,
        };
        Ok(options)
    }

    /// Sets the choices that may be others at each server; reads the certificates.
    pub fn choose_access(&self, options: &mut ConnectOptions) -> anyhow::Result<()> {
        options.trust_pasv = self.trust_pasv_address;
        options.remote_program.clone_from(&self.remote_program);
        options.security = match self.security {
            SecurityFlag::Auto => Security::Auto,
            SecurityFlag::None => Security::None,
            SecurityFlag::Tls => Security::Tls,
            SecurityFlag::Implicit => Security::Implicit,
        };
        if let Some(path) = &self.ca {
            options.roots = Roots::pem_path(path)?;
        }
        if let Some(cert) = &self.cert {
            let key = self.key.as_ref().unwrap_or(cert);
            options.identity = Some(Identity::pem_files(cert, key)?);
        }
        self.grid.choose(&mut options.grid);
        Ok(())
    }
}

/// Reads a range of ports.
fn ports(text: &str) -> Result<PortRange, String> {
    let range = text.parse::<PortRange>();
    range.map_err(|_| "write a range of ports, such as 50000-51000".to_owned())
}

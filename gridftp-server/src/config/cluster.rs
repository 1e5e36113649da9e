//! The options of front ends and data nodes.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

/// The port at which a front end awaits its data nodes.
pub const CLUSTER_PORT: u16 = 2812;

/// The section `[cluster]` of the file, and the same as flags of `front` and `node`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// Folder with the cluster certificate of this host, as `cluster init` or `cluster join` made
    /// it [default: /etc/gridftp/cluster].
    #[arg(
        id = "cluster",
        long = "cluster",
        value_name = "DIR",
        help_heading = "Cluster"
    )]
    pub folder: Option<PathBuf>,

    /// At a front end: address for data nodes that dial it and for hosts that join [default: port
    /// 2812 of every address]. At a node: address for front ends that dial it [default: none].
    #[arg(
        id = "cluster-listen",
        long = "cluster-listen",
        value_name = "ADDR:PORT",
        help_heading = "Cluster"
    )]
    pub listen: Option<SocketAddr>,

    /// Front end that this node dials, as HOST:PORT; may be repeated.
    #[arg(
        id = "front",
        long = "front",
        value_name = "HOST:PORT",
        help_heading = "Cluster"
    )]
    pub fronts: Vec<String>,

    /// Data node that this front end dials, as HOST:PORT, for nodes that do not dial it; may be
    /// repeated.
    #[arg(
        id = "node",
        long = "node",
        value_name = "HOST:PORT",
        help_heading = "Cluster"
    )]
    pub nodes: Vec<String>,

    /// Front end with the authority of the cluster, as HOST:PORT, for a further front end that renews
    /// its certificate there.
    #[arg(
        id = "authority",
        long = "authority",
        value_name = "HOST:PORT",
        help_heading = "Cluster"
    )]
    pub authority: Option<String>,

    /// Most data nodes of one transfer [default: 16].
    #[arg(
        id = "stripes",
        long = "stripes",
        value_name = "N",
        help_heading = "Cluster"
    )]
    pub stripes: Option<u32>,

    /// Use the data nodes only for clients that ask for stripes (SPAS, SPOR); the front end itself
    /// moves the data of others.
    #[arg(id = "hybrid", long = "hybrid", help_heading = "Cluster")]
    pub hybrid: bool,

    /// Transfers that this node is meant to run at a time; front ends place transfers in proportion
    /// [default: 64].
    #[arg(
        id = "capacity",
        long = "capacity",
        value_name = "N",
        help_heading = "Cluster"
    )]
    pub capacity: Option<u32>,
}

impl ClusterOptions {
    /// Completes the absent options from the file.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        let all = |own: Vec<String>, file| if own.is_empty() { file } else { own };
        Self {
            folder: self.folder.or(file.folder),
            listen: self.listen.or(file.listen),
            fronts: all(self.fronts, file.fronts),
            nodes: all(self.nodes, file.nodes),
            authority: self.authority.or(file.authority),
            stripes: self.stripes.or(file.stripes),
            hybrid: self.hybrid || file.hybrid,
            capacity: self.capacity.or(file.capacity),
        }
    }

    /// The folder with the certificate.
    pub fn folder(&self) -> PathBuf {
        let folder = self.folder.clone();
        folder.unwrap_or_else(|| "/etc/gridftp/cluster".into())
    }

    /// The address for data nodes at a front end.
    pub fn front_address(&self) -> SocketAddr {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), CLUSTER_PORT);
        self.listen.unwrap_or(any)
    }
}

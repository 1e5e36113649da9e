//! Real programs in temporary trees, shared by the suites, the benches and the demo.
//!
//! Everything here drives processes from the outside. A [`Tree`] holds files whose content follows
//! from a seed. A [`Host`] is one server, ours or the Globus one, on a free port; dropping it ends
//! the server. [`run()`] runs a client under a deadline. A [`Relay`] sits between the two and
//! breaks connections on demand.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_errors_doc,
    reason = "every error ends the test or chore that meets it, and its message gives the cause"
)]

mod changes;
mod cluster;
mod daemon;
mod digest;
mod ftp_server;
mod grid;
mod host;
mod inetd;
mod listening;
mod network;
mod noise;
mod object_server;
mod odd;
mod openssl;
mod ours;
mod peers;
mod relay;
mod rewrite;
mod run;
mod sshd;
mod tree;
mod xioperf;

pub use changes::{kill_once, wait_for_files};
pub use cluster::{Cluster, ClusterPlan, Place};
pub use daemon::Daemon;
pub use digest::{Digests, same_file, same_tree, sha256, sha256_of, sha256_range, tree_digests};
pub use ftp_server::{FtpServer, FtpServerKind, FtpTls, python};
pub use grid::GridLab;
pub use host::{Host, file_url};
pub use inetd::Inetd;
pub use listening::listens_at;
pub use network::{CutOff, in_own_network};
pub use noise::Noise;
pub use object_server::{ObjectServer, ObjectServerKind};
pub use odd::{OddTree, UNNAMEABLE};
pub use openssl::Openssl;
pub use ours::{Profile, binaries, binary, peers_folder, programs_folder};
pub use peers::{Origin, Peer, is_root, skip};
pub use relay::{Break, Relay};
pub use rewrite::host_port;
pub use run::{Finished, bytes_read, run, run_with_input};
pub use sshd::Sshd;
pub use tree::Tree;
pub use xio_testkit::ftp::{Reaction, ScriptedServer, block};
pub use xioperf::{globus_xioperf, globus_xioperf_addr};

//! Real programs in temporary trees: what suites, benches and the demo share.
//!
//! Everything here drives processes from the outside: a [`Tree`] holds files whose content follows from a seed,
//! a [`Host`] is one server (ours or the Globus one) on a port of its own that ends when the value is dropped,
//! [`run()`] runs a client under a deadline, and a [`Relay`] sits between the two and breaks connections on demand.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_errors_doc,
    reason = "every error here ends the test or the chore that met it, and its message says why"
)]

mod daemon;
mod digest;
mod ftp_server;
mod host;
mod inetd;
mod noise;
mod odd;
mod openssl;
mod ours;
mod peers;
mod played;
mod relay;
mod rewrite;
mod run;
mod tree;
mod xioperf;

pub use daemon::Daemon;
pub use digest::{Digests, sha256, sha256_range, tree_digests};
pub use ftp_server::{FtpServer, FtpServerKind, python};
pub use host::{Host, file_url};
pub use inetd::Inetd;
pub use noise::Noise;
pub use odd::{OddTree, UNNAMEABLE};
pub use openssl::Openssl;
pub use ours::{Profile, binaries, binary, peers_folder, programs_folder};
pub use peers::{Peer, is_root};
pub use played::{Act, Played};
pub use relay::{Break, Relay};
pub use run::{Finished, run};
pub use tree::Tree;
pub use xioperf::{globus_xioperf, globus_xioperf_place};

//! A GridFTP server: the library behind the daemon `gridftp-server`.
//!
//! # Embedding
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gridftp_server::Server;
//! use gridftp_server::config::{Access, Config, Options};
//!
//! let mut options = Options::default();
//! options.bind = Some([127, 0, 0, 1].into());
//! options.port = Some(0);
//! options.anonymous = Some(Access::Ro);
//!
//! let server = Server::bind(Config::check(&options)?, gridftp_dsi_null::Null::default())?;
//! println!("serving zeros at {}", server.local_addr());
//! let stop = async { /* a signal, a channel, a timer */ };
//! let hurry = std::future::pending();
//! server.run(stop, hurry).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! | Module | Its part |
//! | --- | --- |
//! | [`config`] | Flags and file, checked once |
//! | [`storage`] | Storages by name |
//! | [`check`](mod@check) | Findings about the set-up, for `gridftp-server check` |
//! | [`auth`] | Accounts, password hashes, lockout |
//! | [`log`], `log_queue` | The log and its transfer lines |
//! | `server`, `accept`, `admission`, `control` | Accepting, limits, draining |
//! | `stdio` | One session on a stream that is handed over, as standard input and output under ssh |
//! | `session`, `outbox` | One control connection: drives `ftp_proto`'s machine without decisions of its own |
//! | `upgrade`, `certificates` | Handshakes on control connections, and logins by certificate |
//! | `action`, `set_up`, `names`, `listing`, `archive`, `data` | The machine's actions, run against storage and data channel |
//! | `nodes` | Transfers on data nodes: the front end's side and the node's |
//! | `grid`, `certificates` | Who clients are by their certificates |
//! | `reply_for` | The one table from errors to replies |
//! | [`manual`] | The administrator's manual |
#![forbid(unsafe_code)]

mod accept;
mod action;
mod admission;
mod archive;
pub mod auth;
mod certificates;
pub mod check;
pub mod config;
mod control;
mod data;
mod error;
mod grid;
mod listing;
pub mod log;
mod log_queue;
pub mod manual;
mod names;
mod nodes;
mod outbox;
mod owners;
mod reply_for;
mod server;
mod session;
mod set_up;
mod stdio;
pub mod storage;
mod transfer_log;
mod upgrade;

pub use nodes::{DataNode, Front};
pub use server::{Control, Server};
pub use stdio::{serve_stdio, serve_stream};

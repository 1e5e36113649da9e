//! GridFTP client: library and the gridftp-cp program.
//!
//! A download, an upload and a copy from server to server are one call: [`copy()`] with
//! [`Location`]s. A [`Client`] is one session, for work on names and listings.
//!
//! ```no_run
//! use std::sync::Arc;
//! use gridftp_client::{CopyOptions, Location, Silent, Totals, copy};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = CopyOptions::default();
//! options.recursive = true;
//! let from = [Location::parse("ftp://data.example.org:2811/run7/")?];
//! let to = Location::parse("/scratch/run7/")?;
//! let summary = copy(&from, &to, options, Arc::new(Silent::default()), Arc::new(Totals::default())).await?;
//! assert_eq!(summary.counts.files_failed, 0);
//! # Ok(())
//! # }
//! ```
//!
//! | Module | What it owns |
//! | --- | --- |
//! | [`url`] | what may be named, and how its text is read |
//! | [`options`] | what a caller may choose |
//! | [`client`] | one session: login, features, names |
//! | [`list`], [`glob`] | listings, and wildcards matched against them |
//! | [`file`](mod@file) | one file as bytes in order: a reader, a writer |
//! | [`copy`](mod@copy) | many files over several sessions |
//! | [`progress`] | events and counts |
//! | [`error`] | which side, which operation, which path, what to try |
//! | [`netrc`] | accounts from a `.netrc` |
//! | [`local`], [`names`], [`verify`] | local trees, safe names, digests |
//!
//! # How a broken transfer goes on
//!
//! | Transfer | What the next try brings |
//! | --- | --- |
//! | download | what is missing here: `REST` with ranges in MODE E, with an offset in MODE S |
//! | upload in MODE E | what the server's 111 markers did not name, if the source is unchanged |
//! | upload in MODE S | what is behind the bytes that the server is known to have, if the source is unchanged: see below |
//! | server to server | as an upload, if the source server says that its file is unchanged |
//! | standard input or output, a FIFO | nothing: what was read or written is gone |
//!
//! MODE S has no markers, so the server is asked how much it has, on whatever connection: the first
//! may be lost. What it has may be older, somebody else's, or hold holes, so it has to be proven:
//!
//! - Our own server keeps the bytes apart. `SITE HELD` tells how many (`HELD` in `FEAT`), and
//!   `SITE STORATTR` tells it the digest of the source, without which it publishes nothing.
//! - A server that leaves them under the final name, as the Globus server does, tells their number
//!   by `SIZE`. They count if `CKSM` gives the digest that as many bytes of the source have.
//!
//! The rest follows by `REST` and `STOR`, or by `APPE` where `REST` is refused. Without such a proof,
//! all of the file is sent again.
//!
//! MODE S has no mark for the end of a file either, so after an upload the server is asked for its
//! size; our own is told it before, and takes nothing shorter for the whole.
//!
//! # What a cancelled transfer leaves
//!
//! Every future may be dropped. The data connections are then reset, so that no peer takes a
//! cut-off file for a whole one, and a [`copy()`] closes its control connections. A download that
//! was not published is removed. Of an upload, the server keeps what it keeps of any broken
//! connection; our own server publishes nothing and keeps the partial file for a restart.
#![forbid(unsafe_code)]

pub mod abilities;
pub mod client;
mod connect_error;
mod control;
pub mod copy;
pub mod error;
pub mod file;
pub mod glob;
pub mod list;
pub mod local;
mod moving;
pub mod names;
pub mod netrc;
mod objects;
pub mod options;
#[cfg(test)]
mod played;
pub mod progress;
mod setup;
mod stacks;
mod text;
pub mod url;
pub mod verify;

pub use client::Client;
pub use copy::{Summary, copy};
pub use options::{ConnectOptions, CopyOptions};
pub use progress::{Event, Observer, Silent, Totals};
pub use url::{Location, Site};

//! The grammar of the FTP and GridFTP control channel: bytes to values and back.
//!
//! No state beyond an unfinished line, no clock, no socket.
//!
//! | Module | Reads and writes | Specification |
//! | --- | --- | --- |
//! | [`mod@line`] | lines, Telnet commands | RFC 959 §5.3, RFC 854 |
//! | [`command`], [`parse`] | commands | RFC 959 §4.1, RFC 2389, RFC 2428, RFC 3659, GFD.20 |
//! | [`opts`] | `OPTS` | RFC 2389 §4, RFC 3659 §7.9, GFD.20 |
//! | [`reply`], [`reply_parser`] | replies | RFC 959 §4.2 |
//! | [`addr`] | addresses in commands and replies | RFC 959 §4.1.2, RFC 2428, GFD.20 |
//! | [`attribute`] | extended attributes | |
//! | [`facts`] | times, facts, listing lines | RFC 3659 §2.3, §7 |
//! | [`feat`] | `FEAT` | RFC 2389 §3 |
//! | [`marker`] | 111, 112 and 113 | GFD.20 |
//! | [`module`] | modules of `ERET` and `ESTO` | GFD.20 |
//! | [`partial`] | lists of partial files | |
//! | [`path`] | paths, the quotes of 257 | RFC 959, appendix II |
//! | [`error`] | errors with their position | |
//!
//! ```
//! use ftp_wire::command::Command;
//! use ftp_wire::line::LineSplitter;
//! use ftp_wire::reply::Reply;
//!
//! let mut lines = LineSplitter::new();
//! lines.push(b"SIZE /data/a b.nc\r\nFROB\r\n");
//! let size = Command::parse(lines.next_line().unwrap()?)?;
//! assert_eq!(size.to_string(), "SIZE /data/a b.nc");
//! let bad = Command::parse(lines.next_line().unwrap()?).unwrap_err();
//! let reply = Reply::new(bad.code(), bad.to_string());
//! assert_eq!(reply.to_string(), "500 unknown command\r\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![expect(
    clippy::exhaustive_enums,
    reason = "the server and the client match every variant, so the compiler names what a new one touches"
)]

pub mod addr;
mod args;
pub mod attribute;
pub mod command;
pub mod error;
pub mod facts;
pub mod feat;
pub mod glob;
pub mod line;
mod listing;
pub mod marker;
pub mod memory;
pub mod module;
pub mod opts;
pub mod parse;
pub mod partial;
pub mod path;
pub mod receipt;
pub mod reply;
pub mod reply_parser;
mod site;
pub mod stored;
mod tagged;
mod time;
pub mod waits;
mod write;

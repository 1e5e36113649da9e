//! Moves one file or listing over the data connections of one transfer, for both ends.
//!
//! Server and client set up a [`DataChannel`] (`PASV` listens, `PORT` connects) and pass it a
//! source or a sink of [`gridftp_dsi`], a plan, and a [`Watch`], which reports the progress:
//!
//! | | MODE S: one connection | MODE E: any number, blocks with offsets |
//! | --- | --- | --- |
//! | send | file to socket by send-file | each block to a writable connection |
//! | receive | pooled blocks, read ahead by one | the same on each, more may open at any time |
//! | afterwards | closed, which ends the file | kept for the next transfer |
//!
//! With a tag of [`Extent::Whole`](ftp_wire::receipt::Extent::Whole) the sender tells the digest of the
//! file on the data channel, in MODE S by a trailer behind the data, which also tells a whole file from
//! one that was cut off.
//!
//! One transfer is one future: it waits for no lock, and dropping it aborts the transfer. The
//! channel also has tasks that end with it: one attends its listener, and for a bounded time one
//! reads and discards the rest of a file that could not be stored. If a layer's end mark cannot be
//! written at once, a task writes it that outlives the channel, for a minute at most.
//!
//! A sender in MODE E may open more connections than carry data at first. It measures itself, and has
//! twice as many carry blocks as long as that raises the rate of the file; those that are not needed
//! get their end-of-data mark, at the latest half a minute behind the last change.
//!
//! A connection that waits for its peer holds no block, only about a kilobyte of its own, or some
//! 16 KiB of text in `TYPE A`.
#![forbid(unsafe_code)]
#![expect(
    clippy::exhaustive_enums,
    reason = "the server and the client match every variant, so the compiler names what a new one touches"
)]

mod channel;
mod conn;
mod descriptors;
mod digest;
mod earlier;
mod error;
mod limit;
mod listener;
mod memory;
mod network;
mod options;
pub mod pack;
mod plan;
mod process;
mod receive;
mod refused;
mod send;
mod setup;
#[cfg(test)]
mod tests;
mod text;
mod trailer;
mod wait;
mod watch;

pub use channel::DataChannel;
pub use descriptors::{Descriptors, Permit};
pub use earlier::Earlier;
pub use error::{Error, ErrorKind, Result, Wait};
pub use limit::Limit;
pub use memory::{PartMemory, PartRoom};
pub use network::{BadNetwork, Network};
pub use options::{Options, Peers};
pub use plan::{ReceivePlan, Received, SendPlan, Sent};
pub use process::{forbid_core_dumps, raise_descriptors};
pub use receive::Consumer;
pub use send::Chunks;
pub use watch::{RemoteSend, Stage, Times, Told, Watch};

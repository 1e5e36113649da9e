//! Moves one file or listing over the data connections of one transfer, for both ends.
//!
//! Server and client set a [`DataChannel`] up (`PASV` listens, `PORT` connects) and hand it a
//! source or a sink of [`gridftp_dsi`], a plan, and a [`Watch`] through which an onlooker follows
//! the transfer:
//!
//! | | one connection, its end is the file's (MODE S) | any number, blocks with offsets (MODE E) |
//! | --- | --- | --- |
//! | send | file to socket by send-file, clean end only when all is out | blocks dealt to whichever connection is free |
//! | receive | pooled blocks, read ahead by one | the same on every connection; more may come at any time |
//! | afterwards | closed | kept for the next transfer |
//!
//! One transfer is one future: no lock is waited for, and dropping it aborts. Beside it the channel has
//! tasks that end with it: one that looks after its listener, and for a bounded time one that reads and
//! forgets the rest of a file that could not be stored. Only an end mark that a layer cannot write at once
//! is written by a task that outlives the channel, for a minute at most.
//!
//! A connection that waits for its peer holds no block, only about a kilobyte of its own, or a piece of
//! text of some 16 KiB where there is something to translate.
#![forbid(unsafe_code)]
#![expect(
    clippy::exhaustive_enums,
    reason = "the server and the client match every variant, so the compiler names what a new one touches"
)]

mod channel;
mod conn;
mod descriptors;
mod error;
mod head;
mod listener;
mod options;
mod plan;
mod receive;
mod send;
mod setup;
#[cfg(test)]
mod tests;
mod text;
mod wait;
mod watch;

pub use channel::DataChannel;
pub use descriptors::{Descriptors, Permit};
pub use error::{Error, ErrorKind, Result, Wait};
pub use options::{Options, Peers};
pub use plan::{ReceivePlan, Received, SendPlan, Sent};
pub use receive::Consumer;
pub use send::Chunks;
pub use watch::Watch;

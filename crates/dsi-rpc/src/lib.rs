//! Storage that another process serves, over gRPC: the client and the server.
//!
//! [`Remote`] is a [`Dsi`](gridftp_dsi::Dsi) whose calls go to one of its [`Peers`]; [`Served`]
//! answers them from any storage. The service is `proto/storage.proto`. This crate opens no
//! connections: `gridftp-dsi-process` calls a process on this host over a Unix socket, and
//! `gridftp-cluster` the data nodes of a front end.
//!
//! An open file is a handle of the peer that opened it, valid on that connection alone, and at most
//! [`MAX_HANDLES`] on one. Its bytes move by a descriptor that the peer passes, or by calls.
//!
//! The values of groups of an upload, which a storage records for one that continues it, cross with the
//! records; bytes that have none are hashed by the peer, so that they need not cross for a digest.
//!
//! # Failures
//!
//! A call whose connection fails is repeated at another peer if it did not begin, or if it changes
//! nothing. Without another peer the error is
//! [`ErrorKind::Unavailable`](gridftp_dsi::ErrorKind::Unavailable); where the change may have been
//! made it is [`ErrorKind::Io`](gridftp_dsi::ErrorKind::Io).
//!
//! The partial files of a directory are asked of all peers, since each may have an index of its own. A
//! peer that fails, or is older than the call, tells none, and the log names it.
#![forbid(unsafe_code)]

mod caller;
mod closing;
mod content;
mod convert;
mod failure;
mod groups;
mod handle;
mod objects;
mod partials;
mod peers;
pub mod proto;
mod remote;
mod served;
mod table;
#[cfg(test)]
mod tests;

pub use crate::caller::Caller;
pub use crate::convert::{MAX_RANGES, VERSION};
pub use crate::failure::refused;
pub use crate::objects::{RemoteListing, RemoteSink, RemoteSource};
pub use crate::peers::{Choice, Peer, Peers};
pub use crate::remote::Remote;
pub use crate::served::Served;
pub use crate::table::MAX_HANDLES;

/// A client of the service.
pub type Client = proto::storage_client::StorageClient<Caller>;

/// Most bytes of a file in one call.
const BLOCK: usize = 1 << 20;

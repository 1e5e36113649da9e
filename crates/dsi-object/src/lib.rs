//! Object stores behind the storage interface: S3, Google Cloud Storage, Azure, a local directory.
//!
//! [`Objects`] serves the objects below a prefix as a tree. A path is a key byte for byte, so every
//! key that is UTF-8 text without control characters and empty components has its name; other names
//! are refused. A directory is a prefix of keys, or an empty object `.gridftp-directory` in it.
//!
//! - **Reading**: several requests at a time, ahead of the reader, within
//!   [`Config::read_ahead`] bytes, and within [`Config::read_memory`] for all readers together.
//!   Readers without room wait for those before them. Every request names the opened version.
//! - **Writing**: one request for an object of at most one part, else an upload in parts straight
//!   to the final key, where it appears with the last request. Parts are max(8 MiB, length / 9000)
//!   long, or an eighth of [`Config::memory`] when the length is unknown, and arrive in
//!   any order.
//! - **Restart**: a journal in [`Config::index`] has the upload and its parts, so that a later
//!   process continues it, also while the earlier one is frozen;
//!   [`Dsi::expire`](gridftp_dsi::Dsi::expire) ends the old ones. An upload is kept in the same way
//!   when the store sends no reply to its completion.
//! - **Renaming** copies each object and removes it, unless it was replaced meanwhile, and is
//!   refused above the 5 GiB that S3 copies. It is not atomic for a directory.
//! - **Checksums** are computed from the bytes. The expected digest of an upload in parts is
//!   computed as they pass in order ([`Sink::will_check`](gridftp_dsi::Sink::will_check)). That of
//!   parts out of order, or of an earlier process, can only be checked once they are published: an
//!   object with another digest is removed then, and an older object is not replaced so.
//!
//! Stores keep their own times, change no part of an object, and have no links, modes or groups.
//! A directory of this machine (`file:///path`) is for tests: symbolic links in it are followed, and
//! names that no key has, devices and the like are left out.
//! Refusals such as `503 Slow Down` are repeated within [`Config::retry`].
#![forbid(unsafe_code)]

mod ahead;
mod backend;
mod checksum;
mod chunk;
mod entry;
mod error;
mod handles;
mod journal;
mod key;
mod listing;
mod local;
mod names;
mod outcome;
mod owner;
mod parts;
mod publish;
mod sink;
mod source;
mod store;
mod url;
mod values;

pub use backend::Objects;
pub use listing::ObjectListing;
pub use sink::ObjectSink;
pub use source::ObjectSource;
pub use store::Config;

//! A directory tree behind the storage interface, confined beneath one descriptor.
//!
//! **Confined**: every path of a user is resolved by the kernel (`openat2`), beneath a descriptor
//! of the root that is opened once. There is no step between checking a path and using it.
//!
//! **Followed**: symbolic links that stay in the tree. **Refused**: those that leave it, absolute
//! ones included, and the magic links of `/proc`.
//!
//! **Served**: regular files and directories. FIFOs, devices and sockets are listed; they are never
//! opened, so nobody can make the server wait on one or disturb who does.
//!
//! **Kept whole**: an upload has a hidden name beside its target until it is complete; a small
//! file, where its size is known, has none at all. What a broken one leaves can be continued, by
//! the record of what it holds, until it expires. An index at the top of the tree names all of them,
//! so that nothing ever walks the tree.
//!
//! Calls that may block run on the blocking threads of the tokio runtime, one change of threads for each
//! operation; the runtime bounds their number.
//!
//! [`FileSource`] and [`FileSink`] also serve a program's own files, by ordinary paths.
#![forbid(unsafe_code)]

mod backend;
mod blocking;
mod complete;
mod copy;
mod expire;
mod first;
mod in_place;
mod index;
mod journal;
mod late;
mod listing;
mod names;
mod ops;
mod partial;
mod remove;
mod root;
mod stat;
mod uninterrupted;
mod unnamed;
mod whole;

pub mod checksum;
pub mod error;
pub mod file;
pub mod sink;

pub use backend::Posix;
pub use file::FileSource;
pub use listing::DirListing;
pub use sink::FileSink;

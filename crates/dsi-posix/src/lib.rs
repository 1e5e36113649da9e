//! A directory tree behind the storage interface, confined beneath one descriptor.
//!
//! **Confined**: the kernel resolves every path of a user (`openat2`), beneath a descriptor of the
//! root that is opened once. There is no step between checking a path and using it.
//!
//! **Followed**: symbolic links that stay in the tree. **Refused**: those that leave it, absolute
//! ones included, and the magic links of `/proc`.
//!
//! **Served**: regular files and directories. FIFOs, devices and sockets are listed, but never
//! opened, so that a client can neither block the server on one nor disturb its users.
//!
//! **Kept whole**: an upload has a hidden name beside its target until it is complete; a small file
//! of known size has none at all. The partial file of an interrupted upload can be continued, by
//! the record of its ranges, until it expires; after a crash of the machine by that of the ranges
//! which were synced, if a digest proves the whole file. An index at the top of the tree lists all
//! partial files, so that the tree is never walked.
//!
//! **Shared**: processes on several hosts write to one upload if its owner lets them. Their file
//! system must show the locks of one host to all others: NFS 4 and GPFS do, Lustre does if it is
//! mounted with `flock`, SMB refuses the writes of others under a lock.
//!
//! Calls that may block run on the blocking threads of the tokio runtime, one change of threads for
//! each operation; the runtime bounds their number.
//!
//! [`FileSource`] and [`FileSink`] also serve a program's own files, by ordinary paths.
#![forbid(unsafe_code)]

mod attributes;
mod backend;
mod blocking;
mod complete;
mod copy;
mod expire;
mod first;
mod group_file;
mod in_place;
mod index;
mod journal;
pub mod kept;
mod late;
mod listing;
mod names;
mod new_name;
mod ops;
mod partial;
mod remove;
mod root;
mod shared;
mod stat;
mod sums;
mod uninterrupted;
mod unnamed;
mod uploads;
mod whole;

pub mod checksum;
pub mod error;
pub mod file;
pub mod sink;

pub use attributes::{dir_attributes, set_dir_attribute};
pub use backend::Posix;
pub use file::FileSource;
pub use group_file::GroupFile;
pub use journal::Origin;
pub use listing::DirListing;
pub use sink::FileSink;

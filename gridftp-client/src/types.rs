//! Types of other crates that stand in signatures here.

pub use bytes::Bytes;
pub use ftp_wire::command::{Mode, Secret};
pub use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet, TimeVal};
pub use ftp_wire::reply::Reply;
pub use gridftp_dsi::types::ChecksumAlgorithm;

//! Types of other crates that stand in signatures here.

pub use bytes::Bytes;
pub use ftp_proto::client::FailureKind;
pub use ftp_wire::command::{Mode, Secret};
pub use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet, TimeVal};
pub use ftp_wire::memory::MemoryLimits;
pub use ftp_wire::reply::Reply;
pub use gridftp_dsi::types::ChecksumAlgorithm;
pub use gsi::credential::CredentialError;
pub use gsi::finding::{Finding, Verdict};
pub use xio_core::PathStats;

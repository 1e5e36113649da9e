//! The storage interface: what a backend must offer the server.
#![forbid(unsafe_code)]

pub mod capability;
pub mod dsi;
pub mod erased;
pub mod error;
pub mod file;
pub mod types;

pub use dsi::Dsi;
pub use erased::{BoxListing, BoxSink, BoxSource, DynDsi};
pub use error::{Error, ErrorKind, Result};
pub use file::{Finish, Listing, Sink, Source};
pub use types::{
    Capabilities, ChecksumAlgorithm, Create, DsiPath, Kind, Meta, Progress, Stat, User, WriteModel,
};

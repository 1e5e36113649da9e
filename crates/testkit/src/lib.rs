//! Test doubles and conformance suites for drivers and storage backends.
//!
//! | Part | Purpose |
//! | --- | --- |
//! | [`Mem`] | connections in memory with reads and writes of chosen sizes |
//! | [`Fault`] | a layer that delays, breaks, truncates or corrupts, by a seed |
//! | [`Authority`] | certificates for one test, valid and invalid |
//! | [`Random`] | numbers and bytes that follow from a seed |
//! | [`driver_suite`] | requirements on every driver of byte streams |
//! | [`option_suite`] | requirements on the options of every driver |
//! | [`datagram_suite`] | requirements on every datagram socket |
//! | [`dsi_suite`] | requirements on every storage backend, and on one that is read-only |
//! | [`Chaos`] | a storage that is slow, gives short reads, fails or crashes, by a seed |
//! | `Grid`, of the feature `grid` | an authority of Grid security with users, hosts and proxies |
//! | `ftp`, a feature | an FTP server in memory, scripted command by command |

#![forbid(unsafe_code)]

mod authority;
mod chaos;
pub mod datagram_suite;
pub mod driver_suite;
pub mod dsi_suite;
mod fault;
#[cfg(feature = "ftp")]
pub mod ftp;
#[cfg(feature = "grid")]
mod grid;
mod mem;
pub mod option_suite;
mod random;

pub use authority::{Authority, Credential, Validity};
pub use chaos::{Chaos, ChaosOptions, Chaotic, ChaoticListing};
pub use fault::{Fault, FaultOptions, Faulty, driver as fault_driver};
#[cfg(feature = "grid")]
pub use grid::Grid;
pub use mem::{Mem, MemHandle, MemIncoming, MemListener, driver as mem_driver};
pub use random::Random;

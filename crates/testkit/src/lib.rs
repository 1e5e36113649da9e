//! Doubles and conformance suites for drivers and storage backends.
//!
//! | Part | For |
//! | --- | --- |
//! | [`Mem`] | connections in memory whose reads and writes are as short as one likes |
//! | [`Fault`] | a layer that delays, breaks, cuts off or corrupts, by a seed |
//! | [`Authority`] | certificates made on the spot, good ones and bad ones |
//! | [`Random`] | numbers and bytes that a seed fixes |
//! | [`driver_suite`] | what every driver of byte streams must do |
//! | [`option_suite`] | what the options of every driver must do |
//! | [`datagram_suite`] | what every datagram socket must do |
//! | [`dsi_suite`] | what every storage backend must do |

#![forbid(unsafe_code)]

mod authority;
pub mod datagram_suite;
pub mod driver_suite;
pub mod dsi_suite;
mod fault;
mod mem;
pub mod option_suite;
mod random;

pub use authority::{Authority, Credential, Validity};
pub use fault::{Fault, FaultOptions, Faulty, driver as fault_driver};
pub use mem::{Mem, MemHandle, MemIncoming, MemListener, driver as mem_driver};
pub use random::Random;

//! Code shared by the benches: an emulated link, pictures, costs of processes, raw sessions,
//! ratios.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_errors_doc,
    reason = "every error ends the bench, and its message gives the cause"
)]

pub mod link;
pub mod machine;
pub mod options;
pub mod paired;
pub mod picture;
pub mod ratio;
pub mod session;
pub mod shape;
pub mod usage;
pub mod way;

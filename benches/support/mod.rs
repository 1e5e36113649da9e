//! What benches share: an emulated link, pictures, the cost of processes, raw sessions, and ratios.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_errors_doc,
    reason = "every error here ends the bench that met it, and its message says why"
)]

pub mod link;
pub mod machine;
pub mod middle;
pub mod options;
pub mod picture;
pub mod ratio;
pub mod session;
pub mod shape;
pub mod usage;
pub mod way;

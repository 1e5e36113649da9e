//! Code shared by the benches: their frame, copies of a file, an emulated link, pictures, programs and their costs, raw sessions,
//! records of AES-GCM, ratios.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_errors_doc,
    reason = "every error ends the bench, and its message gives the cause"
)]

pub mod copying;
pub mod frame;
pub mod link;
pub mod machine;
pub mod options;
pub mod pair;
pub mod paired;
pub mod picture;
pub mod ratio;
pub mod records;
pub mod session;
pub mod shape;
pub mod star;
pub mod usage;
pub mod way;

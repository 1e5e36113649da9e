//! The storage interface: what a backend must offer the server.
#![forbid(unsafe_code)]

pub mod dsi;
pub mod error;
pub mod file;
pub mod types;

//! The administrator's manual.

pub mod config;
pub mod deviations;
pub mod grid;
pub mod security;
pub mod ssh;
pub mod start;
pub mod tls;

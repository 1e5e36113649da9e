//! The administrator's manual.

pub mod config;
pub mod deviations;
pub mod security;
pub mod start;

//! The administrator's manual.

pub mod archive;
pub mod cluster;
pub mod config;
pub mod deviations;
pub mod gateway;
pub mod grid;
pub mod modules;
pub mod objects;
pub mod process;
pub mod security;
pub mod ssh;
pub mod start;
pub mod tls;

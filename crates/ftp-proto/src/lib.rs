//! Both ends of the GridFTP control conversation as state machines, without I/O.
#![forbid(unsafe_code)]

pub mod client;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod server;
pub mod types;

#[cfg(test)]
mod tests;

//! Both ends of the GridFTP control conversation as state machines, without I/O.
#![forbid(unsafe_code)]

pub mod types;

//! The grammar of the FTP and GridFTP control channel: bytes to values and back.
#![forbid(unsafe_code)]

pub mod command;
pub mod facts;
pub mod opts;
pub mod path;
pub mod reply;

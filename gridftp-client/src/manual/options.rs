//! The options of the programs, each with an example, at the first command that has it.
//!
//! `--help` of a command tells more of them, and `--man` writes that as a manual page.
#![doc = include_str!("options/gridftp-cp.md")]
#![doc = include_str!("options/gridftp.md")]
#![doc = include_str!("options/globus-url-copy.md")]

//! Our programs against the Globus programs, curl, lftp and others; digests are compared.
//!
//! [`matrix`] crosses operations with flags, with `globus-url-copy` against our server and with
//! `gridftp-cp` against the Globus server; third-party copies run between the two servers in both
//! directions. [`captured`] tests further flags of `globus-url-copy`. A missing peer is reported on
//! standard error.
#![forbid(unsafe_code)]

mod bed;
mod captured;
mod cases;
mod cluster;
mod curl;
mod foreign;
mod ftps;
mod gateway;
mod grid;
mod http;
mod interrupted;
mod lftp;
mod matrix;
mod names;
mod object;
#[path = "../udt/peer.rs"]
#[expect(clippy::unwrap_used, reason = "a failed test names its line")]
mod peer;
mod proxy;
mod relay;
mod remote;
mod restart;
mod resume;
mod settled;
mod ssh;
mod striped;
mod tls;
mod tls_servers;
mod udt;

//! Our programs against the Globus programs, curl and lftp, digests compared every time.
//!
//! [`matrix`] crosses every operation with every way to run it, once with `globus-url-copy` against our server and once
//! with `gridftp-cp` against the Globus server; third-party copies run between the two servers in both directions.
//! [`captured`] holds what the matrix has no column for. A missing peer is said on standard error, never passed over.
#![forbid(unsafe_code)]

mod bed;
mod captured;
mod curl;
mod foreign;
mod http;
mod interrupted;
mod lftp;
mod matrix;
mod names;
#[path = "../udt/peer.rs"]
#[expect(clippy::unwrap_used, reason = "a test that fails says where by itself")]
mod peer;
mod remote;
mod restart;
mod resume;
mod rows;
mod tls;
mod udt;

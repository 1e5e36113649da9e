//! UDT against libudt and `globus-xioperf`: every way to connect, both directions, with and without
//! loss.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that fails says where by itself"
)]

mod matrix;
mod messages;
mod peer;
mod relay;
mod xioperf;

use std::future::Future;

/// Runs one end's part on a thread of its own.
fn block_on<F: Future>(part: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(part)
}

//! UDT against libudt and `globus-xioperf`: every way to connect, both directions, with and without
//! loss.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a failed test names its line"
)]

mod matrix;
mod messages;
mod peer;
mod relay;
mod xioperf;

use std::future::Future;

/// Runs a future on a runtime of the calling thread.
fn block_on<F: Future>(part: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(part)
}

//! The server over real sockets: one server per test, stopped by drop.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "a test's helpers fail like the test itself, and a skipped test says so"
)]

mod chaos;
mod control;
mod data;
#[path = "../../../crates/dsi-process/tests/support/mod.rs"]
mod example;
mod exclusive;
mod faults;
mod files;
mod foreign;
mod full;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "gateway")]
mod gateway_uploads;
mod grid;
mod grid_borrowed;
mod grid_support;
mod help;
mod kept;
mod killed;
mod load;
mod login;
mod measured;
mod memory;
mod mode_e;
mod modules;
mod names;
mod narrowed;
mod nodes;
mod nodes_ends;
mod nodes_frozen;
mod nodes_storage;
mod nodes_tagged;
#[cfg(feature = "object")]
mod object;
mod process;
mod process_storage;
mod rate;
mod restart;
mod secrets;
mod stacks;
mod staged;
mod stalls;
mod stdio;
mod stuck;
mod support;
mod tagged;
mod tls;
mod tls_support;
mod trailed;
mod tree;

/// The storage of a server of a test.
fn storage(root: &std::path::Path) -> std::sync::Arc<dyn gridftp_dsi::DynDsi> {
    std::sync::Arc::new(gridftp_dsi_posix::Posix::open(root).unwrap())
}

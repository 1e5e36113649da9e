//! Feeds `checks/gsi_gridmap.rs`.
#![no_main]

#[path = "../checks/gsi_gridmap.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

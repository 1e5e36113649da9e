//! Feeds `checks/gsi_request.rs`.
#![no_main]

#[path = "../checks/gsi_request.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

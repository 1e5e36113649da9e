//! Feeds `checks/gsi_name.rs`.
#![no_main]

#[path = "../checks/gsi_name.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

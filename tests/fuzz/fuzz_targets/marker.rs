//! Feeds `checks/marker.rs`.
#![no_main]

#[path = "../checks/marker.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

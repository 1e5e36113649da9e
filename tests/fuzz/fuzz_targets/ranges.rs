//! Feeds `checks/ranges.rs`.
#![no_main]

#[path = "../checks/ranges.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

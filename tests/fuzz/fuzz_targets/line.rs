//! Feeds `checks/line.rs`.
#![no_main]

#[path = "../checks/line.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

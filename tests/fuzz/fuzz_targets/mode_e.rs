//! Feeds `checks/mode_e.rs`.
#![no_main]

#[path = "../checks/mode_e.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

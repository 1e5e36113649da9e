//! Feeds `checks/gsi_lines.rs`.
#![no_main]

#[path = "../checks/gsi_lines.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

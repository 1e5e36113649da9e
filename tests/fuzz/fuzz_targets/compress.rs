//! Feeds `checks/compress.rs`.
#![no_main]

#[path = "../checks/compress.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

//! Feeds `checks/verify.rs`.
#![no_main]

#[path = "../checks/verify.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

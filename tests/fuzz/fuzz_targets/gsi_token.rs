//! Feeds `checks/gsi_token.rs`.
#![no_main]

#[path = "../checks/gsi_token.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

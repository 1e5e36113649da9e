//! Feeds `checks/gsi_greeting.rs`.
#![no_main]

#[path = "../checks/gsi_greeting.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

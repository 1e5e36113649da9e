//! Feeds `checks/addr.rs`.
#![no_main]

#[path = "../checks/addr.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

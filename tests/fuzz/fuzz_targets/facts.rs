//! Feeds `checks/facts.rs`.
#![no_main]

#[path = "../checks/facts.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

//! Feeds `checks/command.rs`.
#![no_main]

#[path = "../checks/command.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

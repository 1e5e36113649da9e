//! Feeds `checks/telnet.rs`.
#![no_main]

#[path = "../checks/telnet.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

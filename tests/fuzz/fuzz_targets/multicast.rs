//! Feeds `checks/multicast.rs`.
#![no_main]

#[path = "../checks/multicast.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

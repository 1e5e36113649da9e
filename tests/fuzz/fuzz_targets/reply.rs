//! Feeds `checks/reply.rs`.
#![no_main]

#[path = "../checks/reply.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

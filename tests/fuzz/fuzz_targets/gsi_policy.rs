//! Feeds `checks/gsi_policy.rs`.
#![no_main]

#[path = "../checks/gsi_policy.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

//! Feeds `checks/gsi_revocations.rs`.
#![no_main]

#[path = "../checks/gsi_revocations.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

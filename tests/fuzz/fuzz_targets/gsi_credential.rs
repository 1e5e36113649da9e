//! Feeds `checks/gsi_credential.rs`.
#![no_main]

#[path = "../checks/gsi_credential.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

//! Feeds `checks/gsi_certificate.rs`.
#![no_main]

#[path = "../checks/gsi_certificate.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

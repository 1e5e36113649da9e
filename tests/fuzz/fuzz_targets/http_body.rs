//! Feeds `checks/http_body.rs`.
#![no_main]

#[path = "../checks/http_body.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

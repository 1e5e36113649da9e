//! Feeds `checks/plan.rs`.
#![no_main]

#[path = "../checks/plan.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));

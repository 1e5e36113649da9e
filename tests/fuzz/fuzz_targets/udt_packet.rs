//! Fuzzes the parser of UDT packets, with the checks of `udt_proto::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| udt_proto::fuzzing::packet(bytes));

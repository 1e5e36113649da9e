//! Fuzzes the parser of UDT packets; `udt_proto::fuzzing` says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| udt_proto::fuzzing::packet(bytes));

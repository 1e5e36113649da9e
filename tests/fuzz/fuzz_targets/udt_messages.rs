//! Fuzzes a pair of UDT machines for messages by operations; `udt_proto::fuzzing` says how they are written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| udt_proto::fuzzing::messages(bytes));

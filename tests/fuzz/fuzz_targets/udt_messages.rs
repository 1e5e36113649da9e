//! Fuzzes a pair of UDT machines for messages by operations, in the encoding of
//! `udt_proto::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| udt_proto::fuzzing::messages(bytes));

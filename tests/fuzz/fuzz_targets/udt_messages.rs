//! Fuzzes a pair of UDT machines for messages by operations, encoded as `udt_proto::fuzzing` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| udt_proto::fuzzing::messages(bytes));

//! Fuzzes the server's session machine by operations, encoded as `ftp_proto::fuzzing` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftp_proto::fuzzing::server(bytes));
